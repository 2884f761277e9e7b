// Sizes of tensors. A dimension is a number, or a multiple of the batch: one graph serves every batch size.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <plimsoll/dtype.h>

namespace plimsoll {

class Dim {
 public:
  // Throws Error when negative. A size is a dimension.
  constexpr Dim(int64_t size = 0) : code_(size) {  // NOLINT(google-explicit-constructor)
    if (size < 0) refuse(size);
  }
  static constexpr Dim batch(int64_t times = 1) {
    if (times < 1) refuse(times);
    return Dim(-times, Raw{});
  }

  constexpr bool is_batch() const { return code_ < 0; }
  // The factor of the batch, or the size itself.
  constexpr int64_t count() const { return code_ < 0 ? -code_ : code_; }
  constexpr int64_t at(int64_t batch) const { return code_ < 0 ? -code_ * batch : code_; }
  // The size of a dimension that must not depend on the batch; throws Error otherwise.
  int64_t fixed() const;

  friend constexpr bool operator==(Dim a, Dim b) { return a.code_ == b.code_; }
  friend Dim operator*(Dim a, Dim b);  // throws Error for batch x batch
  friend Dim operator/(Dim a, int64_t b);

 private:
  struct Raw {};
  constexpr Dim(int64_t code, Raw) : code_(code) {}
  [[noreturn]] static void refuse(int64_t size);
  int64_t code_;  // >= 0: the size; < 0: minus the factor of the batch
};

constexpr int kMaxRank = 8;

// A short list, kept inline.
template <class T>
class Ranked {
 public:
  constexpr Ranked() = default;
  constexpr Ranked(std::initializer_list<T> items) {  // NOLINT: shapes are written {2, 3}
    for (const T& item : items) push_back(item);
  }
  static Ranked filled(int rank, T value) {
    Ranked r;
    for (int i = 0; i < rank; ++i) r.push_back(value);
    return r;
  }
  template <class Range>
  static Ranked from(const Range& items) {
    Ranked r;
    for (const auto& item : items) r.push_back(static_cast<T>(item));
    return r;
  }

  constexpr int rank() const { return rank_; }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr T& operator[](int i) { return items_[static_cast<size_t>(i)]; }
  constexpr const T& operator[](int i) const { return items_[static_cast<size_t>(i)]; }
  constexpr T* begin() { return items_.data(); }
  constexpr T* end() { return items_.data() + rank_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + rank_; }
  constexpr const T* data() const { return items_.data(); }
  constexpr T back() const { return items_[static_cast<size_t>(rank_) - 1]; }
  constexpr void push_back(T item) {
    if (rank_ >= kMaxRank) too_long();
    items_[static_cast<size_t>(rank_++)] = item;
  }
  constexpr void insert(int at, T item) {
    push_back(item);
    for (int i = rank_ - 1; i > at; --i) (*this)[i] = (*this)[i - 1];
    (*this)[at] = item;
  }
  constexpr void erase(int at) {
    for (int i = at; i + 1 < rank_; ++i) (*this)[i] = (*this)[i + 1];
    --rank_;
  }
  friend constexpr bool operator==(const Ranked& a, const Ranked& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }

 private:
  [[noreturn]] static void too_long();
  std::array<T, kMaxRank> items_{};
  int rank_ = 0;
};

using Shape = Ranked<Dim>;     // may depend on the batch
using Dims = Ranked<int64_t>;  // plain numbers

Dims at_batch(const Shape& shape, int64_t batch);
int64_t element_count(const Dims& dims);
// Number of elements, a multiple of the batch if any dimension is.
Dim element_count(const Shape& shape);
Shape broadcast(const Shape& a, const Shape& b);  // numpy rules; throws Error

std::string to_string(Dim dim);             // "32", "B", "128B"
std::string to_string(const Shape& shape);  // "[B,3,224,224]"
std::string to_string(const Dims& dims);
Dim parse_dim(std::string_view text);
Shape parse_shape(std::string_view text);

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // "f32[B,10]"

}  // namespace plimsoll

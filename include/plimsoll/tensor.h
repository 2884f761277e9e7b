// Tensors: what they are (element type and sizes, which may depend on the batch) and the handle that users hold.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll {

namespace graph {
class Body;
class Recorder;
struct Held;
void keep(Held* held) noexcept;
void let_go(Held* held) noexcept;
}  // namespace graph
class Graph;

// A size: a number, or a multiple of the batch, so that one graph serves every batch size.
class Dim {
 public:
  // Implicit, so that a shape is written {2, 3}. Throws Error when negative.
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
  // Those with an index that is not there, or without elements, throw Error.
  constexpr T back() const {
    expect(rank_ - 1, rank_);
    return items_[static_cast<size_t>(rank_) - 1];
  }
  constexpr void push_back(T item) {
    if (rank_ >= kMaxRank) too_long();
    items_[static_cast<size_t>(rank_++)] = item;
  }
  constexpr void insert(int at, T item) {
    expect(at, rank_ + 1);
    push_back(item);
    for (int i = rank_ - 1; i > at; --i) (*this)[i] = (*this)[i - 1];
    (*this)[at] = item;
  }
  constexpr void erase(int at) {
    expect(at, rank_);
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
  static constexpr void expect(int index, int end) {
    if (index < 0 || index >= end) outside(index, end);
  }
  [[noreturn]] static void too_long();
  [[noreturn]] static void outside(int index, int end);
  std::array<T, kMaxRank> items_{};
  int rank_ = 0;
};

using Shape = Ranked<Dim>;     // may depend on the batch
using Dims = Ranked<int64_t>;  // plain numbers

Dims at_batch(const Shape& shape, int64_t batch);
int64_t element_count(const Dims& dims);
// Number of elements, a multiple of the batch if any dimension is.
Dim element_count(const Shape& shape);

std::string to_string(Dim dim);             // "32", "B", "128B"
std::string to_string(const Shape& shape);  // "[B,3,224,224]"
std::string to_string(const Dims& dims);

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // "f32[B,10]"

using ValueId = int32_t;  // of a tensor within its graph
using NodeId = int32_t;   // of an operation within its graph

// The name of an operation, and where in the program it was called. Empty: the operator's name, made unique.
class Name : public std::string_view {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Name(std::source_location where = std::source_location::current()) : where_(where) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  template <class Text>
  requires std::convertible_to<const Text&, std::string_view>
  constexpr Name(const Text& text, std::source_location where = std::source_location::current())
      : std::string_view(text), where_(where) {}
  constexpr const std::source_location& where() const { return where_; }

 private:
  std::source_location where_;
};

// A value: of a graph being built, or of eager code (<plimsoll/eager.h>), where it has numbers. Copies are handles to
// the same value; an eager one lives for as long as a handle to it, or something still to be computed from it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph& graph, ValueId id);
  explicit Tensor(graph::Held* held) : held_(held) {}  // takes over one reference
  Tensor(const Tensor& other) noexcept : owner_(other.owner_), held_(other.held_), id_(other.id_) {
    if (held_ != nullptr) graph::keep(held_);
  }
  Tensor(Tensor&& other) noexcept
      : owner_(std::move(other.owner_)), held_(std::exchange(other.held_, nullptr)), id_(other.id_) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(held_, other.held_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Tensor() {
    if (held_ != nullptr) graph::let_go(held_);
  }

  bool is_set() const { return owner_ != nullptr || held_ != nullptr; }
  bool is_eager() const { return held_ != nullptr; }
  // The body of its graph, as an address to compare: null when unset, or when the graph is gone. Of an eager value,
  // that of the recorded graph.
  const graph::Body* owner() const { return held_ != nullptr ? recorded_in() : owner_ == nullptr ? nullptr : *owner_; }
  ValueId id() const { return held_ == nullptr ? id_ : recorded_as(); }

  // These throw Error when the tensor is unset, or its graph is gone.
  Graph& graph() const;
  const TensorType& type() const;
  Shape shape() const { return type().shape; }  // a copy: the graph's values move while it grows
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  // Negative axes count from the end; throws Error for one that is not there.
  Dim dim(int axis) const;
  std::string_view name() const;

  // Of eager values: what is still to be computed is computed now. Others have no numbers and throw Error.
  template <Element T>
  T item() const {  // the only element
    T number;
    read(dtype_of<T>(), &number, 1, true);
    return number;
  }
  template <Element T>
  std::vector<T> to_vector() const {  // row-major
    std::vector<T> numbers(elements());
    read(dtype_of<T>(), numbers.data(), numbers.size(), false);
    return numbers;
  }
  template <Element T>
  void copy_to(std::span<T> numbers) const {  // throws Error unless there is room for exactly all elements
    read(dtype_of<T>(), numbers.data(), numbers.size(), false);
  }
  // An eager variable takes a value of its type, or a scalar for all elements. Values computed before stay as they are.
  void assign(const Tensor& value) const;
  void assign_add(const Tensor& value) const;
  void assign_sub(const Tensor& value) const;
  // Element or row i of the first dimension; negative numbers count from the end.
  Tensor operator[](int64_t i) const;

  friend bool operator==(const Tensor& a, const Tensor& b) {
    return a.held_ == b.held_ && a.owner_ == b.owner_ && (a.held_ != nullptr || a.id_ == b.id_);
  }
  graph::Held* held() const { return held_; }  // null for a value of a graph

 private:
  graph::Body& body() const;
  const graph::Body* recorded_in() const;
  ValueId recorded_as() const;
  size_t elements() const;
  void read(DType dtype, void* into, size_t elements, bool is_item) const;

  std::shared_ptr<graph::Body* const> owner_ = {};  // to null when the graph is gone
  graph::Held* held_ = nullptr;
  ValueId id_ = -1;
};

// A gradient is dense, or row-sparse: `value` holds the rows of a table that `rows` names (with repeats).
struct Gradient {
  Tensor value;
  Tensor rows;
  bool is_set() const { return value.is_set(); }
  bool is_sparse() const { return rows.is_set(); }
};

}  // namespace plimsoll

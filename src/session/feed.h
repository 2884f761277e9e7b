// What goes into a step and what comes out of it: numbers in host memory with their element type.
#pragma once

#include <atomic>
#include <memory>
#include <ranges>
#include <span>

#include "graph/tensor.h"

namespace plimsoll {

template <class Range>
concept NumberRange = std::ranges::contiguous_range<Range> && std::ranges::borrowed_range<Range> &&
    Element<std::ranges::range_value_t<Range>>;

// Host memory that a placeholder takes its value from: row-major. The memory must live until the run is over.
struct Feed {
  Tensor placeholder;
  DType dtype;
  const void* data;
  Bytes bytes;

  // Any contiguous range of numbers that stays where it is: a vector, a span, an array.
  template <NumberRange Numbers>
  Feed(Tensor to, Numbers&& numbers)
      : Feed(to, std::ranges::data(numbers),
             static_cast<Bytes>(std::ranges::size(numbers) * sizeof(std::ranges::range_value_t<Numbers>))) {}
  template <Element T>
  Feed(Tensor to, const T* numbers, Bytes size) : Feed(to, dtype_of<T>(), numbers, size) {}
  // Memory whose type the compiler does not know.
  Feed(Tensor to, DType type, const void* from, Bytes size) : placeholder(to), dtype(type), data(from), bytes(size) {}
};

// A fetched value, in place: it changes with the next run, and can't be read any more when the session is closed.
class View {
 public:
  View(DType type, const Dims& sizes, const void* data, Bytes size, std::shared_ptr<const std::atomic<bool>> is_open)
      : dtype(type), dims(sizes), bytes(size), data_(data), is_open_(std::move(is_open)) {}

  DType dtype;
  Dims dims;
  Bytes bytes;

  // These throw Error when the session is closed, or the value is of another type.
  const void* data() const;
  template <Element T>
  std::span<const T> as() const {
    expect_type(dtype_of<T>());
    return {static_cast<const T*>(data()), static_cast<size_t>(bytes) / sizeof(T)};
  }
  std::span<const float> floats() const { return as<float>(); }

 private:
  void expect_type(DType wanted) const;

  const void* data_;
  std::shared_ptr<const std::atomic<bool>> is_open_;
};

}  // namespace plimsoll

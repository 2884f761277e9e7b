// Eager code: operators run on numbers, and the line is kept. What is called is recorded and runs when somebody looks
// (an item, a copy, a print) or when enough is pending. Values that the program still holds may together exceed the
// line: the cheapest are dropped and computed again, or spilled where a scratch folder is given.
//
//   Eager eager(line);
//   Tensor x = normal({256, 256});
//   Tensor y = softmax(matmul(x, x));
//   std::cout << y << '\n' << reduce_sum(y).item<float>() << '\n';
//
// One Eager is for one thread: the thread that made it. Tensors of two can't be mixed.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/dataset.h>
#include <plimsoll/graph.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/ops.h>

namespace plimsoll {

namespace eager {
class EagerEngine;
void expect_count(size_t numbers, const Dims& dims);  // throws Error unless dims have so many elements
}  // namespace eager

struct EagerOptions {
  uint64_t seed = 1;  // of random numbers, initial variables and dropout
  // A folder on a disk for values that memory has no room for; empty: none is spilled.
  std::string scratch_folder = {};
  Bytes disk_limit = 0;               // of the file there; 0: 16 times the line
  Bytes plan_cache_bytes = 32 * MiB;  // plans that are kept for code that comes again
};

// Counts since the start.
struct EagerFacts {
  int64_t plans = 0;         // pieces of code that were planned
  double planning_ms = 0;    // that planning took
  int64_t cached_plans = 0;  // that are kept now
  int64_t dropped = 0;       // values that were dropped to make room
  int64_t spilled = 0;
  int64_t recomputed = 0;  // dropped values that were computed again
  int64_t values = 0;      // that exist now
  int64_t pending = 0;     // operators that are recorded and did not run yet
};

// While it lives, functions that make tensors from numbers work on it, in this thread. They may be nested: the
// innermost counts.
class Eager {
 public:
  explicit Eager(const MemoryLine& line, const EagerOptions& options = {});
  ~Eager();
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  // The variable of that name, made when there is none; its handle always shows its latest value.
  Tensor variable(std::string_view name, const Shape& shape, const Init& init, VariableRole role = VariableRole::Weight,
                  std::source_location where = std::source_location::current());
  std::vector<Tensor> variables(VariableRole role = VariableRole::Weight) const;  // in the order they were made
  const std::shared_ptr<VariableStore>& store() const;
  void run();  // all that is recorded
  EagerFacts facts() const;
  const MemoryLine& line() const;
  eager::EagerEngine& engine() const { return *engine_; }

 private:
  std::shared_ptr<eager::EagerEngine> engine_;
};

using Where = std::source_location;

// Tensors from numbers, in the innermost Eager of this thread. Throw Error when there is none.
Tensor tensor(DType dtype, const void* numbers, const Dims& dims, Where where = Where::current());
template <std::ranges::contiguous_range Numbers>
requires Element<std::ranges::range_value_t<Numbers>> Tensor tensor(const Numbers& numbers, const Dims& dims,
                                                                    Where where = Where::current()) {
  eager::expect_count(std::ranges::size(numbers), dims);
  return tensor(dtype_of<std::ranges::range_value_t<Numbers>>(), std::ranges::data(numbers), dims, where);
}
template <Element T>
Tensor tensor(std::initializer_list<T> numbers, Where where = Where::current()) {
  return tensor(dtype_of<T>(), numbers.begin(), {static_cast<int64_t>(numbers.size())}, where);
}
template <Element T>
Tensor scalar(T number, Where where = Where::current()) {
  return tensor(dtype_of<T>(), &number, {}, where);
}
Tensor zeros(const Dims& dims, DType dtype = DType::F32, Where where = Where::current());
Tensor ones(const Dims& dims, DType dtype = DType::F32, Where where = Where::current());
Tensor full(const Dims& dims, double number, DType dtype = DType::F32, Where where = Where::current());
// Random numbers: each call draws others, the same in every run of the program with the same seed.
Tensor normal(const Dims& dims, double mean = 0, double deviation = 1, Where where = Where::current());
Tensor uniform(const Dims& dims, double low = 0, double high = 1, Where where = Where::current());
Tensor arange(double end, DType dtype = DType::F32, Where where = Where::current());
Tensor arange(double begin, double end, double step, DType dtype = DType::F32, Where where = Where::current());
Tensor read_npy(const std::string& path, Where where = Where::current());

// The components of an element of a dataset as tensors, in order.
std::vector<Tensor> tensors(const ElementView& element, Where where = Where::current());
// An epoch of a dataset of two components as pairs of tensors. Its stages take their memory from the Eager's line.
//   for (auto [x, y] : pairs(train)) ...
class Pairs {
 public:
  Pairs(const Dataset& dataset, Where where);
  struct End {};
  class Cursor {
   public:
    explicit Cursor(Pairs& of) : of_(of) { ++*this; }
    std::pair<Tensor, Tensor> operator*() const { return at_; }
    Cursor& operator++() {
      at_ = of_.next();
      return *this;
    }
    friend bool operator==(const Cursor& cursor, End) { return !cursor.at_.first.is_set(); }

   private:
    Pairs& of_;
    std::pair<Tensor, Tensor> at_;
  };
  Cursor begin() { return Cursor(*this); }
  static End end() { return {}; }

 private:
  std::pair<Tensor, Tensor> next();
  std::shared_ptr<Iteration> iteration_;
  Where where_;
};
inline Pairs pairs(const Dataset& dataset, Where where = Where::current()) { return {dataset, where}; }

// Shape, type and shortened values: "f32[2,3] [[1, 2, 3], [4, 5, 6]]". Of a tensor of a graph: type and name.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace plimsoll

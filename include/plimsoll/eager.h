// Eager code: operators run on numbers, and the line is kept. Calls of operators are recorded and run when a value is
// read (an item, a copy, a print) or when enough is pending. Values that the program still holds may together exceed
// the line: the cheapest are dropped and computed again, or spilled where a scratch folder is given. Tape
// differentiates eager code; function() traces it once for many calls.
//
//   Eager eager(line);
//   Tensor x = normal({256, 256});
//   Tensor y = softmax(matmul(x, x));
//   std::cout << y << '\n' << reduce_sum(y).item<float>() << '\n';
//
// One Eager is for one thread: the thread that made it. Tensors of two can't be mixed.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <plimsoll/dataset.h>
#include <plimsoll/graph.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/ops.h>
#include <plimsoll/tensor.h>

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

// While it lives, functions that make tensors from numbers make them in it, in this thread. Eagers may be nested: the
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
  // All variables, those of models and of optimisers, as a safetensors file that also holds where random numbers stand:
  // a loop that loads it into a new Eager goes on with the same bits. A crash leaves the old file or the new one.
  // Variables of the file that the code has not made yet get their numbers when it makes them. Throw Error(BadData) for
  // a damaged file or one of other code.
  void save(const std::string& path);
  void load(const std::string& path);
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
Tensor linspace(double low, double high, int64_t count, Where where = Where::current());  // both ends included
// Ones on the diagonal, else zeros; columns 0: as many as rows.
Tensor eye(int64_t rows, int64_t columns = 0, DType dtype = DType::F32, Where where = Where::current());
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

// Gradients of eager code, as with TensorFlow's GradientTape: what is computed while a tape lives can be
// differentiated.
//
//   Tape tape;
//   Tensor loss = sparse_cross_entropy(net(x, true), y);
//   adam.apply(tape.gradient(loss, net.weights()), net.weights());

namespace eager {
class TapeState;
}

struct TapeOptions {
  bool persistent = false;      // gradient may be called several times
  bool watch_variables = true;  // all trained variables, by themselves
};

// In the innermost Eager of its thread. Tapes may be nested: the outer one differentiates the inner one's gradients.
class Tape {
 public:
  explicit Tape(const TapeOptions& options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // From now on, what is computed from this tensor can be differentiated with respect to it.
  void watch(const Tensor& tensor);

  // The gradient of `target`, or of the sum of its elements, for each of `sources`: unset where the two are not
  // connected or the source is not watched. Of a table whose rows were gathered it is row-sparse. A second call throws
  // Error unless the tape is persistent. `seed`, of the target's shape, weighs its elements.
  std::vector<Gradient> gradient(const Tensor& target, std::span<const Tensor> sources, const Tensor& seed = {},
                                 std::source_location where = std::source_location::current());
  std::vector<Gradient> gradient(const Tensor& target, const std::vector<Tensor>& sources, const Tensor& seed = {},
                                 std::source_location where = std::source_location::current()) {
    return gradient(target, std::span<const Tensor>(sources), seed, where);
  }
  // Dense; unset where they are not connected.
  Tensor gradient(const Tensor& target, const Tensor& source, const Tensor& seed = {},
                  std::source_location where = std::source_location::current());

 private:
  std::unique_ptr<eager::TapeState> state_;
};

// A function of tensors that is traced once for each signature and then called without recording it again.
//
//   auto heavy = function([](Tensor x) { return softmax(matmul(x, x)); });
//   Tensor y = heavy(normal({256, 256}));
//
// A signature is the types and shapes of tensors, and the values of numbers that are given as numbers. Variables and
// other eager tensors that the function uses without being given them are captured: variables by name, others as they
// are when the function is traced. Results equal those of the same code without `function`, to the last bit; gradients
// flow through. C++ control flow decides while tracing: a condition on item() of a traced tensor is refused.

struct FunctionOptions {
  int64_t cache = 32;            // traces that are kept; the least recently used goes
  Bytes cache_bytes = 16 * MiB;  // that they take together
  // The first dimension of every tensor with dimensions is the batch: one trace serves all batch sizes.
  bool open_batch = false;
  // Hears after five calls in a row that were traced anew, with the reason. Unset: FunctionFacts::warning keeps it.
  std::function<void(const std::string& why)> warn = {};
};

struct FunctionFacts {
  int64_t traces = 0;  // made so far
  int64_t kept = 0;
  int64_t calls = 0;
  std::string warning = {};  // the last one
};

namespace eager {

class Traces;

// The part of Traced that does not depend on the type of the function.
class TracedCode {
 public:
  using Body = std::function<std::vector<Tensor>(std::span<const Tensor> tensors)>;
  explicit TracedCode(FunctionOptions options);
  std::vector<Tensor> call(std::span<const Tensor> tensors, std::span<const uint64_t> numbers, const Body& body,
                           const std::source_location& where);
  FunctionFacts facts() const;

 private:
  std::shared_ptr<Traces> traces_;
};

template <class T>
concept FunctionNumber = std::integral<T> || std::floating_point<T>;

}  // namespace eager

template <class Body>
class Traced {
 public:
  Traced(Body body, FunctionOptions options) : body_(std::move(body)), traced_(std::move(options)) {}

  // Tensors and numbers; gives what the function gives: a tensor, or a vector of them.
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) const {
    std::vector<Tensor> tensors;
    std::vector<uint64_t> numbers;
    (collect(arguments, tensors, numbers), ...);
    using Result = std::invoke_result_t<const Body&, Arguments...>;
    const auto trace = [&](std::span<const Tensor> traced) {
      size_t next = 0;
      const std::tuple<Arguments...> given{pick(arguments, traced, next)...};
      const Result result = std::apply(body_, given);
      if constexpr (std::is_same_v<Result, std::vector<Tensor>>)
        return result;
      else
        return std::vector<Tensor>{result};
    };
    std::vector<Tensor> results = traced_.call(tensors, numbers, trace, std::source_location::current());
    if constexpr (std::is_same_v<Result, std::vector<Tensor>>)
      return results;
    else
      return Tensor(results.at(0));
  }

  FunctionFacts facts() const { return traced_.facts(); }

 private:
  static void collect(const Tensor& tensor, std::vector<Tensor>& tensors, std::vector<uint64_t>& /*numbers*/) {
    tensors.push_back(tensor);
  }
  template <eager::FunctionNumber Number>
  static void collect(Number number, std::vector<Tensor>& /*tensors*/, std::vector<uint64_t>& numbers) {
    if constexpr (std::floating_point<Number>)
      numbers.push_back(std::bit_cast<uint64_t>(static_cast<double>(number)));
    else
      numbers.push_back(static_cast<uint64_t>(number));
  }
  static Tensor pick(const Tensor& /*given*/, std::span<const Tensor> traced, size_t& next) { return traced[next++]; }
  template <eager::FunctionNumber Number>
  static Number pick(Number given, std::span<const Tensor> /*traced*/, size_t& /*next*/) {
    return given;
  }

  Body body_;
  mutable eager::TracedCode traced_;
};

template <class Body>
Traced<Body> function(Body body, FunctionOptions options = {}) {
  return {std::move(body), std::move(options)};
}

}  // namespace plimsoll

// A function of tensors that is traced once for each signature and then called without recording it again.
//
//   auto heavy = function([](Tensor x) { return softmax(matmul(x, x)); });
//   Tensor y = heavy(normal({256, 256}));
//
// A signature is the types and shapes of tensors, and the values of numbers that are given as numbers. Variables and
// other eager tensors that the function uses without being given them are captured: variables by name, others as they
// are when the function is traced. Results equal those of the same code without `function`, to the last bit; gradients
// flow through. C++ control flow decides while tracing: a condition on item() of a traced tensor is refused.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

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

// What Traced shares for all types of functions.
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

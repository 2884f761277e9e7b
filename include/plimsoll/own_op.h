// Operators of one's own, beside those of <plimsoll/ops.h>: planned, differentiated and run as all others.
//
//   const OwnOp swirl = register_op({
//       .name = "swirl",
//       .shape = [](const OpInputs& n) { return std::vector{n.types[0]}; },
//       .kernel = [](const KernelCall& call) noexcept { ... call.in[0].as<float>() ... call.out[0].as<float>() ... },
//       .gradient = [](const OpGradient& g) { return std::vector{g.dy[0] * cos(g.x[0])}; },
//   });
//   Tensor y = swirl({x});
//
// Operators are registered once, before graphs that use them are built, and stay for the life of the process. A library
// that is loaded with dlopen registers its own when a static object of it is made.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>

namespace plimsoll {

namespace graph {
struct Op;
}

// Settings of a call by name.
using OpSettings = std::map<std::string, double, std::less<>>;

// The element types and shapes of a call's inputs. Throw Error for those that do not match.
struct OpInputs {
  std::span<const TensorType> types;
  const OpSettings& settings;
};

// The same with every size known.
struct OpSizes {
  std::span<const Dims> in, out;
  const OpSettings& settings;
};

// Row-major numbers of an input or an output.
struct OpValue {
  DType dtype = DType::F32;
  const Dims* dims = nullptr;
  std::byte* bytes = nullptr;
  int64_t count = 0;
};
struct OpInput : private OpValue {
  explicit OpInput(const OpValue& value) : OpValue(value) {}
  const Dims& sizes() const { return *dims; }
  DType type() const { return dtype; }
  template <Element T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes), static_cast<size_t>(count)};
  }
};
struct OpOutput : private OpValue {
  explicit OpOutput(const OpValue& value) : OpValue(value) {}
  const Dims& sizes() const { return *dims; }
  DType type() const { return dtype; }
  template <Element T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(bytes), static_cast<size_t>(count)};
  }
};

// All that a kernel may touch. It allocates nothing, writes to nothing but outputs and workspace, and gives the same
// bits for any number of threads.
struct KernelCall {
  std::span<const OpInput> in;
  std::span<const OpOutput> out;
  std::span<std::byte> workspace;
  const OpSettings& settings;
};

// Inputs and outputs of a call, and the gradients of the outputs; unset where none flows.
struct OpGradient {
  std::span<const Tensor> x, y, dy;
  OpSettings settings;
};

// A small call by which the operator is tested: inputs are drawn evenly from [low, high).
struct OpSample {
  std::string name;
  std::vector<TensorType> inputs;
  OpSettings settings = {};
  double low = -1, high = 1;
  bool has_gradient = true;
};

struct OpDefinition {
  std::string name;  // of letters, digits and _; no other operator's
  std::function<std::vector<TensorType>(const OpInputs&)> shape;
  void (*kernel)(const KernelCall&) noexcept = nullptr;
  // The gradient of each input, written with operators; unset: none flows. Empty: the operator has no gradient.
  std::function<std::vector<Tensor>(const OpGradient&)> gradient = {};
  std::vector<DTypes> types = {DType::F32};  // that the kernel reads, input by input; the last for all further ones
  std::function<Bytes(const OpSizes&)> workspace = {};
  std::function<double(const OpSizes&)> flops = {};  // for predicted times; empty: that of moving the operands
  // Claims that plans rely on: each is tested on the samples.
  bool is_by_sample = false;    // sample i of each output depends on sample i of the inputs alone
  bool is_recomputable = true;  // a second run gives the same bits
  bool is_in_place = false;     // output 0 may be written over input 0
  // A stored model may hold it: the shape rule refuses all shapes and settings that the kernel is not made for.
  bool is_storable = false;
  std::vector<OpSample> samples = {};
};

// How a registered operator is called.
class OwnOp {
 public:
  explicit OwnOp(const graph::Op& op) : op_(&op) {}
  Tensor operator()(std::span<const Tensor> inputs, const OpSettings& settings = {}, Name name = {}) const;
  Tensor operator()(std::initializer_list<Tensor> inputs, const OpSettings& settings = {}, Name name = {}) const {
    return (*this)(std::span(inputs.begin(), inputs.size()), settings, name);
  }
  // All outputs.
  std::vector<Tensor> outputs(std::span<const Tensor> inputs, const OpSettings& settings = {}, Name name = {}) const;

 private:
  const graph::Op* op_;
};

// Throws Error for a name that is taken, for what is missing, and when 128 are registered.
OwnOp register_op(OpDefinition definition);
// Throws Error for a name that is not registered.
OwnOp find_own_op(std::string_view name);

// y = forward(x) whose gradient is not that of its operators but what `backward` gives: the gradient of each input from
// x, y and dy. Made once, then called as often as needed; it counts as a registered operator.
class CustomGradient {
 public:
  using Forward = std::function<Tensor(std::span<const Tensor> x)>;
  using Rule = std::function<std::vector<Tensor>(const OpGradient&)>;
  CustomGradient(Forward forward, const graph::Op& op) : forward_(std::move(forward)), op_(&op) {}
  Tensor operator()(std::span<const Tensor> x, Name name = {}) const;
  Tensor operator()(std::initializer_list<Tensor> x, Name name = {}) const {
    return (*this)(std::span(x.begin(), x.size()), name);
  }

 private:
  Forward forward_;
  const graph::Op* op_;
};
CustomGradient custom_gradient(CustomGradient::Forward forward, CustomGradient::Rule backward);

}  // namespace plimsoll

// An operator: shape rule, gradient, kernel, cost, traits. Each is defined in one file of ops/.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/error.h>
#include "base/batch_rule.h"
#include "graph/attrs.h"

namespace plimsoll::kernels {
struct Facts;     // kernels/kernel.h: a node with every size known
struct Prepared;  // kernels/kernel.h: its kernel, layouts and workspace
struct TileOp;    // kernels/elementwise.h: an element-wise operator over a short run of floats
}  // namespace plimsoll::kernels
namespace plimsoll::ops {
struct Sample;  // ops/sample.h: a small example that the op test runs
}  // namespace plimsoll::ops

namespace plimsoll::graph {

// The element types that an operator has kernels for, input by input; the last stands for all further inputs.
class InputTypes {
 public:
  constexpr InputTypes(std::initializer_list<DTypes> types) {
    size_t i = 0;
    for (const DTypes& type : types) types_[i++] = type;
    for (; i < kMost; ++i) types_[i] = types_[i - 1];
  }
  constexpr DTypes at(size_t input) const { return types_[input < kMost ? input : kMost - 1]; }

 private:
  static constexpr size_t kMost = 7;
  std::array<DTypes, kMost> types_{};
};

// Shape rule: reads `in` and `attrs`, fills `out`; fail() for inputs that do not match.
struct Infer {
  std::string_view op;
  std::string_view name;
  const Attrs& attrs;
  std::span<const TensorType> in;
  std::vector<TensorType> out;

  [[noreturn]] void fail(const std::string& why) const;  // "conv2d 'stem': <why>"
  void expect_inputs(size_t least, size_t most) const;
  void expect_rank(size_t input, int rank) const;
  // Refuses settings that are not finite.
  void expect_finite(std::string_view key, double otherwise = 0) const;
  void expect_positive(std::string_view key, double otherwise) const;
  void expect_between(std::string_view key, double least, double most, double otherwise) const;
  // Refuses element types that the operator has no kernel for. Runs before the shape rule, which need not check types.
  void expect_types(const InputTypes& types) const;
};

// Gradient rule: from the gradients of the outputs (unset where none flows) to those of the wanted inputs.
struct Backward {
  const Attrs& attrs;
  std::span<const Tensor> x;   // inputs
  std::span<const Tensor> y;   // outputs
  std::span<const Tensor> dy;  // gradients of the outputs
  std::vector<bool> wanted;    // for each input
  std::vector<Gradient> dx;    // for each input, unset = zero
  void give(size_t input, Tensor grad) {
    if (grad.is_set()) dx[input] = {grad, {}};
  }
};

// Claims that the planner relies on, each proven by the op test. A missing claim costs speed or memory; a false one
// fails the test.
struct Traits {
  BatchRule batch = BatchRule::Mixes;
  bool recomputable = false;   // running it again with the same inputs gives the same bits, and changes nothing else
  bool view = false;           // output 0 is the bytes of input 0 under another shape: no kernel, no copy
  bool elementwise = false;    // element i of the output depends on element i of the (broadcast) inputs
  uint32_t in_place = 0;       // bit i: output 0 may be written over input i, if both have the same bytes
  uint32_t updates = 0;        // bit i: input i, a variable, is changed in place
  bool statistics = false;     // an update that a layer adds in its forward pass: part of every training step
  bool plain_updates = false;  // the variables that it changes must be row-major, for all who use them
  // An update treats blocks of this many elements of its variables apart from each other; 0: no claim. Inputs with one
  // number for each block are cut where the variables are.
  int64_t update_block = 0;
  bool source = false;         // has no inputs: its settings say what it gives
  bool exchanges = false;      // talks to other ranks: its task is on the network lane
  std::string_view slim = {};  // how its variant saves workspace, at more time and the same bits; empty: no variant
};

// The work of one run. Constants in it were measured with `plimsoll profile`; only their ratios matter to a plan.
struct Cost {
  double flops = 0;
  double efficiency = 1;  // share of the machine's best matrix product that the kernel reaches at these sizes
  double bytes = 0;       // moved, each pass counted; 0: every operand once
};

struct Op;

// What fusing may rely on beyond Traits: claims that the op test and the tests of each fusion prove. A gradient
// operator names the operator whose gradient it is, so that a rewrite finds the pair without knowing either.
struct Fusion {
  // The name under which other operators apply it to their result (kernels/activation.h), with these settings; empty:
  // none. Its gradient must need the output alone: the value before the activation is not stored.
  std::string_view (*activation)(const Attrs&) = nullptr;
  bool applies_activation = false;  // has a setting `activation`, applied to output 0
  bool sums = false;                // output 0 is input 0 + input 1
  bool joins_chains = true;         // with a tile: may become a step of a fused chain
  // Elements of output 0 are elements of input 0. Output 1 says which; the gradient takes only output 1 and dy.
  bool selects = false;

  const Op* gradient_of = nullptr;
  // A gradient of inputs (dy, y), for an activation of the same settings: dy where y lies between two numbers, else 0.
  struct Between {
    double low, high;
  };
  std::optional<Between> (*passes)(const Attrs&) = nullptr;
  // A gradient that can first go back through an activation that its forward operator applied, one that `passes`
  // describes: has a setting `activation`, and takes the forward operator's input `more` as one more input.
  struct ThroughActivation {
    int dy, x;  // numbers of its inputs; x is the forward operator's input 0
    int more;
  };
  std::optional<ThroughActivation> through_activation = {};
  // One operator computes the forward operator and this gradient together, where nothing else reads what the forward
  // operator kept for its gradient, and the seed of the gradient is computed before the forward operator. Inputs: the
  // forward operator's, then the seed; outputs: output 0 of the forward operator, then the gradient's.
  struct WithForward {
    const Op* op;
    int kept, seed;  // numbers of the gradient's inputs
  };
  std::optional<WithForward> with_forward = {};
};

// How a product is computed in bf16, with sums in f32. Bit i stands for input i.
struct HalfCompute {
  uint32_t takes = 0;  // inputs that may be bf16; the kernel rounds those that are f32
  uint32_t needs = 0;  // those among them that must be bf16
  bool gives = false;  // output 0 may be bf16
};

// Without a shape rule: a function that is composed of operators, with samples of its own. No graph has such a node.
struct Op {
  std::string_view name;
  // A stored model may hold it: an operator of forward passes whose shape rule checks all that its kernel relies on,
  // whatever the shapes and settings. Gradients and updates leave some of it to the code that builds them.
  bool storable = false;
  void (*infer)(Infer&) = nullptr;
  InputTypes types{DType::F32};                                   // those that its kernels read; others are refused
  void (*grad)(Backward&) = nullptr;                              // null: has no gradient
  kernels::Prepared (*prepare)(const kernels::Facts&) = nullptr;  // null only for views
  Cost (*cost)(const kernels::Facts&) = nullptr;                  // null: moves every operand once
  std::vector<ops::Sample> (*samples)() = nullptr;
  Traits traits = {};
  // For operators whose treatment of the batch depends on shapes or settings; null: traits.batch.
  BatchRule (*batch_rule)(const Attrs&, std::span<const TensorType> in) = nullptr;
  const kernels::TileOp* (*tile)() = nullptr;  // element-wise operators: what chains are fused from
  std::string_view onnx = {};                  // ONNX operator that it corresponds to, if one does
  Fusion fusion = {};
  // Products, on a processor that multiplies bf16: how the kernel computes when the setting `compute` is "bf16".
  // Without value where f32 is as fast. `Facts` has the sizes of the whole batch.
  std::optional<HalfCompute> (*half_compute)(const kernels::Facts&) = nullptr;
};

}  // namespace plimsoll::graph

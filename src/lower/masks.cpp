#include "lower/masks.h"

#include <limits>
#include <optional>

#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

// A value that lives for less than 1/kShareOfStep of the step is dropped before the peak matters: no mask.
constexpr int kShareOfStep = 10;
// A sum of gradients is fused into its mask within this many nodes; from further away its two terms would live longer.
constexpr int kNearSum = 3;

bool is_float32(const Draft& draft, ValueId value) { return draft.type(value).dtype == DType::F32; }

// The settings of the mask that says where this node's gradient passes; nothing for other nodes.
std::optional<graph::Attrs> mask_of(const DraftNode& node) {
  if (node.op->fusion.passes == nullptr) return {};
  const std::optional<graph::Fusion::Between> passes = node.op->fusion.passes(*node.attrs);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!passes || passes->low == -kInfinity) return {};
  graph::Attrs settings{{"low", passes->low}};
  if (passes->high < kInfinity) settings.set("high", passes->high);
  return settings;
}

// Bytes that a mask takes for each element when eight along that axis share one.
double bytes_packed_along(const Shape& shape, int axis) {
  if (axis < 0 || axis >= shape.rank() || shape[axis].is_batch()) return 1;
  const int64_t size = shape[axis].count();
  const int64_t bytes = (size + 7) / 8;
  return static_cast<double>(bytes) / static_cast<double>(size);
}

// The channels of images, which lie together in many orders, or the last axis, whichever wastes fewer bits. -1: neither
// would save much.
int packed_axis(const Shape& shape) {
  constexpr double kMost = 0.25;
  const int channels = shape.rank() == 4 ? 1 : -1;
  const int last = shape.rank() - 1;
  const int best = bytes_packed_along(shape, channels) <= bytes_packed_along(shape, last) ? channels : last;
  return bytes_packed_along(shape, best) <= kMost ? best : -1;
}

class Masks {
 public:
  explicit Masks(Draft& draft) : draft_(draft), uses_(draft), stays_(draft.value_count(), false) {
    const std::vector<ValueId> roots = find_roots(draft);
    for (const DraftNode& node : draft.nodes) {
      const bool has_mask = mask_of(node).has_value();
      for (size_t k = 0; k < node.in.size(); ++k)
        if (draft.is_backward(node) && !node.op->traits.view && (!has_mask || k != 1))
          stays_[at(roots[at(node.in[k])])] = true;
    }
    for (const ValueId fetch : draft.fetches) stays_[at(roots[at(fetch)])] = true;
  }

  void run() {
    std::vector<std::vector<DraftNode>> after(draft_.nodes.size());
    for (size_t i = 0; i < draft_.nodes.size(); ++i) {
      if (draft_.nodes[i].op == nullptr) continue;
      const std::optional<graph::Attrs> settings = mask_of(draft_.nodes[i]);
      if (!settings || !is_worth_it(i)) continue;
      const ValueId y = draft_.nodes[i].in[1];
      after[at(uses_.producer(y))].push_back(pack(y, *settings));
      read_mask(i, after[at(uses_.producer(y))].back().out[0]);
    }
    std::vector<DraftNode> nodes;
    for (size_t i = 0; i < draft_.nodes.size(); ++i) {
      nodes.push_back(std::move(draft_.nodes[i]));
      for (DraftNode& node : after[i]) nodes.push_back(std::move(node));
    }
    draft_.nodes = std::move(nodes);
    remove_dead(draft_);
  }

 private:
  static size_t at(int64_t index) { return static_cast<size_t>(index); }

  bool is_worth_it(size_t index) const {
    const ValueId y = draft_.nodes[index].in[1];
    const int producer = uses_.producer(y);
    return producer >= 0 && !draft_.nodes[at(producer)].op->traits.view && is_float32(draft_, y) &&
           is_float32(draft_, draft_.nodes[index].in[0]) && packed_axis(draft_.type(y).shape) >= 0 && !stays_[at(y)] &&
           (static_cast<int>(index) - producer) * kShareOfStep > static_cast<int>(draft_.nodes.size());
  }

  DraftNode pack(ValueId y, graph::Attrs settings) {
    static const graph::Op* const kBitMask = ops::find_op("bit_mask");
    TensorType type{DType::U8, draft_.type(y).shape};
    const int axis = packed_axis(type.shape);
    settings.set("axis", int64_t{axis});
    type.shape[axis] = (type.shape[axis].fixed() + 7) / 8;
    const std::string name = draft_.name(y) + "/mask";
    // Takes y's origin, so that it runs in the same micro-batches.
    const NodeId origin = draft_.nodes[at(uses_.producer(y))].origin;
    return {kBitMask, draft_.keep(std::move(settings)), origin, {y}, {draft_.add_value(type, name)}};
  }

  // A sum of two gradients becomes part of the masked operator, as fuse_elementwise would have done.
  void read_mask(size_t index, ValueId mask) {
    static const graph::Op* const kMasked = ops::find_op("masked");
    DraftNode& node = draft_.nodes[index];
    const int axis = packed_axis(draft_.type(node.in[1]).shape);
    std::vector<ValueId> in{mask, node.in[0]};
    const int sum = uses_.producer(node.in[0]);
    if (sum >= 0 && uses_.count(node.in[0]) == 1 && static_cast<int>(index) - sum <= kNearSum) {
      DraftNode& add = draft_.nodes[at(sum)];
      const auto fits = [&](ValueId value) { return draft_.type(value) == draft_.type(node.in[0]); };
      if (add.op != nullptr && add.op->fusion.sums && fits(add.in[0]) && fits(add.in[1])) {
        in = {mask, add.in[0], add.in[1]};
        add.op = nullptr;
      }
    }
    node.op = kMasked;
    node.attrs = draft_.keep({{"axis", int64_t{axis}}});
    node.in = std::move(in);
  }

  Draft& draft_;
  const Uses uses_;
  std::vector<bool> stays_;  // by value: fetched, or the backward pass reads more of it than a mask could say
};

}  // namespace

void use_masks(Draft& draft) { Masks(draft).run(); }

}  // namespace plimsoll::lower

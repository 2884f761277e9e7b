#include "lower/half_storage.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "kernels/kernel.h"
#include "lower/batch_sizes.h"
#include "ops/fused.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

// Smaller values are a few percent of what a step holds, and not worth three more tasks each.
constexpr Bytes kLeastBytes = 64 * KiB;
// Fewest nodes between the last forward and the first backward reader. Values around the loss live for a few nodes
// only, and precision matters most there.
constexpr int kSoon = 6;

const graph::Op* fused_op() {
  static const graph::Op* const kFused = ops::find_op("fused");
  return kFused;
}

const graph::Op* cast_op() {
  static const graph::Op* const kCast = ops::find_op("cast");
  return kCast;
}

// The forms in which readers take a kept value.
enum HalfForm : size_t { kHalf, kForward, kBackward, kForms };

class HalfRewrite {
 public:
  HalfRewrite(Draft& draft, int64_t batch, DType dtype, bool half_products)
      : draft_(draft), batch_(batch), dtype_(dtype), half_products_(half_products), values_(draft.value_count()) {}

  HalfValues run() {
    look_at_readers();
    half_products_ = half_products_ && has_backward_;
    for (size_t i = 0; i < values_.size(); ++i) values_[i].is_kept = is_worth_it(static_cast<ValueId>(i));
    std::vector<DraftNode> nodes = std::move(draft_.nodes);
    draft_.nodes.clear();
    for (DraftNode& node : nodes) add(std::move(node));
    return kept_;
  }

 private:
  struct About {
    ValueId root = -1;  // the value whose bytes these are; itself unless a view made it
    const DraftNode* view = nullptr;
    NodeId origin = -1;  // of the node that makes it
    // Numbers of reading nodes: of a root, over all its views; -1: none.
    int last_forward = -1, first_backward = -1;
    bool is_fetched = false;
    bool is_kept = false;
    std::array<ValueId, kForms> forms{-1, -1, -1};
  };

  About& about(ValueId value) { return values_[static_cast<size_t>(value)]; }
  About& root_of(ValueId value) { return about(about(value).root); }

  void look_at_readers() {
    const std::vector<ValueId> roots = find_roots(draft_);
    for (size_t i = 0; i < values_.size(); ++i) values_[i].root = roots[i];
    views_.reserve(draft_.nodes.size());
    for (size_t i = 0; i < draft_.nodes.size(); ++i) {
      const DraftNode& node = draft_.nodes[i];
      if (node.op->traits.view) {
        views_.push_back(node);
        about(node.out[0]).view = &views_.back();
        continue;
      }
      has_backward_ = has_backward_ || draft_.is_backward(node);
      for (const ValueId value : node.out) about(value).origin = node.origin;
      for (const ValueId value : node.in) {
        About& root = root_of(value);
        if (!draft_.is_backward(node))
          root.last_forward = static_cast<int>(i);
        else if (root.first_backward < 0)
          root.first_backward = static_cast<int>(i);
      }
    }
    for (const ValueId value : draft_.fetches) root_of(value).is_fetched = true;
  }

  bool is_worth_it(ValueId value) {
    const About& a = about(value);
    const TensorType& type = draft_.type(value);
    return a.origin >= 0 && !draft_.graph->node(a.origin).is_backward && !a.is_fetched && type.dtype == DType::F32 &&
           a.last_forward >= 0 && a.first_backward - a.last_forward > kSoon &&
           element_count(type.shape).at(batch_) * size_of(type.dtype) >= kLeastBytes;
  }

  void add(DraftNode node) {
    if (node.op->traits.view && root_of(node.in[0]).is_kept) return;  // added again in the form that its readers take
    const std::optional<graph::HalfCompute> product = half_product(node);
    const HalfForm wide = draft_.is_backward(node) ? kBackward : kForward;
    std::vector<size_t> kept;
    for (size_t i = 0; i < node.in.size(); ++i)
      if (root_of(node.in[i]).is_kept) kept.push_back(i);
    const bool takes_all = takes_half(node, kept.size());
    for (const size_t i : kept)
      node.in[i] = in_form(node.in[i], takes_all || (product && (product->takes >> i & 1) != 0) ? kHalf : wide);
    if (node.op == fused_op() && takes_all && !kept.empty()) widen_inputs(node, kept);
    if (product) compute_in_half(node, *product);
    std::vector<ValueId> wide_results;
    for (const ValueId value : node.out)
      if (about_or_none(value) != nullptr && about(value).is_kept) wide_results.push_back(value);
    const NodeId origin = node.origin;
    draft_.nodes.push_back(std::move(node));
    for (const ValueId value : wide_results) keep(value, cast(value, dtype_, draft_.name(value) + "/half", origin));
  }

  // Registers `half` as the 16-bit form of `value`.
  void keep(ValueId value, ValueId half) {
    about(value).forms[kHalf] = half;
    ++kept_.count;
    kept_.bytes += element_count(draft_.type(value).shape).at(batch_) * size_of(dtype_);
  }

  // Must be called before operands are changed. The sizes of the whole batch decide, so that every micro-batch is
  // computed in the same way.
  std::optional<graph::HalfCompute> half_product(const DraftNode& node) {
    if (node.op->half_compute == nullptr) return std::nullopt;
    ++kept_.products;
    if (!half_products_) return std::nullopt;
    const BatchSizes sizes(draft_, batch_, 0);
    const auto types = [&](const std::vector<ValueId>& values) {
      std::vector<kernels::ConcreteType> list;
      for (const ValueId value : values) list.push_back(sizes.type(value));
      return list;
    };
    const std::vector<kernels::ConcreteType> in = types(node.in), out = types(node.out);
    return node.op->half_compute({*node.attrs, in, out, batch_, batch_, false});
  }

  void compute_in_half(DraftNode& node, const graph::HalfCompute& product) {
    ++kept_.half_products;
    graph::Attrs attrs = *node.attrs;
    attrs.set("compute", std::string("bf16"));
    node.attrs = draft_.keep(std::move(attrs));
    for (size_t i = 0; i < node.in.size(); ++i)
      if ((product.needs >> i & 1) != 0 && draft_.type(node.in[i]).dtype != dtype_)
        node.in[i] = narrowed(node.in[i], node.origin);
    const ValueId result = node.out[0];
    if (!product.gives || !about(result).is_kept) return;
    node.out[0] = draft_.add_value({dtype_, draft_.type(result).shape}, draft_.name(result) + "/half");
    keep(result, node.out[0]);
  }

  // A value that is not kept, rounded to 16 bits once for all products that need it in this form.
  ValueId narrowed(ValueId value, NodeId reader) {
    ValueId& made = about(value).forms[kHalf];
    if (made < 0) {
      const NodeId origin = root_of(value).origin;
      made = cast(value, dtype_, draft_.name(value) + "/half", origin >= 0 ? origin : reader);
    }
    return made;
  }

  // Null for values that this rewrite has added.
  const About* about_or_none(ValueId value) const {
    return static_cast<size_t>(value) < values_.size() ? &values_[static_cast<size_t>(value)] : nullptr;
  }

  // Element-wise operators convert what they load to f32.
  static bool takes_half(const DraftNode& node, size_t inputs) {
    if (node.op != fused_op()) return node.op->tile != nullptr;
    return ops::fused_steps(*node.attrs).size() + inputs <= ops::kMaxFusedSteps;
  }

  // A kept value, or a view of one, in that form. The conversion is added before the first node that reads this form.
  ValueId in_form(ValueId value, HalfForm form) {
    ValueId& made = about(value).forms[form];
    if (made >= 0) return made;
    const DraftNode* view = about(value).view;
    const std::string name = draft_.name(value) + (form == kHalf ? "/half" : form == kForward ? "/rounded" : "/again");
    if (view == nullptr) {
      return made = cast(about(value).forms[kHalf], DType::F32, name, about(value).origin);
    }
    const ValueId from = in_form(view->in[0], form);
    made = draft_.add_value({form == kHalf ? dtype_ : DType::F32, draft_.type(value).shape}, name);
    draft_.nodes.push_back({view->op, view->attrs, view->origin, {from}, {made}});
    return made;
  }

  ValueId cast(ValueId from, DType dtype, const std::string& name, NodeId origin) {
    const ValueId to = draft_.add_value({dtype, draft_.type(from).shape}, name);
    const graph::Attrs* attrs = draft_.keep({{"dtype", std::string(name_of(dtype))}});
    draft_.nodes.push_back({cast_op(), attrs, origin, {from}, {to}});
    return to;
  }

  // A fused program infers its types from its inputs, so that its first steps cast the inputs of 16 bits to f32.
  void widen_inputs(DraftNode& node, const std::vector<size_t>& halves) {
    const std::vector<ops::FusedStep> old = ops::fused_steps(*node.attrs);
    const int inputs = static_cast<int>(node.in.size());
    const int more = static_cast<int>(halves.size());
    std::vector<ops::FusedStep> steps;
    for (const size_t input : halves)
      steps.push_back({cast_op(), {{"dtype", std::string(name_of(DType::F32))}}, {static_cast<int>(input)}});
    const auto moved = [&](int reg) {
      const auto at = std::find(halves.begin(), halves.end(), static_cast<size_t>(reg));
      if (reg < inputs) return at == halves.end() ? reg : inputs + static_cast<int>(at - halves.begin());
      return reg + more;
    };
    for (ops::FusedStep step : old) {
      for (int& reg : step.in) reg = moved(reg);
      steps.push_back(std::move(step));
    }
    std::vector<int> outputs;
    for (const int64_t reg : node.attrs->dims("outputs")) outputs.push_back(moved(static_cast<int>(reg)));
    node.attrs = draft_.keep(fused_attrs(steps, outputs));
  }

  Draft& draft_;
  const int64_t batch_;
  const DType dtype_;
  bool half_products_;
  bool has_backward_ = false;
  std::vector<About> values_;     // by value of the draft; values that this rewrite adds have no entry
  std::vector<DraftNode> views_;  // reserved at once: values point into it
  HalfValues kept_;
};

}  // namespace

HalfValues store_in_half(Draft& draft, int64_t batch, DType dtype, bool half_products) {
  return HalfRewrite(draft, batch, dtype, half_products).run();
}

}  // namespace plimsoll::lower

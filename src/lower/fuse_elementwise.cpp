#include <algorithm>
#include <optional>

#include "lower/fuse.h"
#include "ops/fused.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

// A chain under construction: what each step reads is a value from outside or an earlier step.
struct ChainOperand {
  ValueId value = -1;
  int step = -1;
};
struct ChainStep {
  const graph::Op* op;
  const graph::Attrs* attrs;
  std::vector<ChainOperand> in;
};
struct Chain {
  std::vector<ChainStep> steps;

  std::vector<ValueId> inputs() const {
    std::vector<ValueId> values;
    for (const ChainStep& step : steps)
      for (const ChainOperand& operand : step.in)
        if (operand.step < 0 && std::find(values.begin(), values.end(), operand.value) == values.end())
          values.push_back(operand.value);
    return values;
  }
};

// How far apart two nodes of a chain may stand: moving one further would keep what it reads alive for longer.
constexpr int kNear = 3;

class ElementwiseFusion {
 public:
  explicit ElementwiseFusion(Draft& draft) : draft_(draft), uses_(draft), chains_(draft.nodes.size()) {}

  void run() {
    for (size_t i = 0; i < draft_.nodes.size(); ++i)
      if (is_plain_elementwise(draft_.nodes[i])) grow(i);
    for (size_t i = 0; i < draft_.nodes.size(); ++i)
      if (chains_[i] && chains_[i]->steps.size() > 1 && draft_.nodes[i].op != nullptr) emit(i);
    remove_dead(draft_);
  }

 private:
  bool is_plain_elementwise(const DraftNode& node) const {
    if (node.op->tile == nullptr || !node.op->fusion.joins_chains || node.out.size() != 1) return false;
    const auto fits = [&](ValueId value) {
      return draft_.type(value).dtype == DType::F32 || draft_.type(value).dtype == DType::Bool;
    };
    return fits(node.out[0]) && std::all_of(node.in.begin(), node.in.end(), fits);
  }

  // The node's own step, with the chains of its inputs put before it where that is possible.
  void grow(size_t index) {
    const DraftNode& node = draft_.nodes[index];
    Chain chain;
    std::vector<ChainOperand> in;
    std::vector<size_t> absorbed;
    for (const ValueId value : node.in) {
      const int producer = uses_.producer(value);
      if (!may_absorb(index, producer, value)) {
        in.push_back({value, -1});
        continue;
      }
      const Chain& before = *chains_[static_cast<size_t>(producer)];
      Chain longer = chain;
      const int base = static_cast<int>(longer.steps.size());
      for (ChainStep step : before.steps) {
        for (ChainOperand& operand : step.in)
          if (operand.step >= 0) operand.step += base;
        longer.steps.push_back(std::move(step));
      }
      if (longer.steps.size() + 1 > ops::kMaxFusedSteps ||
          longer.inputs().size() + node.in.size() > ops::kMaxFusedInputs) {
        in.push_back({value, -1});
        continue;
      }
      chain = std::move(longer);
      in.push_back({-1, static_cast<int>(chain.steps.size()) - 1});
      absorbed.push_back(static_cast<size_t>(producer));
    }
    chain.steps.push_back({node.op, node.attrs, std::move(in)});
    for (const size_t producer : absorbed) draft_.nodes[producer].op = nullptr;
    chains_[index] = std::move(chain);
  }

  bool may_absorb(size_t index, int producer, ValueId value) const {
    if (producer < 0 || !chains_[static_cast<size_t>(producer)] ||
        draft_.nodes[static_cast<size_t>(producer)].op == nullptr)
      return false;
    return uses_.count(value) == 1 && static_cast<int>(index) - producer <= kNear &&
           draft_.type(draft_.nodes[index].out[0]).dtype == DType::F32 &&
           draft_.type(value).shape == draft_.type(draft_.nodes[index].out[0]).shape;
  }

  void emit(size_t index) {
    static const graph::Op* const kFused = ops::find_op("fused");
    const Chain& chain = *chains_[index];
    DraftNode& node = draft_.nodes[index];
    const std::vector<ValueId> inputs = chain.inputs();
    const int first_action = static_cast<int>(inputs.size());
    std::vector<ops::FusedStep> steps;
    for (const ChainStep& step : chain.steps) {
      ops::FusedStep& fused = steps.emplace_back(ops::FusedStep{step.op, *step.attrs, {}});
      for (const ChainOperand& operand : step.in)
        fused.in.push_back(operand.step >= 0 ? first_action + operand.step
                                             : static_cast<int>(std::find(inputs.begin(), inputs.end(), operand.value) -
                                                                inputs.begin()));
    }
    node.attrs = draft_.keep(fused_attrs(steps, {first_action + static_cast<int>(steps.size()) - 1}));
    node.op = kFused;
    node.in = inputs;
  }

  Draft& draft_;
  const Uses uses_;
  std::vector<std::optional<Chain>> chains_;
};

}  // namespace

void fuse_elementwise(Draft& draft) { ElementwiseFusion(draft).run(); }

}  // namespace plimsoll::lower

// Operators that users register while the program runs. An operator is a struct of plain functions; those of a
// registered one look up its definition by their slot.
#include <plimsoll/own_op.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr size_t kMostOperands = 16;

struct OwnEntry {
  OpDefinition definition;  // of a custom gradient: its name and rule alone
  bool is_rule = false;     // a custom gradient: y, then the inputs of its function
  Op op = {};
};

// Entries are never changed or removed, so that graphs may keep pointers to their operators.
struct OwnOps {
  std::mutex mutex;
  std::deque<OwnEntry> entries;
  std::array<const Op*, kMostRegistered> list{};
};
OwnOps& own_ops() {
  static OwnOps ops;
  return ops;
}
const OwnEntry& entry(size_t slot) {
  const std::lock_guard lock(own_ops().mutex);
  return own_ops().entries[slot];
}

OpSettings settings_of(const Attrs& attrs) {
  OpSettings settings;
  for (const auto& [key, value] : attrs.items())
    if (const auto* number = std::get_if<double>(&value)) settings.emplace(key, *number);
  return settings;
}

Attrs attrs_of(const OpSettings& settings) {
  Attrs attrs;
  for (const auto& [key, value] : settings) attrs.set(key, value);
  return attrs;
}

void infer(size_t slot, Infer& n) {
  const OwnEntry& own = entry(slot);
  if (own.is_rule) {
    n.expect_inputs(1, kMostOperands);
    n.out = {n.in[0]};
    return;
  }
  n.expect_inputs(1, kMostOperands);
  const OpSettings settings = settings_of(n.attrs);
  try {
    n.out = own.definition.shape({n.in, settings});
  } catch (const Error& error) {
    n.fail(error.what());
  }
  if (n.out.empty() || n.out.size() > kMostOperands)
    n.fail(fmt::format("its shape rule gives {} outputs; 1 to {} are possible", n.out.size(), kMostOperands));
}

void grad(size_t slot, Backward& b) {
  const OwnEntry& own = entry(slot);
  // Of a custom gradient the first input is the result of the function, which passes no gradient on.
  const size_t first = own.is_rule ? 1 : 0;
  const std::vector<Tensor> dx = own.definition.gradient({b.x.subspan(first), b.y, b.dy, settings_of(b.attrs)});
  if (dx.size() + first != b.x.size())
    throw Error(fmt::format("{}: its gradient gives {} tensors for {} inputs", own.definition.name, dx.size(),
                            b.x.size() - first));
  for (size_t i = 0; i < dx.size(); ++i) {
    if (!dx[i].is_set() || !b.wanted[i + first]) continue;
    if (!(dx[i].shape() == b.x[i + first].shape()))
      throw Error(fmt::format("{}: the gradient of input {} is {} but the input is {}", own.definition.name, i,
                              to_string(dx[i].type()), to_string(b.x[i + first].type())));
    b.give(i + first, dx[i]);
  }
}

std::vector<Dims> dims_of(std::span<const ConcreteType> types) {
  std::vector<Dims> dims;
  for (const ConcreteType& type : types) dims.push_back(type.dims);
  return dims;
}

// Values of a call, with room for as many as there may be: a kernel allocates nothing.
template <class Value>
class Values {
 public:
  Values(std::span<const ConcreteType> types, void* const* pointers) {
    for (size_t i = 0; i < types.size(); ++i)
      values_[i] =
          Value(OpValue{types[i].dtype, &types[i].dims, static_cast<std::byte*>(pointers[i]), types[i].count()});
    count_ = types.size();
  }
  std::span<const Value> all() const { return {values_.data(), count_}; }

 private:
  static constexpr OpValue kNothing{};
  template <size_t... kIndex>
  static std::array<Value, kMostOperands> nothing(std::index_sequence<kIndex...>) {
    return {((void)kIndex, Value(kNothing))...};
  }
  std::array<Value, kMostOperands> values_ = nothing(std::make_index_sequence<kMostOperands>());
  size_t count_ = 0;
};

Prepared prepare(size_t slot, const Facts& facts) {
  const OpDefinition& definition = entry(slot).definition;
  const OpSettings settings = settings_of(facts.attrs);
  Bytes workspace_bytes = 0;
  if (definition.workspace) {
    const std::vector<Dims> in = dims_of(facts.in), out = dims_of(facts.out);
    workspace_bytes = definition.workspace({in, out, settings});
    if (workspace_bytes < 0) throw Error(fmt::format("{}: a workspace of {} bytes", definition.name, workspace_bytes));
  }
  return {
      .kernel = make_kernel([kernel = definition.kernel, settings, workspace_bytes,
                             in = std::vector<ConcreteType>(facts.in.begin(), facts.in.end()),
                             out = std::vector<ConcreteType>(facts.out.begin(), facts.out.end())](const Args& args) {
        const Values<OpInput> inputs(in, const_cast<void* const*>(args.in));
        const Values<OpOutput> outputs(out, args.out);
        kernel({inputs.all(),
                outputs.all(),
                {static_cast<std::byte*>(args.workspace), static_cast<size_t>(workspace_bytes)},
                settings});
      }),
      .workspace_bytes = workspace_bytes};
}

Cost cost(size_t slot, const Facts& facts) {
  const OpDefinition& definition = entry(slot).definition;
  const std::vector<Dims> in = dims_of(facts.in), out = dims_of(facts.out);
  const OpSettings settings = settings_of(facts.attrs);
  return {.flops = definition.flops({in, out, settings}), .efficiency = 0.1};
}

std::vector<Sample> samples(size_t slot) {
  const OwnEntry& own = entry(slot);
  std::vector<Sample> all;
  for (const OpSample& sample : own.definition.samples)
    all.push_back({sample.name,
                   [&op = own.op, sample](SampleBuilder& s) {
                     std::vector<Tensor> inputs;
                     for (const TensorType& type : sample.inputs)
                       inputs.push_back(is_float(type.dtype)
                                            ? s.input(type.shape, sample.low, sample.high)
                                            : s.integers(type.shape, sample.low, sample.high, type.dtype));
                     const Outputs out = apply(op, inputs, attrs_of(sample.settings));
                     std::vector<Tensor> outputs;
                     for (int i = 0; i < out.size(); ++i) outputs.push_back(out[i]);
                     return outputs;
                   },
                   1e-4, sample.has_gradient});
  return all;
}

struct SlotFunctions {
  void (*infer)(Infer&);
  void (*grad)(Backward&);
  Prepared (*prepare)(const Facts&);
  Cost (*cost)(const Facts&);
  std::vector<Sample> (*samples)();
};
template <size_t kSlot>
constexpr SlotFunctions functions_of() {
  return {[](Infer& n) { infer(kSlot, n); }, [](Backward& b) { grad(kSlot, b); },
          [](const Facts& facts) { return prepare(kSlot, facts); },
          [](const Facts& facts) { return cost(kSlot, facts); }, [] { return samples(kSlot); }};
}
template <size_t... kSlot>
constexpr std::array<SlotFunctions, sizeof...(kSlot)> slots_of(std::index_sequence<kSlot...>) {
  return {functions_of<kSlot>()...};
}
constexpr auto kSlots = slots_of(std::make_index_sequence<kMostRegistered>());

bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

InputTypes input_types(const std::vector<DTypes>& types) {
  const auto at = [&](size_t i) { return i < types.size() ? types[i] : types.back(); };
  return {at(0), at(1), at(2), at(3), at(4), at(5)};
}

const Op& enter(OwnEntry own) {
  OwnOps& ops = own_ops();
  const std::lock_guard lock(ops.mutex);
  const size_t slot = ops.entries.size();
  if (slot == kMostRegistered)
    throw Error(fmt::format("register_op: {} operators are registered already; register each once", kMostRegistered));
  if (own.is_rule) own.definition.name = fmt::format("custom_gradient_{}", slot);
  for (const OwnEntry& other : ops.entries)
    if (other.definition.name == own.definition.name)
      throw Error(fmt::format("register_op: an operator '{}' is registered already", own.definition.name));
  OwnEntry& kept = ops.entries.emplace_back(std::move(own));
  const OpDefinition& definition = kept.definition;
  const SlotFunctions& functions = kSlots[slot];
  kept.op.name = definition.name;
  kept.op.storable = definition.is_storable;
  kept.op.infer = functions.infer;
  if (definition.gradient) kept.op.grad = functions.grad;
  if (!kept.is_rule) kept.op.prepare = functions.prepare;
  if (definition.flops) kept.op.cost = functions.cost;
  if (!definition.samples.empty()) kept.op.samples = functions.samples;
  kept.op.types = input_types(definition.types);
  kept.op.traits = {.batch = definition.is_by_sample ? BatchRule::Rows : BatchRule::Mixes,
                    .recomputable = definition.is_recomputable,
                    .view = kept.is_rule,
                    .in_place = definition.is_in_place ? 1U : 0U};
  ops.list[slot] = &kept.op;
  return kept.op;
}

}  // namespace

std::span<const Op* const> registered_ops() {
  OwnOps& ops = own_ops();
  const std::lock_guard lock(ops.mutex);
  return {ops.list.data(), ops.entries.size()};
}

}  // namespace plimsoll::ops

namespace plimsoll {

OwnOp register_op(OpDefinition definition) {
  const auto fail = [&](std::string_view why) {
    throw Error(fmt::format("register_op '{}': {}", definition.name, why));
  };
  if (!ops::is_name(definition.name)) fail("a name has small letters, digits and _ alone");
  if (ops::find_op(definition.name) != nullptr) fail("there is an operator of that name");
  if (!definition.shape) fail("the shape rule is missing");
  if (definition.kernel == nullptr) fail("the kernel is missing");
  if (definition.types.empty() || definition.types.size() > 6) fail("element types are given for 1 to 6 inputs");
  ops::OwnEntry own;
  own.definition = std::move(definition);
  return OwnOp(ops::enter(std::move(own)));
}

OwnOp find_own_op(std::string_view name) {
  std::string known;
  for (const graph::Op* op : ops::registered_ops()) {
    if (op->name == name) return OwnOp(*op);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", op->name);
  }
  throw Error(fmt::format("no operator '{}' is registered; registered are {}", name, known.empty() ? "none" : known));
}

std::vector<Tensor> OwnOp::outputs(std::span<const Tensor> inputs, const OpSettings& settings, Name name) const {
  const graph::Outputs out = graph::apply(*op_, inputs, ops::attrs_of(settings), name);
  std::vector<Tensor> all;
  for (int i = 0; i < out.size(); ++i) all.push_back(out[i]);
  return all;
}

Tensor OwnOp::operator()(std::span<const Tensor> inputs, const OpSettings& settings, Name name) const {
  return outputs(inputs, settings, name)[0];
}

CustomGradient custom_gradient(CustomGradient::Forward forward, CustomGradient::Rule backward) {
  if (!forward || !backward) throw Error("custom_gradient: the function or its gradient is missing");
  ops::OwnEntry own;
  own.is_rule = true;
  own.definition.gradient = std::move(backward);
  own.definition.types = {kAnyType};
  own.definition.is_by_sample = true;
  return {std::move(forward), ops::enter(std::move(own))};
}

Tensor CustomGradient::operator()(std::span<const Tensor> x, Name name) const {
  std::vector<Tensor> inputs{forward_(x)};
  inputs.insert(inputs.end(), x.begin(), x.end());
  return graph::apply(*op_, inputs, {}, name);
}

}  // namespace plimsoll

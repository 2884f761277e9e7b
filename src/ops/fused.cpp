// fused: a chain of element-wise operators as one node. Made by lowering, after the gradients.
#include "ops/fused.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/elementwise.h"
#include "kernels/integer_map.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// The text form of a program, a setting of the node: "mul:0,1;scale:2:factor=2.0;cast:3:dtype='f16'".
std::string to_text(const std::vector<FusedStep>& steps) {
  std::string text;
  for (const FusedStep& step : steps) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ";", step.op->name, fmt::join(step.in, ","));
    if (!step.attrs.empty()) text += ":" + to_string(step.attrs);
  }
  std::replace(text.begin(), text.end(), '"', '\'');
  return text;
}

std::string_view take_until(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

FusedStep parse_step(std::string_view text) {
  const std::string_view name = take_until(text, ':');
  const Op* op = find_op(name);
  if (op == nullptr) throw Error(fmt::format("operator '{}' is unknown", name));
  FusedStep step{op, {}, {}};
  std::string_view registers = take_until(text, ':');
  while (!registers.empty()) {
    const std::string_view word = take_until(registers, ',');
    int number = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (status != std::errc() || end != word.data() + word.size())
      throw Error(fmt::format("'{}' is not the number of a register", word));
    step.in.push_back(number);
  }
  std::string attrs(text);
  std::replace(attrs.begin(), attrs.end(), '\'', '"');
  step.attrs = parse_attrs(attrs);
  return step;
}

// The type of every register.
std::vector<TensorType> infer_registers(const std::vector<FusedStep>& steps, std::span<const TensorType> in,
                                        const Infer& n) {
  std::vector<TensorType> types(in.begin(), in.end());
  for (const FusedStep& step : steps) {
    if (step.op->tile == nullptr) n.fail(fmt::format("{} is not element-wise", step.op->name));
    std::vector<TensorType> operands;
    for (const int reg : step.in) {
      if (reg < 0 || static_cast<size_t>(reg) >= types.size())
        n.fail(fmt::format("{} reads register {} before it is written", step.op->name, reg));
      operands.push_back(types[static_cast<size_t>(reg)]);
    }
    Infer inner{step.op->name, n.name, step.attrs, operands, {}};
    inner.expect_types(step.op->types);
    step.op->infer(inner);
    types.push_back(inner.out[0]);
  }
  return types;
}

std::vector<int> outputs_of(const Attrs& attrs) {
  std::vector<int> outputs;
  for (const int64_t reg : attrs.dims("outputs")) outputs.push_back(static_cast<int>(reg));
  return outputs;
}

void infer(Infer& n) {
  n.expect_inputs(1, kMaxFusedInputs);
  const std::vector<FusedStep> steps = fused_steps(n.attrs);
  if (steps.empty() || steps.size() > kMaxFusedSteps)
    n.fail(fmt::format("a program has 1 to {} steps but this one has {}", kMaxFusedSteps, steps.size()));
  const std::vector<TensorType> types = infer_registers(steps, n.in, n);
  const Shape space = broadcast_inputs(n, 0);
  const std::vector<int> outputs = outputs_of(n.attrs);
  if (outputs.empty()) n.fail("has no output");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto reg = static_cast<size_t>(outputs[i]);
    if (reg < n.in.size() || reg >= types.size()) n.fail(fmt::format("output {} is no result of a step", reg));
    if (std::count(outputs.begin(), outputs.end(), outputs[i]) > 1) n.fail(fmt::format("output {} appears twice", reg));
    if (!(types[reg].shape == space))
      n.fail(fmt::format("output {} is {} but all operands together are {}", reg, to_string(types[reg]),
                         to_string(space)));
    n.out.push_back(types[reg]);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].op->tile()->uses_index && !(types[n.in.size() + i].shape == space))
      n.fail(fmt::format("{} depends on the place of an element and can't be broadcast afterwards", steps[i].op->name));
    for (const int reg : steps[i].in) {
      if (is_large_integer(types[static_cast<size_t>(reg)].dtype))
        n.fail(fmt::format("{} of large whole numbers is exact only as a node of its own", steps[i].op->name));
    }
  }
  // A broadcast input could have as many bytes as the output and be overwritten while it is still read.
  for (const TensorType& in : n.in)
    if (!(in.shape == space) && size_of(in.dtype) > size_of(n.out[0].dtype))
      n.fail(fmt::format("{} is repeated into the narrower {}", to_string(in), to_string(n.out[0])));
}

Prepared prepare(const Facts& facts) {
  const std::vector<FusedStep> steps = fused_steps(facts.attrs);
  std::vector<TensorType> in;
  for (const ConcreteType& type : facts.in) in.push_back({type.dtype, Shape::from(type.dims)});
  const Infer n{"fused", "", facts.attrs, in, {}};
  const std::vector<TensorType> types = infer_registers(steps, in, n);
  TileProgram program;
  program.outputs = outputs_of(facts.attrs);
  for (size_t i = 0; i < steps.size(); ++i) {
    const TileOp* tile = steps[i].op->tile();
    TileStep step{tile, std::vector<float>(static_cast<size_t>(tile->params)), steps[i].in, types[in.size() + i].dtype};
    if (tile->fill_params != nullptr) tile->fill_params(steps[i].attrs, step.params.data());
    program.steps.push_back(std::move(step));
  }
  return prepare_program(facts, program);
}

// A chain keeps samples apart only if each of its steps does.
BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  const std::vector<FusedStep> steps = fused_steps(attrs);
  const Infer n{"fused", "", attrs, in, {}};
  const std::vector<TensorType> types = infer_registers(steps, in, n);
  for (const FusedStep& step : steps) {
    std::vector<TensorType> operands;
    for (const int reg : step.in) operands.push_back(types[static_cast<size_t>(reg)]);
    if (step.op->batch_rule != nullptr && step.op->batch_rule(step.attrs, operands) != BatchRule::Rows)
      return BatchRule::Mixes;
  }
  return BatchRule::Rows;
}

std::vector<Sample> samples() {
  return {
      {"chain",
       [](SampleBuilder& s) {
         const std::vector inputs{s.input({Dim::batch(), 3, 5}), s.input({5})};
         const std::vector<FusedStep> steps{{find_op("add"), {}, {0, 1}}, {find_op("relu"), {}, {2}}};
         return std::vector<Tensor>{fused(inputs, steps, {3})};
       },
       1e-4, false},
      {"two outputs",
       [](SampleBuilder& s) {
         const std::vector inputs{s.input({Dim::batch(), 11}), s.input({Dim::batch(), 11}), s.input({})};
         const std::vector<FusedStep> steps{{find_op("mul"), {}, {0, 1}},
                                            {find_op("scale"), {{"factor", 2.0}}, {3}},
                                            {find_op("sub"), {}, {4, 0}},
                                            {find_op("greater"), {}, {5, 2}}};
         const Outputs out = fused(inputs, steps, {4, 6});
         return std::vector{out[0], out[1]};
       },
       1e-4, false},
      {"choice",
       [](SampleBuilder& s) {
         const std::vector inputs{s.integers({Dim::batch(), 7}, 0, 2, DType::Bool), s.input({7}), s.input({})};
         const std::vector<FusedStep> steps{{find_op("where"), {}, {0, 1, 2}}, {find_op("relu"), {}, {3}}};
         return std::vector<Tensor>{fused(inputs, steps, {4})};
       },
       1e-4, false},
      {"half between",
       [](SampleBuilder& s) {
         const std::vector inputs{s.input({Dim::batch(), 7})};
         const std::vector<FusedStep> steps{{find_op("cast"), {{"dtype", std::string("f16")}}, {0}},
                                            {find_op("cast"), {{"dtype", std::string("f32")}}, {1}},
                                            {find_op("add"), {}, {2, 0}}};
         return std::vector<Tensor>{fused(inputs, steps, {3})};
       },
       1e-4, false},
  };
}

const Op kFused{.name = "fused",
                .infer = infer,
                .types = {{DType::F32, DType::F16, DType::BF16, DType::Bool}},
                .prepare = prepare,
                .samples = samples,
                .traits = map_traits((1U << kMaxFusedInputs) - 1),
                .batch_rule = batch_rule};

}  // namespace

std::vector<FusedStep> fused_steps(const Attrs& attrs) {
  std::vector<FusedStep> steps;
  std::string_view text = attrs.s("program");
  while (!text.empty()) steps.push_back(parse_step(take_until(text, ';')));
  return steps;
}

Outputs fused(std::span<const Tensor> inputs, const std::vector<FusedStep>& steps, const std::vector<int>& outputs,
              std::string_view name) {
  return apply(kFused, inputs, fused_attrs(steps, outputs), name);
}

Attrs fused_attrs(const std::vector<FusedStep>& steps, const std::vector<int>& outputs) {
  return {{"program", to_text(steps)}, {"outputs", Shape::from(outputs)}};
}

OpList fused_ops() { return {&kFused}; }

}  // namespace plimsoll::ops

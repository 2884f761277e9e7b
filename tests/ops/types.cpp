// Every operator with every element type: a right result, forwards and backwards, or a refusal when it is built.
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "autodiff/gradients.h"
#include "base/random.h"
#include "kernels/elementwise.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

constexpr int64_t kBatch = 3;

// What is left of the numbers when they are stored as that type.
std::vector<float> rounded(std::vector<float> numbers, DType dtype) {
  Contents stored(numbers.size() * static_cast<size_t>(size_of(dtype)));
  store_of(dtype)(numbers.data(), stored.data(), numbers.size());
  load_of(dtype)(stored.data(), numbers.data(), numbers.size());
  return numbers;
}

// A sample with some inputs in another type, and its gradients for seeds of the type of each output.
struct Typed {
  Graph graph;
  std::unique_ptr<ops::SampleBuilder> builder;
  std::vector<Tensor> outputs, seeds;
  std::map<std::string, Tensor> gradients;  // by the name of the input
  bool has_backward = false;
};

std::unique_ptr<Typed> build(const ops::Sample& sample, const std::vector<size_t>& changed, DType dtype) {
  auto typed = std::make_unique<Typed>();
  typed->builder = std::make_unique<ops::SampleBuilder>(typed->graph, changed, dtype);
  typed->outputs = sample.build(*typed->builder);
  return typed;
}

// False when a gradient rule refuses the types.
bool add_backward(Typed& typed) {
  std::vector<Tensor> wrt;
  for (const ops::SampleBuilder::Input& input : typed.builder->inputs())
    if (is_float(input.tensor.dtype()) &&
        typed.graph.body().value(input.tensor.id()).kind == graph::ValueKind::Placeholder)
      wrt.push_back(input.tensor);
  const Tensor y = typed.outputs[0];
  if (wrt.empty() || !is_float(y.dtype())) return false;
  typed.seeds.push_back(typed.graph.placeholder("seed", y.dtype(), y.shape()));
  try {
    const std::vector<Gradient> all = gradients(y, wrt, typed.seeds[0]);
    for (size_t i = 0; i < wrt.size(); ++i)
      if (all[i].is_set()) {
        EXPECT_EQ(all[i].value.dtype(), wrt[i].dtype()) << "of the gradient of " << wrt[i].name();
        typed.gradients.emplace(wrt[i].name(), autodiff::densify(all[i], wrt[i].shape()));
      }
  } catch (const Error&) {
    return false;
  }
  return typed.has_backward = true;
}

Contents as_contents(const std::vector<float>& numbers, DType dtype) {
  Contents contents(numbers.size() * static_cast<size_t>(size_of(dtype)));
  store_of(dtype)(numbers.data(), contents.data(), numbers.size());
  return contents;
}

// Numbers that `exact_in` and `own` both hold exactly.
std::vector<float> draw(const TensorType& type, DType exact_in, DType own, std::string_view name, double low,
                        double high) {
  std::vector<float> numbers(static_cast<size_t>(element_count(at_batch(type.shape, kBatch))));
  const uint64_t key = hash_text(name);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double number = low + (high - low) * unit_real(mix_bits(key, i));
    numbers[i] = static_cast<float>(is_float(own) ? number : std::floor(number));
  }
  return rounded(rounded(std::move(numbers), exact_in), own);
}

void feed(const Typed& original, const Typed& typed, const std::vector<size_t>& changed, DType dtype,
          Evaluator& expected, Evaluator& evaluator) {
  const auto& before = original.builder->inputs();
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_changed = std::find(changed.begin(), changed.end(), i) != changed.end();
    const DType own = before[i].tensor.dtype();
    const DType now = typed.builder->inputs()[i].tensor.dtype();
    const auto numbers = draw(before[i].tensor.type(), is_changed ? dtype : own, own, before[i].tensor.name(),
                              before[i].low, before[i].high);
    expected.set(before[i].tensor.id(), as_contents(numbers, own));
    evaluator.set(typed.builder->inputs()[i].tensor.id(), as_contents(numbers, now));
  }
  for (const auto& [graph, at] : {std::pair{&original, &expected}, std::pair{&typed, &evaluator}})
    for (const Tensor& seed : graph->seeds)
      at->set(seed.id(), as_contents(draw(seed.type(), DType::BF16, DType::F32, seed.name(), -1, 1), seed.dtype()));
}

// What the types that take part allow, relative to the largest number.
double tolerance(const Graph& graph) {
  double most = 2e-5;
  for (const graph::Value& value : graph.body().values()) {
    if (value.type.dtype == DType::F16) most = std::max(most, 4e-3);
    if (value.type.dtype == DType::BF16) most = std::max(most, 3e-2);
  }
  return most;
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& got, DType dtype, double relative,
                 const std::string& what) {
  ASSERT_EQ(expected.size(), got.size()) << what;
  const std::vector<float> wanted = rounded(expected, dtype);
  double scale = 1e-6;
  for (const float number : wanted)
    if (std::isfinite(number)) scale = std::max<double>(scale, std::abs(number));
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) && std::isnan(got[i])) continue;
    if (wanted[i] == got[i]) continue;
    ASSERT_LE(std::abs(static_cast<double>(wanted[i]) - got[i]), relative * scale) << what << ", element " << i;
  }
}

struct Outcome {
  bool is_accepted = false;
  std::string refusal;
};

Outcome try_types(const ops::Sample& sample, const std::vector<size_t>& changed, DType dtype) {
  std::unique_ptr<Typed> typed;
  try {
    typed = build(sample, changed, dtype);
  } catch (const Error& error) {
    return {false, error.what()};
  }
  const auto original = build(sample, {}, dtype);
  if (sample.has_gradient && add_backward(*original)) add_backward(*typed);
  Evaluator expected(original->graph, kBatch);
  Evaluator evaluator(typed->graph, kBatch);
  feed(*original, *typed, changed, dtype, expected, evaluator);
  // Kernels of nodes that a refused backward pass left behind are right too, or were refused one by one.
  expected.run();
  evaluator.run();
  const double relative = std::max(tolerance(original->graph), tolerance(typed->graph));
  for (size_t i = 0; i < original->outputs.size(); ++i)
    expect_near(expected.floats(original->outputs[i].id()), evaluator.floats(typed->outputs[i].id()),
                typed->outputs[i].dtype(), relative, fmt::format("output {}", i));
  for (const ops::SampleBuilder::Input& input : original->builder->inputs()) {
    if (original->graph.body().value(input.tensor.id()).kind != graph::ValueKind::Variable) continue;
    const Tensor variable = typed->graph.find(input.tensor.name());
    expect_near(expected.floats(input.tensor.id()), evaluator.floats(variable.id()), variable.dtype(), relative,
                fmt::format("variable {}", variable.name()));
  }
  for (const auto& [name, gradient] : typed->gradients)
    if (typed->has_backward && original->gradients.contains(name))
      expect_near(expected.floats(original->gradients.at(name).id()), evaluator.floats(gradient.id()), gradient.dtype(),
                  relative, "gradient of " + name);
  return {true, {}};
}

// The inputs of a sample that have the same type as the one of that number.
std::vector<size_t> alike(const ops::Sample& sample, size_t input) {
  const auto typed = build(sample, {}, DType::F32);
  const auto& inputs = typed->builder->inputs();
  std::vector<size_t> all;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].tensor.dtype() == inputs[input].tensor.dtype()) all.push_back(i);
  return all;
}

class TypesTest : public ::testing::TestWithParam<const Op*> {};

TEST_P(TypesTest, RightOrRefused) {
  const Op& op = *GetParam();
  std::set<DType> accepted;
  for (const ops::Sample& sample : op.samples()) {
    const size_t inputs = build(sample, {}, DType::F32)->builder->inputs().size();
    for (size_t i = 0; i < inputs; ++i)
      for (const DType dtype : kEveryType)
        for (const std::vector<size_t>& changed : {std::vector<size_t>{i}, alike(sample, i)}) {
          if (changed[0] != i) continue;  // done already
          SCOPED_TRACE(fmt::format("{}: {} inputs from {} on as {}", sample.name, changed.size(), i, name_of(dtype)));
          const Outcome outcome = try_types(sample, changed, dtype);
          EXPECT_EQ(outcome.is_accepted, outcome.refusal.empty());
          if (outcome.is_accepted) accepted.insert(dtype);
          if (HasFatalFailure()) return;
        }
  }
  // Each type that an operator claims for its first input is accepted in some sample.
  for (const DType dtype : kEveryType) {
    if (!op.types.at(0).has(dtype)) continue;
    EXPECT_TRUE(accepted.contains(dtype)) << name_of(dtype) << " was never taken";
  }
}

std::vector<const Op*> ops_with_samples() {
  std::vector<const Op*> ops;
  for (const Op* op : ops::all_ops())
    if (op->samples != nullptr) ops.push_back(op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, TypesTest, ::testing::ValuesIn(ops_with_samples()),
                         [](const auto& info) { return std::string(info.param->name); });

// The refusal of building y from placeholders of these types.
template <class Build>
std::string refusal(DType dtype, const Shape& shape, const Build& build) {
  Graph graph;
  try {
    build(graph.placeholder("x", dtype, shape));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Types, TheRefusalSaysWhatToDo) {
  EXPECT_EQ(refusal(DType::F16, {Dim::batch(), 10}, [](Tensor x) { softmax(x, -1, "p"); }),
            "softmax 'p': input 0 is f16[B,10] but must be f32; cast it to f32 first");
  EXPECT_EQ(refusal(DType::BF16, {4, 4}, [](Tensor x) { matmul(x, x); }),
            "matmul 'matmul': input 0 is bf16[4,4] but must be f32; cast it to f32 first");
  EXPECT_EQ(refusal(DType::I32, {4}, [](Tensor x) { relu(x); }),
            "relu 'relu': input 0 is i32[4] but must be f32, f16 or bf16; cast it to f32 first");
  EXPECT_EQ(refusal(DType::I64, {Dim::batch()},
                    [](Tensor x) {
                      sparse_cross_entropy(x.graph().placeholder("logits", DType::F32, {Dim::batch(), 3}), x, "loss");
                    }),
            "sparse_cross_entropy 'loss': input 1 is i64[B] but must be i32; cast it to i32 first");
}

// Floats hold whole numbers up to 2^24 alone.
TEST(Types, LargeWholeNumbersStayExact) {
  Graph graph;
  const Tensor a = graph.placeholder("a", DType::I64, {3});
  const Tensor b = graph.placeholder("b", DType::I64, {});
  const Tensor is_equal = equal(a, b);
  const Tensor chosen = where(is_equal, a, b);
  Evaluator evaluator(graph, 1);
  const int64_t numbers[] = {16777217, 16777216, (int64_t{1} << 60) + 1};
  const int64_t number[] = {16777217};
  const auto bytes = [](std::span<const int64_t> of) {
    const auto raw = std::as_bytes(of);
    return Contents(raw.begin(), raw.end());
  };
  evaluator.set(a.id(), bytes(numbers));
  evaluator.set(b.id(), bytes(number));
  evaluator.run();
  EXPECT_EQ(evaluator.floats(is_equal.id()), (std::vector<float>{1, 0, 0}));
  const int64_t expected[] = {16777217, 16777217, 16777217};
  EXPECT_EQ(evaluator.contents(chosen.id()), bytes(expected));
}

}  // namespace
}  // namespace plimsoll::testing

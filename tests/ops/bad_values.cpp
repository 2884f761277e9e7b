// Labels and rows outside of their range: reported with their place, and without a part in any result.
#include "kernels/bad_values.h"

#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <plimsoll/optimiser.h>
#include "autodiff/gradients.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using namespace kernels;

constexpr int64_t kBatch = 4;

// Operators with an input that holds nothing but numbers of rows or classes, and updates, which may have one.
bool takes_rows(const Op& op) {
  if (op.traits.updates != 0) return true;
  for (size_t i = 0; i < 7; ++i)
    if (op.types.at(i).has(DType::I32) && !op.types.at(i).has(DType::F32) && !op.types.at(i).has(DType::U8))
      return true;
  return false;
}

struct Case {
  const Op* op;
  ops::Sample sample;
  size_t input;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Op* op : ops::all_ops()) {
    if (op->samples == nullptr || !takes_rows(*op)) continue;
    for (const ops::Sample& sample : op->samples()) {
      Graph graph;
      ops::SampleBuilder builder(graph);
      sample.build(builder);
      for (size_t i = 0; i < builder.inputs().size(); ++i)
        if (builder.inputs()[i].tensor.dtype() == DType::I32) cases.push_back({op, sample, i});
    }
  }
  return cases;
}

class BadValuesTest : public ::testing::TestWithParam<Case> {};

void expect_finite(const Evaluator& evaluator, const Graph& graph, ValueId value) {
  if (!is_float(graph.body().value(value).type.dtype)) return;
  for (const float number : evaluator.floats(value))
    ASSERT_TRUE(std::isfinite(number)) << graph.body().name(graph.body().value(value));
}

// The kernels write nothing that is not theirs either: the evaluator's buffers are guarded.
TEST_P(BadValuesTest, AreReportedAndTakeNoPart) {
  const auto& [op, sample, input] = GetParam();
  Graph graph;
  ops::SampleBuilder builder(graph);
  std::vector<Tensor> outputs = sample.build(builder);
  std::vector<Tensor> wrt;
  for (const ops::SampleBuilder::Input& other : builder.inputs())
    if (is_float(other.tensor.dtype()) && graph.body().value(other.tensor.id()).kind == graph::ValueKind::Placeholder)
      wrt.push_back(other.tensor);
  if (!outputs.empty() && sample.has_gradient) {
    const Tensor seed = graph.scalar(1);
    for (const Gradient& gradient : gradients(outputs[0], wrt, broadcast_to(seed, outputs[0].shape())))
      if (gradient.is_set()) outputs.push_back(gradient.value);
  }
  for (const int32_t bad : {-1, 1 << 30})
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("{} with {} threads", bad, threads));
      omp_set_num_threads(threads);
      Evaluator evaluator(graph, kBatch);
      for (const ops::SampleBuilder::Input& other : builder.inputs())
        evaluator.set(other.tensor.id(), sample_contents(other.tensor.type(), std::string(other.tensor.name()),
                                                         other.low, other.high, kBatch));
      StepStatus status;
      evaluator.state.status = &status;
      evaluator.run();
      EXPECT_TRUE(status.is_good()) << "good numbers are reported";
      const Tensor labels = builder.inputs()[input].tensor;
      Contents contents = evaluator.contents(labels.id());
      const size_t count = contents.size() / sizeof bad;
      const size_t first = count / 2;
      for (const size_t at : {first, count - 1}) std::memcpy(contents.data() + at * sizeof bad, &bad, sizeof bad);
      evaluator.set(labels.id(), contents);
      evaluator.run();
      ASSERT_FALSE(status.is_good());
      EXPECT_EQ(status.bad.value, bad);
      EXPECT_EQ(status.bad.index, static_cast<int64_t>(first));
      for (const Tensor& output : outputs) expect_finite(evaluator, graph, output.id());
      for (const ops::SampleBuilder::Input& other : builder.inputs())
        expect_finite(evaluator, graph, other.tensor.id());
    }
  omp_set_num_threads(omp_get_num_procs());
}

INSTANTIATE_TEST_SUITE_P(Ops, BadValuesTest, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = fmt::format("{}_{}_{}", info.param.op->name, info.param.sample.name, info.param.input);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST(BadValues, EveryOperatorThatTakesRowsIsTested) {
  std::set<std::string_view> ops;
  for (const Case& c : all_cases()) ops.insert(c.op->name);
  for (const char* op : {"gather", "scatter_rows", "sparse_cross_entropy", "linear_cross_entropy",
                         "linear_cross_entropy_with_grad", "one_hot", "sum_squares", "sgd", "adam", "rmsprop"})
    EXPECT_TRUE(ops.contains(op)) << op;
}

TEST(BadValues, TheSmallestIndexIsKept) {
  FirstBad bad;
  const int32_t values[] = {0, 9, 8, 7};
  StepStatus status;
  StepState state;
  state.status = &status;
  const Args args{nullptr, nullptr, nullptr, &state, 5};
  bad.report(args, "label", 1, values, 4);
  EXPECT_TRUE(status.is_good());
  for (const int64_t index : {3, 1, 2}) bad.found(index);
  bad.report(args, "label", 1, values, 4);
  EXPECT_EQ(status.action, 5);
  EXPECT_EQ(status.bad.index, 1);
  EXPECT_EQ(status.bad.value, 9);
  EXPECT_EQ(status.bad.end, 4);
  // The report of a later kernel does not replace the first one.
  const Args later{nullptr, nullptr, nullptr, &state, 6};
  later.report({"row", 0, 0, 1, 1});
  EXPECT_EQ(status.action, 5);
}

Contents integers(const std::vector<int32_t>& numbers) {
  const auto* bytes = reinterpret_cast<const std::byte*>(numbers.data());
  return {bytes, bytes + numbers.size() * sizeof(int32_t)};
}

// The loss is that of the other rows, and the gradient of the bad row is zero.
TEST(BadValues, ALabelOutsideAddsNothingToTheLoss) {
  Graph graph;
  const Tensor logits = graph.placeholder("logits", DType::F32, {2, 3});
  const Tensor kernel = graph.placeholder("kernel", DType::F32, {3, 3});
  const Tensor labels = graph.placeholder("labels", DType::I32, {2});
  const Tensor losses[] = {sparse_cross_entropy(logits, labels), linear_cross_entropy(logits, kernel, labels)};
  const Tensor slopes = gradients(losses[0], std::vector{logits})[0].value;
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(logits.id(), {1, 2, 3, 4, 5, 6});
  evaluator.set_floats(kernel.id(), {1, 0, 0, 0, 1, 0, 0, 0, 1});
  evaluator.set(labels.id(), integers({1, 3}));
  evaluator.run();
  const double expected = (std::log(std::exp(1) + std::exp(2) + std::exp(3)) - 2) / 2;
  for (const Tensor& loss : losses) EXPECT_NEAR(evaluator.floats(loss.id())[0], expected, 1e-6);
  const std::vector<float> slope = evaluator.floats(slopes.id());
  EXPECT_NE(slope[0], 0);
  for (const size_t i : {3, 4, 5}) EXPECT_EQ(slope[i], 0);
}

TEST(BadValues, RowsOutsideReadAsZerosAndAreNotScattered) {
  Graph graph;
  const Tensor table = graph.variable("table", DType::F32, {2, 1}, Init::zeros());
  const Tensor rows = graph.placeholder("rows", DType::I32, {4});
  const Tensor seed = graph.placeholder("seed", DType::F32, {4, 1});
  const Tensor y = gather(table, rows);
  const Tensor dtable = autodiff::densify(gradients(y, std::vector{table}, seed)[0], table.shape());
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(table.id(), {5, 6});
  evaluator.set(rows.id(), integers({1, -1, 2, 1}));
  evaluator.set_floats(seed.id(), {1, 2, 4, 8});
  evaluator.run();
  EXPECT_EQ(evaluator.floats(y.id()), (std::vector<float>{6, 0, 0, 6}));
  EXPECT_EQ(evaluator.floats(dtable.id()), (std::vector<float>{0, 9}));
}

}  // namespace
}  // namespace plimsoll::testing

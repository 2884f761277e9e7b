// Every sample against values that PyTorch computed in double precision (golden/make.py, run by hand).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/optimiser.h>
#include "autodiff/gradients.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "ops/updates/rule.h"

namespace plimsoll::testing {
namespace {

constexpr int64_t kBatch = 2;

// Operators, and samples of operators, without golden values, and why.
const std::map<std::string_view, std::string_view> kWithout{
    {"dropout", "random"},
    {"random_normal", "random; tests/ops/random.cpp has its distribution"},
    {"random_uniform", "random; tests/ops/random.cpp has its distribution"},
    {"bernoulli", "random; tests/ops/random.cpp has its distribution"},
    {"categorical", "random; tests/ops/random.cpp has its distribution"},
    {"adam_in_bytes", "optimisers have a test of their own"},
    {"average_weight", "no output; tests/autodiff/groups.cpp has its definition"},
    {"swap_values", "no output; tests/autodiff/groups.cpp has its definition"},
    {"add_gradient", "no output; tests/session/accumulate.cpp compares sums with larger batches"},
    {"assign", "no output; tests/session/custom_loop.cpp has its definition"},
    {"assign_rows", "no output; tests/ops/assign_rows.cpp has its definition"},
    {"clear", "no output"},
    {"count_samples", "no output"},
    {"adjust_loss_scale", "no output; tests/session/loss_scale.cpp has its definition"},
    {"all_finite", "a yes or no; tests/session/loss_scale.cpp has both"},
    {"count_step", "no output"},
    {"sparse_matmul", "is matmul, which has golden values; tests/ops/sparse.cpp compares them"},
    {"sparse_expand", "copies numbers; tests/ops/sparse.cpp compares them"},
    {"gather_ranks", "no output; tests/cli/sharding.cpp compares ranks with one process"},
    {"gather_slices", "alone it is a copy; tests/cli/sharding.cpp compares ranks with one process"},
    {"add_to_slices", "no output; tests/cli/sharding.cpp compares ranks with one process"},
    {"sum_ranks", "no output; tests/cli/ranks.cpp compares ranks with one process"},
    {"add_into", "no output; tests/cli/ranks.cpp compares ranks with one process"},
    {"batch_norm_moments", "part of batch_norm_by"},
    {"combine_moments", "part of batch_norm_by"},
    {"batch_norm_by", "alone it is batch_norm, which has golden values; tests/ops/synchronised_norm.cpp compares them"},
    {"batch_norm_products", "part of the gradient of batch_norm_by"},
    {"sum_values", "part of the gradient of batch_norm_by"},
    {"batch_norm_by_grad", "part of the gradient of batch_norm_by"},
    {"exchange_peer", "receives zeros alone; tests/train/pipeline.cpp compares ranks with one process"},
    {"unpack", "bytes; tests/ops/packed_weights.cpp has its definition"},
    {"gather/packed", "is gather of unpacked rows; tests/session/frozen.cpp compares them"},
    {"prune", "no output; tests/ops/prune.cpp has golden masks of its own"},
    {"fused", "is its steps, which have golden values; tests/ops/elementwise.cpp compares it with them"},
    {"bit_mask", "bits that PyTorch has none of; tests/ops/bit_mask.cpp has their definition"},
    {"masked", "reads such bits; tests/ops/bit_mask.cpp has its definition"},
    {"quantise", "bytes; tests/ops/int8.cpp has its definition"},
    {"dequantise", "bytes; tests/ops/int8.cpp has its definition"},
    {"int8_conv2d", "bytes; tests/ops/int8.cpp has its definition"},
    {"int8_dense", "bytes; tests/ops/int8.cpp has its definition"},
    {"int8_max_pool", "bytes; tests/ops/int8.cpp has its definition"},
    {"int8_average_pool", "bytes; tests/ops/int8.cpp has its definition"},
    {"int8_add", "bytes; tests/ops/int8.cpp has its definition"},
    {"int8_rescale", "bytes; tests/ops/int8.cpp has its definition"},
    {"observe_range", "tests/ops/int8.cpp has its definition"},
    {"count_bins", "tests/ops/int8.cpp has its definition"},
    {"linear_cross_entropy_with_grad",
     "is two operators, which have golden values; tests/lower/fuse.cpp compares them"},
};

struct Case {
  const Op* op;
  ops::Sample sample;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto registered = ops::registered_ops();   // their definition is all there is
  const ops::OpList& updates = ops::update_ops();  // tests/autodiff/optimiser_golden.cpp has them
  for (const Op* op : ops::all_ops())
    if (op->samples != nullptr && !kWithout.contains(op->name) &&
        std::ranges::find(registered, op) == registered.end() && std::ranges::find(updates, op) == updates.end())
      for (const ops::Sample& sample : op->samples())
        if (!kWithout.contains(fmt::format("{}/{}", op->name, sample.name))) all.push_back({op, sample});
  return all;
}

nlohmann::json stored(const Case& c) {
  std::ifstream file(fmt::format("{}/{}.json", PLIMSOLL_GOLDEN_DIR, c.op->name));
  if (!file) return {};
  const nlohmann::json samples = nlohmann::json::parse(file);
  return samples.contains(c.sample.name) ? samples[c.sample.name] : nlohmann::json();
}

void expect_close(const std::vector<float>& got, const nlohmann::json& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double scale = 1e-3;
  for (const auto& number : expected) scale = std::max(scale, std::abs(number.get<double>()));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i].get<double>(), tolerance * scale) << what << ", element " << i;
}

class GoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenTest, ValuesAndGradientsAgree) {
  const ops::Sample& sample = GetParam().sample;
  const nlohmann::json golden = stored(GetParam());
  const char* remedy = "run tests/ops/golden/make.py";
  ASSERT_FALSE(golden.is_null()) << "there are no golden values: " << remedy;
  Graph graph;
  ops::SampleBuilder builder(graph);
  const std::vector<Tensor> outputs = sample.build(builder);
  ASSERT_EQ(golden["graph"].get<std::string>(), to_string(graph)) << "golden values are stale: " << remedy;

  std::vector<Tensor> wrt, seeds;
  std::vector<Gradient> sums;
  if (sample.has_gradient) {
    for (const ops::SampleBuilder::Input& input : builder.inputs())
      if (is_float(input.tensor.dtype()) && graph.body().value(input.tensor.id()).kind == graph::ValueKind::Placeholder)
        wrt.push_back(input.tensor);
    sums.resize(wrt.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_float(outputs[i].dtype())) continue;
      seeds.push_back(graph.placeholder(fmt::format("seed{}", i), DType::F32, outputs[i].shape()));
      const std::vector<Gradient> more = gradients(outputs[i], wrt, seeds.back());
      for (size_t j = 0; j < sums.size(); ++j) {
        if (!more[j].is_set()) continue;
        const Tensor dense = autodiff::densify(more[j], wrt[j].shape());
        sums[j] = {sums[j].is_set() ? add(sums[j].value, dense) : dense, {}};
      }
    }
  }
  Evaluator evaluator(graph, kBatch);
  for (const ops::SampleBuilder::Input& input : builder.inputs())
    evaluator.set(input.tensor.id(), sample_contents(input.tensor.type(), std::string(input.tensor.name()), input.low,
                                                     input.high, kBatch));
  for (const Tensor& seed : seeds)
    evaluator.set(seed.id(), sample_contents(seed.type(), std::string(seed.name()), -1, 1, kBatch));
  evaluator.run();
  for (size_t i = 0; i < outputs.size(); ++i)
    expect_close(evaluator.floats(outputs[i].id()), golden["outputs"][i], sample.tolerance,
                 fmt::format("output {}", i));
  for (size_t j = 0; j < wrt.size(); ++j) {
    const nlohmann::json& expected = golden["gradients"][std::string(wrt[j].name())];
    const auto got = sums[j].is_set() ? evaluator.floats(sums[j].value.id()) : std::vector<float>(expected.size());
    expect_close(got, expected, sample.tolerance, fmt::format("gradient of {}", wrt[j].name()));
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.op->name) + "_" + info.param.sample.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, GoldenTest, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace plimsoll::testing

// The op test: everything an operator claims is proven on its samples, for its own node and for its gradient's nodes.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "autodiff/gradients.h"
#include "base/random.h"
#include "graph/text.h"
#include "ops/claims.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "ops/registry.h"

namespace plimsoll::testing {
namespace {

using namespace kernels;

constexpr int64_t kBatch = 4;

// A sample's graph with gradients of sum(seed x output) for each real input.
struct Built {
  Graph graph;
  std::unique_ptr<ops::SampleBuilder> builder;
  std::vector<Tensor> outputs;
  std::vector<Tensor> seeds;      // one for each real output
  std::vector<Tensor> wrt;        // real placeholders
  std::vector<Tensor> gradients;  // of each of wrt, unset where none flows
};

std::unique_ptr<Built> build(const ops::Sample& sample, bool with_gradient) {
  auto built = std::make_unique<Built>();
  built->builder = std::make_unique<ops::SampleBuilder>(built->graph);
  built->outputs = sample.build(*built->builder);
  if (!with_gradient) return built;
  for (const ops::SampleBuilder::Input& input : built->builder->inputs())
    if (is_float(input.tensor.dtype()) &&
        built->graph.body().value(input.tensor.id()).kind == graph::ValueKind::Placeholder)
      built->wrt.push_back(input.tensor);
  std::vector<Gradient> sums(built->wrt.size());
  for (size_t i = 0; i < built->outputs.size(); ++i) {
    const Tensor y = built->outputs[i];
    if (!is_float(y.dtype())) continue;
    built->seeds.push_back(built->graph.placeholder(fmt::format("seed{}", i), DType::F32, y.shape()));
    const std::vector<Gradient> more = gradients(y, built->wrt, built->seeds.back());
    for (size_t j = 0; j < sums.size(); ++j) {
      if (!more[j].is_set()) continue;
      const Shape& shape = built->wrt[j].shape();
      sums[j] = sums[j].is_set() ? Gradient{add(sums[j].value, autodiff::densify(more[j], shape)), {}}
                                 : Gradient{autodiff::densify(more[j], shape), {}};
    }
  }
  for (const Gradient& sum : sums) built->gradients.push_back(sum.value);
  return built;
}

void feed(const Built& built, Evaluator& evaluator, int64_t batch) {
  for (const ops::SampleBuilder::Input& input : built.builder->inputs())
    evaluator.set(input.tensor.id(),
                  sample_contents(input.tensor.type(), std::string(input.tensor.name()), input.low, input.high, batch));
  for (const Tensor& seed : built.seeds)
    evaluator.set(seed.id(), sample_contents(seed.type(), std::string(seed.name()), -1, 1, batch));
}

// sum(seed x output), in double.
double weighted_sum(const Built& built, const Evaluator& evaluator) {
  double sum = 0;
  size_t seed = 0;
  for (const Tensor& y : built.outputs) {
    if (!is_float(y.dtype())) continue;
    const std::vector<float> values = evaluator.floats(y.id());
    const std::vector<float> weights = evaluator.floats(built.seeds[seed++].id());
    for (size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(values[i]) * weights[i];
  }
  return sum;
}

struct Case {
  const Op* op;
  ops::Sample sample;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Op* op : ops::all_ops())
    if (op->samples != nullptr)
      for (const ops::Sample& sample : op->samples()) cases.push_back({op, sample});
  return cases;
}

// Samples whose gradient is claimed.
std::vector<Case> cases_with_gradient() {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [](const Case& c) { return !c.sample.has_gradient; });
  return cases;
}

class OpTest : public ::testing::TestWithParam<Case> {};
class OpGradientTest : public ::testing::TestWithParam<Case> {};

// Largest difference relative to the largest magnitude.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double scale = 1e-6;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isnan(a[i])) continue;
    scale = std::max<double>(scale, std::abs(a[i]));
    worst = std::max<double>(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return worst / scale;
}

TEST_P(OpGradientTest, MatchesFiniteDifferences) {
  const ops::Sample& sample = GetParam().sample;
  const auto built = build(sample, true);
  Evaluator at(built->graph, kBatch);
  feed(*built, at, kBatch);
  at.run();
  for (size_t j = 0; j < built->wrt.size(); ++j) {
    const ValueId x = built->wrt[j].id();
    const std::vector<float> x0 = at.floats(x);
    const std::vector<float> gradient =
        built->gradients[j].is_set() ? at.floats(built->gradients[j].id()) : std::vector<float>(x0.size(), 0.0F);
    ASSERT_EQ(gradient.size(), x0.size());
    double scale = 0;
    for (const float g : gradient) scale += static_cast<double>(g) * g;
    scale = std::sqrt(scale / static_cast<double>(gradient.size())) + 1e-3;
    for (int direction = 0; direction < 3; ++direction) {
      std::vector<float> v(x0.size());
      for (size_t i = 0; i < v.size(); ++i)
        v[i] = mix_bits(static_cast<uint64_t>(direction), i) % 2 == 0 ? 1.0F : -1.0F;
      double expected = 0;
      for (size_t i = 0; i < v.size(); ++i) expected += static_cast<double>(gradient[i]) * v[i];
      const auto shifted = [&](double h) {
        Evaluator there(built->graph, kBatch);
        feed(*built, there, kBatch);
        std::vector<float> moved = x0;
        for (size_t i = 0; i < v.size(); ++i) moved[i] += static_cast<float>(h * v[i]);
        there.set_floats(x, moved);
        there.run();
        return weighted_sum(*built, there);
      };
      // Two step sizes cancel the error of second order.
      const double h = 4e-3;
      const double coarse = (shifted(h) - shifted(-h)) / (2 * h);
      const double fine = (shifted(h / 2) - shifted(-h / 2)) / h;
      const double measured = (4 * fine - coarse) / 3;
      EXPECT_NEAR(measured, expected, 1e-2 * scale * std::sqrt(static_cast<double>(v.size())) + 2e-3)
          << "input " << built->wrt[j].name() << " direction " << direction;
    }
  }
}

// The same facts as in a run, with other pointers.
void rerun(const NodeRun& run, const std::vector<const void*>& in, const std::vector<void*>& out,
           const StepState& state) {
  GuardedBuffer workspace(run.prepared.workspace_bytes);
  run.prepared.kernel->run({in.data(), out.data(), workspace.data(), &state});
}

// Another run of the node gives the same bits, and writes nothing else.
void expect_same_outputs(const NodeRun& run, const NodeRun& other, const std::vector<const void*>& in,
                         const StepState& state, std::string_view when) {
  std::vector<GuardedBuffer> buffers;
  std::vector<void*> out;
  for (const Evaluated& value : run.out) buffers.emplace_back(value.type.bytes());
  for (GuardedBuffer& buffer : buffers) out.push_back(buffer.data());
  rerun(other, in, out, state);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].copy(), run.out[i].buffer->copy()) << "output " << i << " differs " << when;
    EXPECT_TRUE(buffers[i].is_intact());
  }
}

void expect_slim_way_agrees(const Graph& graph, const NodeRun& run, const std::vector<const void*>& in,
                            const StepState& state) {
  const graph::Node& node = graph.body().node(run.node);
  std::vector<ConcreteType> in_types, out_types;
  for (const Evaluated& value : run.in) in_types.push_back(value.type);
  for (int i = 0; i < node.outputs; ++i) {
    const TensorType& type = graph.body().value(node.first_output + i).type;
    out_types.push_back({type.dtype, at_batch(type.shape, kBatch), {}, false});
  }
  NodeRun slim = run;
  slim.prepared = node.op->prepare({graph.body().attrs(node), in_types, out_types, kBatch, kBatch, false, true});
  EXPECT_LT(slim.prepared.workspace_bytes, run.prepared.workspace_bytes);
  EXPECT_EQ(slim.prepared.in, run.prepared.in);
  EXPECT_EQ(slim.prepared.out, run.prepared.out);
  expect_same_outputs(run, slim, in, state, "with less workspace");
}

TEST_P(OpTest, ClaimsOfEveryNodeHold) {
  const auto built = build(GetParam().sample, GetParam().sample.has_gradient);
  Evaluator evaluator(built->graph, kBatch);
  feed(*built, evaluator, kBatch);
  evaluator.run(true);
  for (const NodeRun& run : evaluator.runs()) {
    const graph::Node& node = built->graph.body().node(run.node);
    const Traits& traits = node.op->traits;
    SCOPED_TRACE(std::string(built->graph.body().name(node)) + " (" + std::string(node.op->name) + ")");
    std::vector<const void*> in;
    for (size_t i = 0; i < run.in.size(); ++i) in.push_back(run.in[i].buffer->data());

    if (traits.recomputable) {
      EXPECT_EQ(traits.updates, 0U) << "what changes a variable can't run twice";
      expect_same_outputs(run, run, in, evaluator.state, "when recomputed");
    }
    if (!traits.slim.empty()) expect_slim_way_agrees(built->graph, run, in, evaluator.state);
    for (size_t i = 0; i < run.in.size(); ++i) {
      if ((traits.in_place >> i & 1) == 0 || run.out.empty() || run.in[i].type.bytes() != run.out[0].type.bytes())
        continue;
      GuardedBuffer shared(run.in[i].type.bytes());
      shared.assign(run.in[i].buffer->copy());
      std::vector<const void*> in_place = in;
      in_place[i] = shared.data();
      // An input that appears twice is the same memory twice.
      for (size_t k = 0; k < in.size(); ++k)
        if (in[k] == in[i]) in_place[k] = shared.data();
      std::vector<GuardedBuffer> others;
      others.reserve(run.out.size());
      std::vector<void*> out{shared.data()};
      for (size_t k = 1; k < run.out.size(); ++k) out.push_back(others.emplace_back(run.out[k].type.bytes()).data());
      rerun(run, in_place, out, evaluator.state);
      EXPECT_EQ(shared.copy(), run.out[0].buffer->copy()) << "differs when written over input " << i;
      EXPECT_TRUE(shared.is_intact());
    }
    for (size_t i = 0; i < run.in.size(); ++i) {
      if ((traits.updates >> i & 1) == 0) continue;
      EXPECT_EQ(built->graph.body().value(built->graph.body().inputs(node)[i]).kind, graph::ValueKind::Variable);
    }
  }
}

TEST_P(OpTest, ElementwiseViewAndFusionClaimsHold) {
  const auto built = build(GetParam().sample, GetParam().sample.has_gradient);
  const graph::Body& body = built->graph.body();
  Evaluator evaluator(built->graph, kBatch);
  feed(*built, evaluator, kBatch);
  // Keeps the inputs that an update changes as they are before it runs.
  std::vector<std::vector<Contents>> inputs;
  evaluator.run(false, [&](const graph::Node& node) {
    std::vector<Contents>& of_node = inputs.emplace_back();
    for (const ValueId input : body.inputs(node)) of_node.push_back(evaluator.contents(input));
  });
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Node& node = body.node(static_cast<NodeId>(i));
    SCOPED_TRACE(std::string(body.name(node)) + " (" + std::string(node.op->name) + ")");
    const auto hold = [&](bool is_claimed, auto why_not) {
      if (is_claimed) {
        EXPECT_EQ(why_not(built->graph, node, inputs[i], kBatch, evaluator.state), "");
      }
    };
    // Lowering does not treat row-sparse updates as element-wise.
    hold(node.op->traits.elementwise && body.attrs(node).i("sparse") == 0, why_not_elementwise);
    hold(node.op->traits.view, why_not_view);
    hold(node.op->fusion.passes != nullptr, why_not_passing);
    hold(node.op->fusion.sums, why_not_sum);
  }
}

TEST_P(OpTest, BatchRuleHolds) {
  const auto built = build(GetParam().sample, GetParam().sample.has_gradient);
  const Graph& graph = built->graph;
  Evaluator evaluator(graph, kBatch);
  feed(*built, evaluator, kBatch);
  evaluator.run(true);
  for (const NodeRun& run : evaluator.runs()) {
    const graph::Node& node = graph.body().node(run.node);
    SCOPED_TRACE(std::string(graph.body().name(node)) + " (" + std::string(node.op->name) + ")");
    std::vector<Contents> inputs;
    bool any_batch = false;
    for (const ValueId input : graph.body().inputs(node)) {
      any_batch = any_batch || element_count(graph.body().value(input).type.shape).is_batch();
      inputs.push_back(evaluator.contents(input));
    }
    const BatchRule rule = batch_rule_of(graph, node);
    if (rule == BatchRule::Mixes || node.op->traits.updates != 0) continue;
    if (!any_batch && rule == BatchRule::Sums) continue;
    const std::vector<Contents> first = run_part(graph, node, inputs, kBatch, 0, 1, evaluator.state);
    const std::vector<Contents> rest = run_part(graph, node, inputs, kBatch, 1, kBatch - 1, evaluator.state,
                                                rule == BatchRule::Sums ? &first : nullptr);
    for (int i = 0; i < node.outputs; ++i) {
      const TensorType& type = graph.body().value(node.first_output + i).type;
      const Contents whole = evaluator.contents(node.first_output + i);
      const double tolerance = std::max(1e-5, GetParam().sample.tolerance * 0.1);
      if (element_count(type.shape).is_batch()) {
        for (const auto& [part, at, count] : {std::tuple{&first[static_cast<size_t>(i)], int64_t{0}, int64_t{1}},
                                              std::tuple{&rest[static_cast<size_t>(i)], int64_t{1}, kBatch - 1}})
          EXPECT_LE(difference(to_floats(slice_batch(whole, type, kBatch, at, count), type.dtype),
                               to_floats(*part, type.dtype)),
                    tolerance)
              << "output " << i << ", samples from " << at;
      } else if (rule == BatchRule::Sums) {
        EXPECT_LE(difference(to_floats(whole, type.dtype), to_floats(rest[static_cast<size_t>(i)], type.dtype)),
                  tolerance)
            << "output " << i << " is not the sum over the parts";
      }
    }
  }
}

TEST_P(OpTest, GraphPrintsAndParsesBack) {
  const auto built = build(GetParam().sample, GetParam().sample.has_gradient);
  const std::string text = to_string(built->graph);
  Graph again;
  graph::parse_graph(text, ops::find_op, again);
  EXPECT_EQ(to_string(again), text);
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.op->name) + "_" + info.param.sample.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, OpGradientTest, ::testing::ValuesIn(cases_with_gradient()), case_name);

TEST(Ops, EveryOperatorIsExercised) {
  std::set<std::string_view> seen;
  for (const Case& c : all_cases()) {
    const auto built = build(c.sample, c.sample.has_gradient);
    for (const graph::Node& node : built->graph.body().nodes()) seen.insert(node.op->name);
  }
  const auto registered = ops::registered_ops();
  for (const Op* op : ops::all_ops()) {
    if (op->samples == nullptr && std::ranges::find(registered, op) != registered.end()) continue;
    EXPECT_TRUE(op->infer == nullptr || seen.contains(op->name)) << op->name << " is in no sample";
  }
}

TEST(Ops, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Op* op : ops::all_ops()) EXPECT_TRUE(names.insert(op->name).second) << op->name;
}

}  // namespace
}  // namespace plimsoll::testing

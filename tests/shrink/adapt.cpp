#include "shrink/adapt.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/body.h"
#include "model/synthetic.h"
#include "model/training.h"
#include "session/engine.h"
#include "support/error_of.h"

namespace plimsoll::shrink {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ModelSpec small_gpt2() {
  return find_model("gpt2-small", {.classes = 50, .sequence = 8, .layers = 2, .width = 64, .dropout = 0.0});
}
ModelSpec small_bert() {
  return find_model("bert-base", {.classes = 50, .sequence = 8, .layers = 1, .width = 64, .dropout = 0.0});
}

std::vector<std::string> adapters_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Variable& variable : graph.body().variables())
    if (is_adapter(variable.stored->name) && variable.role() == VariableRole::Weight)
      names.push_back(variable.stored->name);
  return names;
}

struct Trained {
  Graph graph;
  ModelSpec spec;
  model::TrainingGraph training;
  Trained(ModelSpec model, const Freeze& freeze)
      : spec(std::move(model)), training(model::build_training(graph, spec, Optimiser::adam(0.01), {}, 1, freeze)) {}
};

class Fed {
 public:
  Fed(Trained& net, int64_t batch) {
    const auto add = [&](const NamedTensors& tensors, const std::vector<NamedType>& types) {
      for (const auto& [name, type] : types) {
        std::vector<std::byte>& bytes =
            memory_.emplace_back(static_cast<size_t>(element_count(type.shape).at(batch) * size_of(type.dtype)));
        model::fill_synthetic(type, batch, net.spec.classes, bytes.data());
        feeds_.emplace_back(tensors[name], type.dtype, bytes.data(), static_cast<Bytes>(bytes.size()));
      }
    };
    memory_.reserve(8);
    add(net.training.inputs, net.spec.inputs);
    add(net.training.targets, net.spec.targets);
  }
  const std::vector<Feed>& feeds() const { return feeds_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Feed> feeds_;
};

std::vector<float> losses(Trained& net, int steps) {
  constexpr int64_t kBatch = 3;
  MemoryLine line(GiB);
  session::Engine session(net.graph, line, {{{net.training.loss}, net.training.updates.nodes, kBatch}},
                          SessionOptions{.seed = 7});
  const Fed fed(net, kBatch);
  std::vector<float> all;
  for (int i = 0; i < steps; ++i) all.push_back(session.run_step(0, fed.feeds())[0].item<float>());
  return all;
}

TEST(Adapt, BeginsAsTheModelAndLearns) {
  Trained plain(small_gpt2(), {}), adapted(adapt(small_gpt2(), {.rank = 4, .alpha = 8}), adapter_freeze());
  const std::vector<float> steps = losses(adapted, 20);
  EXPECT_EQ(steps[0], losses(plain, 1)[0]);
  EXPECT_LT(steps.back(), steps.front());
}

TEST(Adapt, TrainsAdaptersAlone) {
  Trained net(adapt(small_gpt2(), {}), adapter_freeze());
  const graph::Body& body = net.graph.body();
  std::set<std::string> updated;
  for (const NodeId id : net.training.updates.nodes) {
    const ValueId changed = body.inputs(body.node(id))[0];
    if (body.variable_of(changed).role() == VariableRole::Weight)
      updated.insert(std::string(body.name(body.value(changed))));
  }
  const std::vector<std::string> adapters = adapters_of(net.graph);
  EXPECT_EQ(updated, std::set<std::string>(adapters.begin(), adapters.end()));
  // A for each c_attn, B for each of its three parts.
  EXPECT_EQ(adapters.size(), 2U * 4U);
  EXPECT_EQ(to_string(net.graph.find("gpt2-small/block1/attention/lora_A").type()), "f32[64,8]");
  EXPECT_EQ(to_string(net.graph.find("gpt2-small/block1/attention/key/lora_B").type()), "f32[8,64]");
}

TEST(Adapt, StartsAsPeftDoes) {
  Trained net(adapt(small_bert(), {.rank = 4}), adapter_freeze());
  const auto init = [&](const std::string& name) {
    return net.graph.body().variable_of(net.graph.find("bert-base/" + name).id()).init();
  };
  EXPECT_EQ(init("block1/attention/query/lora_A"), Init::uniform(-0.125, 0.125));
  EXPECT_EQ(init("block1/attention/value/lora_B"), Init::zeros());
  EXPECT_THAT(adapters_of(net.graph),
              ElementsAre("bert-base/block1/attention/query/lora_A", "bert-base/block1/attention/query/lora_B",
                          "bert-base/block1/attention/value/lora_A", "bert-base/block1/attention/value/lora_B"));
}

TEST(Adapt, DropoutIsOfTrainingAlone) {
  Trained net(adapt(small_bert(), {.rank = 4, .dropout = 0.5}), adapter_freeze());
  const graph::Body& body = net.graph.body();
  const auto dropouts = std::ranges::count_if(
      body.nodes(), [&](const graph::Node& node) { return node.op->name == "dropout" && !node.is_backward; });
  EXPECT_EQ(dropouts, 2);
}

TEST(Adapt, AnyModelWithTargets) {
  const Model net("tower", [](Tensor x, bool) {
    x = layers::dense(x, 32, {.activation = "relu"}, "low");
    return layers::dense(x, 3, {}, "high");
  });
  Graph graph;
  const Model adapted = net.adapt({.rank = 2, .targets = {"low", "hi*"}});
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 5});
  adapted(x, true);
  adapted(x, false);  // uses the same ones
  EXPECT_THAT(adapters_of(graph),
              ElementsAre("tower/low/lora_A", "tower/low/lora_B", "tower/high/lora_A", "tower/high/lora_B"));
}

TEST(Adapt, RefusesWhatMakesNoSense) {
  const auto refused = [](const AdaptOptions& options) {
    return error_of([&] {
      Graph graph;
      model::build_inference(graph, adapt(small_gpt2(), options));
    });
  };
  EXPECT_EQ(refused({.rank = 0}), "adapters: the rank must be at least 1 but is 0");
  EXPECT_EQ(refused({.rank = 65}),
            "adapters: rank 65 is more than layer 'block1/attention/query' [64,64] has; give at most 64");
  EXPECT_THAT(refused({.targets = {"q_proj"}}),
              StartsWith("adapters: no layer of 'gpt2-small' matches 'q_proj'; name one of its products with a weight: "
                         "these are block1/attention/query"));
  EXPECT_THAT(refused({.alpha = 0}), HasSubstr("alpha must be positive"));
  EXPECT_THAT(refused({.dropout = 1}), HasSubstr("the dropout rate"));
  EXPECT_THAT(error_of([] {
                Graph graph;
                model::build_inference(graph, adapt(find_model("mlp"), {}));
              }),
              HasSubstr("nothing is known of 'mlp' that would tell which layers to adapt"));
}

}  // namespace
}  // namespace plimsoll::shrink

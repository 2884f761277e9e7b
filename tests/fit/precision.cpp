// Policies, state in 8 bits and accumulation in a training: what they cost in accuracy, what they save, and what the
// plan says of it. Margins are stated beside each comparison.
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/half_product.h"
#include "report/plan_report.h"
#include "support/error_of.h"
#include "support/sanitizer.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::fit {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::SmallData;

constexpr const char* kFashion = "/usr/share/datasets/fashion-mnist";

train::Spec lenet_spec() {
  train::Spec spec;
  spec.model = "lenet";
  spec.batch = 64;
  spec.line = GiB;
  spec.data = input::open_data({.path = kFashion}, find_model("lenet", {}));
  return spec;
}

struct Outcome {
  double accuracy, loss;
  Bytes optimiser_bytes;
};

// So many steps on Fashion-MNIST, then a score on its test half.
Outcome train_lenet(const train::Spec& spec, int64_t steps) {
  const auto training = train::make_training(spec);
  train::TrainingLoop loop(*training, {.steps = steps});
  loop.open();
  loop.run();
  train::Inputs test(*training, *spec.data.test);
  const train::Score score = train::evaluate(*training, test);
  Bytes bytes = 0;
  for (const graph::Variable& variable : training->graph.body().variables())
    if (variable.role() == VariableRole::Optimiser) {
      const TensorType& type = training->graph.body().value(variable.value).type;
      bytes += element_count(type.shape).fixed() * size_of(type.dtype);
    }
  return {score.value("accuracy"), score.value("loss"), bytes};
}

constexpr int64_t kSteps = 250;
constexpr double kMargin = 0.02;  // of accuracy: the last bits of a kernel alone move it by half of this

const Outcome& wide_lenet() {
  static const Outcome outcome = train_lenet(lenet_spec(), kSteps);
  return outcome;
}

TEST(Precision, LenetLearnsAsWellUnderEveryPolicy) {
  EXPECT_GT(wide_lenet().accuracy, 0.75) << "nothing was learned";
  for (const Policy& policy : {Policy::mixed_bfloat16(), Policy::mixed_float16()}) {
    train::Spec spec = lenet_spec();
    spec.policy = policy;
    const Outcome mixed = train_lenet(spec, kSteps);
    EXPECT_GT(mixed.accuracy, wide_lenet().accuracy - kMargin) << policy.name();
    EXPECT_NE(mixed.loss, wide_lenet().loss) << "nothing was rounded";
  }
}

TEST(Precision, LenetLearnsAsWellWithStateInBytes) {
  train::Spec spec = lenet_spec();
  spec.optimiser.state_bits = 8;
  const Outcome narrow = train_lenet(spec, kSteps);
  EXPECT_GT(narrow.accuracy, wide_lenet().accuracy - kMargin);
  // Codes take a quarter, scales a 64th of that; weights of fewer than 4096 elements stay as they are.
  EXPECT_LT(static_cast<double>(narrow.optimiser_bytes), 0.32 * static_cast<double>(wide_lenet().optimiser_bytes));
}

TEST(Precision, ThePlanShowsWhatAPolicySaves) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec;
  spec.model = "resnet18";
  // Large enough that values outweigh gradients: with a scaled loss all gradients are held until all are known finite.
  spec.model_options.image_size = 128;
  spec.batch = 16;
  spec.line = 4 * GiB;
  const auto wide = train::make_training(spec);
  EXPECT_EQ(train::plan_facts(*wide).half_values, 0);
  EXPECT_THAT(report::plan_text(train::plan_facts(*wide)), HasSubstr("bit-identical"));
  for (const Policy& policy : {Policy::mixed_bfloat16(), Policy::mixed_float16()}) {
    spec.policy = policy;
    const auto mixed = train::make_training(spec);
    const report::PlanFacts facts = train::plan_facts(*mixed);
    EXPECT_GT(facts.half_values, 10);
    EXPECT_LT(facts.peak_bytes, train::plan_facts(*wide).peak_bytes);
    const std::string text = report::plan_text(facts);
    EXPECT_THAT(text,
                HasSubstr(fmt::format("values in {}: {} instead of {}", name_of(policy.values),
                                      format_bytes(facts.half_value_bytes), format_bytes(2 * facts.half_value_bytes))));
    EXPECT_THAT(text, HasSubstr(fmt::format("differ: values in {}", name_of(policy.values))));
    EXPECT_THAT(report::plan_json(facts), HasSubstr("\"exactness\":\"lossy\""));
    // f16 is storage alone; so is bf16 where the processor does not multiply it.
    const bool computes = policy == Policy::mixed_bfloat16() && kernels::multiplies_bf16();
    EXPECT_EQ(facts.half_products > 0, computes);
    EXPECT_EQ(
        text.find(fmt::format("computes {} of {} products", facts.half_products, facts.products)) != std::string::npos,
        computes);
    EXPECT_EQ(text.find("products in bf16") != std::string::npos, computes);
  }
}

// Computing in bf16 takes no more memory than keeping values so: casts to f32 go, rounded filters come.
TEST(Precision, ProductsInBf16NeedNoMoreMemory) {
  for (const char* model : {"mlp", "lenet", "resnet18", "unet", "bert-base"}) {
    train::Spec spec;
    spec.model = model;
    spec.batch = 64;
    if (std::string_view(model) != "bert-base") spec.model_options.image_size = 64;
    if (std::string_view(model) == "bert-base") spec.model_options.layers = 2;
    spec.line = 16 * GiB;
    spec.policy = Policy::stored_bfloat16();
    const auto stored = train::make_training(spec);
    spec.policy = Policy::mixed_bfloat16();
    const auto mixed = train::make_training(spec);
    EXPECT_EQ(train::plan_facts(*stored).half_products, 0);
    EXPECT_EQ(train::plan_facts(*mixed).half_products > 0, kernels::multiplies_bf16()) << model;
    EXPECT_LE(train::plan_facts(*mixed).arena_bytes, train::plan_facts(*stored).arena_bytes) << model;
  }
}

// Trains a language model on the same few samples in every step.
double train_transformer(const Policy& policy, int state_bits) {
  ModelOptions options;
  options.classes = 200;
  options.sequence = 32;
  options.layers = 2;
  options.width = 64;
  options.dropout = 0.0;
  const ModelSpec model = find_model("gpt2-small", options);
  Graph graph;
  Optimiser optimiser = Optimiser::adam(3e-3);
  optimiser.state_bits = state_bits;
  optimiser.scales_loss = policy.scales_loss();
  const model::TrainingGraph training = model::build_training(graph, model, optimiser);
  constexpr int64_t kBatch = 16;
  std::vector<int32_t> words(kBatch * 32), next(kBatch * 32);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<int32_t>((i * i + 7 * i) % 199);
    next[i] = static_cast<int32_t>(((i + 1) * (i + 1) + 7 * (i + 1)) % 199);
  }
  Session session(graph, MemoryLine(), {.policy = policy});
  Step step = session.step({.fetch = {training.loss}, .update = training.updates, .batch = kBatch});
  const int32_t half_values = session::engine_of(session)->steps()[0].program.half_values;
  EXPECT_EQ(half_values > 0, policy.values != DType::F32) << policy.name();
  EXPECT_EQ(session::engine_of(session)->steps()[0].program.half_products > 0,
            policy == Policy::mixed_bfloat16() && kernels::multiplies_bf16());
  double sum = 0;
  for (int i = 0; i < 60; ++i)
    sum += static_cast<double>(step({{training.input(), words}, {training.labels(), next}})[0].item<float>());
  return sum / 60;
}

TEST(Precision, ATransformerLearnsAsWell) {
  const double wide = train_transformer(Policy::float32(), 32);
  EXPECT_LT(wide, 0.8 * std::log(200.0)) << "nothing was learned";
  // Of the mean loss over all steps.
  EXPECT_NEAR(train_transformer(Policy::mixed_bfloat16(), 32), wide, 0.05 * wide);
  EXPECT_NEAR(train_transformer(Policy::mixed_float16(), 32), wide, 0.05 * wide);
  EXPECT_NEAR(train_transformer(Policy::float32(), 8), wide, 0.05 * wide);
}

TEST(Precision, AFloatThatOverflowsF16EndsWithAnErrorNotInALoop) {
  const SmallData data(512, 16);
  train::Spec spec = data.spec();
  spec.policy = Policy::mixed_float16();
  spec.optimiser = Optimiser::sgd();
  const auto training = train::make_training(spec);
  train::TrainingLoop loop(*training, {.epochs = 3, .advice = "try less"});
  loop.open();
  const float bad = std::nanf("");
  std::vector<float> weights;
  for (const graph::Variable& variable : training->graph.body().variables()) {
    if (variable.role() != VariableRole::Weight) continue;
    const Tensor weight(training->graph, variable.value);
    weights.assign(static_cast<size_t>(element_count(weight.shape()).fixed()), bad);
    training->session->set(weight, weights.data(), static_cast<Bytes>(weights.size() * sizeof(float)));
  }
  EXPECT_THAT(error_of([&] { loop.run(); }), HasSubstr("try less"));
}

TEST(Accumulation, AnEpochEndsWithAnUpdate) {
  const SmallData data(88, 16);  // 11 batches of 8: groups of 4, 4 and 3
  train::Spec spec = data.spec();
  spec.accumulate = 4;
  const auto training = train::make_training(spec);
  EXPECT_THAT(report::plan_text(train::plan_facts(*training)), HasSubstr("an update for each 4 batches"));
  EXPECT_THAT(report::plan_json(train::plan_facts(*training)), HasSubstr("\"accumulate\":4"));
  train::TrainingLoop loop(*training, {.epochs = 2});
  loop.open();
  const History history = loop.run();
  int64_t updates = 0, group = 0;
  training->session->get(training->passes.updates.step, &updates, sizeof updates);
  training->session->get(training->passes.accumulated_batches, &group, sizeof group);
  EXPECT_EQ(updates, 2 * 3);
  EXPECT_EQ(group, 0);
  EXPECT_EQ(history.epochs.front().steps, 11);
  EXPECT_EQ(training->session->step_count(), 22);
}

TEST(Accumulation, LearnsWhatALargeBatchLearns) {
  const SmallData data(64, 21);
  const auto train = [&](int64_t batch, int64_t accumulate) {
    train::Spec spec = data.spec();
    spec.batch = batch;
    spec.accumulate = accumulate;
    spec.optimiser = Optimiser::sgd(0.1, 0.9);
    const auto training = train::make_training(spec);
    train::TrainingLoop loop(*training, {.epochs = 5});
    loop.open();
    return loop.run();
  };
  const History parts = train(8, 4), whole = train(32, 1);
  for (const char* name : {"loss", "accuracy", "val_loss"})
    for (size_t i = 0; i < whole.epochs.size(); ++i)
      EXPECT_NEAR(parts[name][i], whole[name][i], 1e-4 * whole[name][i]) << name << " of epoch " << i + 1;
}

TEST(Accumulation, AStopLeavesTheGroupForTheNextRun) {
  const SmallData data(88, 16);
  train::Spec spec = data.spec();
  spec.accumulate = 4;
  const auto training = train::make_training(spec);
  train::TrainingLoop loop(*training, {.steps = 6});
  loop.open();
  loop.run();
  int64_t updates = 0, group = 0;
  training->session->get(training->passes.updates.step, &updates, sizeof updates);
  training->session->get(training->passes.accumulated_batches, &group, sizeof group);
  EXPECT_EQ(updates, 1);
  EXPECT_EQ(group, 2);
}

TEST(Accumulation, FewerThanOneBatchIsRefused) {
  train::Spec spec = testing::small_spec();
  spec.accumulate = 0;
  EXPECT_THAT(error_of([&] { train::make_training(spec); }), HasSubstr("at least 1 batch but accumulate is 0"));
}

}  // namespace
}  // namespace plimsoll::fit

// Losses, weights and scores are the same to the last bit for any number of threads.
#include <omp.h>

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "laws/models.h"
#include "model/training.h"
#include "session/engine.h"
#include "support/forced.h"

namespace plimsoll {
namespace {

using testing::Case;
using testing::random_values;

struct Result {
  std::vector<float> losses;  // of two steps, then of an evaluation
  std::vector<std::vector<std::byte>> variables;
};

class ThreadCountScope {
 public:
  explicit ThreadCountScope(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadCountScope() { omp_set_num_threads(before_); }

 private:
  int before_;
};

// As the program's --threads does: kernels are prepared and run with so many.
Result train(const Case& c, int threads, const Policy& policy = {}) {
  const ThreadCountScope scope(threads);
  const ModelSpec spec = find_model(c.model, c.options);
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::adam());
  MemoryLine line(MemoryLine::kUnlimited);
  session::Engine session = testing::make_engine(
      graph, line, {{{training.loss}, training.updates.nodes, c.batch}, {{training.eval_loss}, {}, c.batch}},
      {.policy = policy});
  const int64_t classes = std::max<int64_t>(1, spec.classes);
  const auto input = random_values(spec.input(), c.batch, classes);
  const auto labels = random_values(spec.labels(), c.batch, classes);
  const Feed feeds[] = {
      {training.input(), training.input().dtype(), input.data(), static_cast<Bytes>(input.size())},
      {training.labels(), training.labels().dtype(), labels.data(), static_cast<Bytes>(labels.size())}};
  Result result;
  for (const size_t step : {0, 0, 1}) result.losses.push_back(session.run_step(step, feeds)[0].floats()[0]);
  for (const graph::Variable& variable : graph.body().variables()) {
    const auto view = session.peek({graph, variable.value});
    result.variables.emplace_back(view.begin(), view.end());
  }
  return result;
}

class AnyThreads : public ::testing::TestWithParam<Case> {
 protected:
  static void expect_same_bits(const Policy& policy) {
    // Workspace grows with the threads, and with it the smallest line and its number of micro-batches.
    if (!testing::keeps_bits()) GTEST_SKIP() << "each number of threads may plan other micro-batches";
    const Result one = train(GetParam(), 1, policy);
    for (const float loss : one.losses) ASSERT_TRUE(std::isfinite(loss));
    EXPECT_NE(one.losses[0], one.losses[1]) << "nothing was trained";
    for (const int threads : {2, 3, 5, 8}) {
      const Result many = train(GetParam(), threads, policy);
      EXPECT_EQ(many.losses, one.losses) << threads << " threads";
      size_t differ = 0;
      for (size_t i = 0; i < one.variables.size(); ++i) differ += many.variables[i] != one.variables[i] ? 1 : 0;
      EXPECT_EQ(differ, 0U) << "of " << one.variables.size() << " variables differ with " << threads << " threads";
    }
  }
};

TEST_P(AnyThreads, GiveTheSameBits) { expect_same_bits(Policy::float32()); }
TEST_P(AnyThreads, GiveTheSameBitsInHalf) { expect_same_bits(Policy::mixed_bfloat16()); }

ModelOptions images(int64_t size, std::optional<int64_t> layers = {}, std::optional<int64_t> width = {}) {
  ModelOptions o;
  o.image_size = size;
  o.classes = 10;
  o.layers = layers;
  o.width = width;
  return o;
}

ModelOptions words(int64_t sequence) {
  ModelOptions o;
  o.classes = 300;
  o.sequence = sequence;
  o.layers = 2;
  o.width = 128;
  return o;
}

ModelOptions chain() {
  ModelOptions o;
  o.layers = 12;
  return o;
}

INSTANTIATE_TEST_SUITE_P(
    Models, AnyThreads,
    ::testing::Values(Case{"mlp", "mlp", {}, 37}, Case{"lenet", "lenet", {}, 16}, Case{"lenet_odd", "lenet", {}, 5},
                      Case{"fashion", "fashion", {}, 8}, Case{"fashion_odd", "fashion", {}, 3},
                      Case{"resnet18", "resnet18", images(32), 8}, Case{"resnet18_odd", "resnet18", images(64), 3},
                      Case{"resnet50", "resnet50", images(32), 3}, Case{"mobilenet_v2", "mobilenet_v2", images(32), 8},
                      Case{"mobilenet_v2_odd", "mobilenet_v2", images(64), 3},
                      Case{"vgg16", "vgg16", images(32, {}, 64), 3}, Case{"unet", "unet", images(32, 2, 32), 2},
                      Case{"unet_one", "unet", images(64, 2), 1}, Case{"bert", "bert-base", words(24), 3},
                      Case{"gpt2", "gpt2-small", words(33), 2}, Case{"dense_chain", "dense-chain", chain(), 33}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace plimsoll

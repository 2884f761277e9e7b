// Random operators within steps: other numbers in each, the same for any line, micro-batches and recomputation.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/layers.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/random.h>
#include <plimsoll/session.h>

namespace plimsoll {
namespace {

constexpr int64_t kBatch = 512, kWidth = 32;

// Noise at every layer, which the backward pass needs again, and noise that all samples share.
struct NoisyNet {
  Graph graph;
  Tensor x = graph.placeholder<float>("x", {Dim::batch(), kWidth});
  Tensor noise, shared, loss;
  Updates updates;
  std::vector<float> rows = std::vector<float>(kBatch * kWidth, 0.5F);

  NoisyNet() {
    Tensor y = x;
    shared = random_uniform(graph, {kWidth}, 0.5, 1.5, DType::F32, "shared");
    for (int i = 0; i < 4; ++i) {
      noise = random_normal(y, 0, 0.5);
      y = layers::dense(y * noise * shared, kWidth, {.activation = "tanh"});
    }
    loss = reduce_mean(y * y, {0, 1});
    updates = minimize(loss, Optimiser::sgd(0.1));
  }

  struct Run {
    std::vector<float> losses, noise, shared;
    int64_t micro_batches = 0;
    bool operator==(const Run& other) const {
      return losses == other.losses && noise == other.noise && shared == other.shared;
    }
  };
  Run run(Bytes line, const Levers& levers = {}) {
    Session session(graph, MemoryLine(line), {.levers = levers});
    const StepSpec spec{.fetch = {loss, noise, shared}, .update = updates, .batch = kBatch};
    Run run;
    run.micro_batches = session.forecast(spec).micro_batches();
    Step step = session.step(spec);
    for (int i = 0; i < 3; ++i) {
      const Results results = step({{x, rows}});
      run.losses.push_back(results[0].item<float>());
      const auto add = [](const View& view, std::vector<float>& to) {
        const std::span<const float> numbers = view.floats();
        to.insert(to.end(), numbers.begin(), numbers.end());
      };
      add(results[1], run.noise);
      add(results[2], run.shared);
    }
    return run;
  }
  Bytes smallest(const Levers& levers) {
    Session low(graph, MemoryLine(1024), {.levers = levers});
    return low.forecast({.fetch = {loss, noise, shared}, .update = updates, .batch = kBatch}).smallest_line();
  }
};

TEST(RandomSteps, DrawOtherNumbersInEachStep) {
  NoisyNet net;
  const NoisyNet::Run run = net.run(GiB);
  const auto count = static_cast<std::ptrdiff_t>(run.noise.size() / 3);
  EXPECT_FALSE(std::equal(run.noise.begin(), run.noise.begin() + count, run.noise.begin() + count));
  EXPECT_NE(run.shared.front(), run.shared[run.shared.size() / 3]);
  EXPECT_EQ(run, net.run(GiB)) << "the same seed";
}

TEST(RandomSteps, GiveTheSameBitsUnderAnyLine) {
  NoisyNet net;
  const Levers exact{.micro_batch = false};
  const NoisyNet::Run whole = net.run(GiB);
  EXPECT_EQ(net.run(net.smallest(exact), exact), whole);
}

TEST(RandomSteps, MicroBatchesDrawTheNumbersOfTheWholeBatch) {
  NoisyNet net;
  const Levers alone{.recompute = false};  // a plan of the whole batch is preferred to micro-batches
  const NoisyNet::Run whole = net.run(GiB), cut = net.run(net.smallest(alone), alone);
  ASSERT_GT(cut.micro_batches, 1);
  EXPECT_EQ(cut.noise, whole.noise);
  EXPECT_EQ(cut.shared, whole.shared);
  for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(cut.losses[i], whole.losses[i], 1e-5);
}

}  // namespace
}  // namespace plimsoll

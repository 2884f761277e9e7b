// Attention and recurrent layers under smaller and smaller lines: plans that place, reorder and recompute give the same
// bits, those of micro-batches the same numbers but for the order of sums.
#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "base/random.h"

namespace plimsoll {
namespace {

constexpr int64_t kBatch = 8, kSteps = 24, kWidth = 16;

std::vector<float> drawn(uint64_t seed, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    numbers[static_cast<size_t>(i)] = static_cast<float>(2 * unit_real(mix_bits(seed, static_cast<uint64_t>(i))) - 1);
  return numbers;
}

struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> weights;
  Bytes arena_bytes = 0, peak_bytes = 0;
};

// Empty where the line is too small.
std::optional<Outcome> train(const MemoryLine& line, const Levers& levers) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kSteps, kWidth});
  const Tensor y = graph.placeholder<float>("y", {Dim::batch(), 1});
  const Tensor lengths = graph.placeholder("lengths", DType::I32, {Dim::batch()});
  const Tensor bias = graph.variable("bias", DType::F32, {4, kSteps, kSteps}, Init::normal(0, 0.1));
  Tensor h = layers::multi_head_attention(x, 4, {.causal = true, .key_heads = 2, .window = 9, .cap = 3, .bias = bias});
  h = layers::lstm(h, 12, {.return_sequences = true, .bidirectional = true, .layers = 2, .lengths = lengths});
  const auto [sequence, state] = layers::gru(h, 10, {.return_sequences = true});
  const Tensor last = layers::simple_rnn(sequence, 6, {.state = {slice(state[0], 1, 0, 6)}});
  const Tensor loss = mean_squared_error(layers::dense(last, 1), y);
  const Updates updates = minimize(loss, Optimiser::sgd(0.1, 0.9));
  try {
    Session session(graph, line, {.levers = levers});
    Step step = session.step({.fetch = {loss}, .update = updates, .batch = kBatch});
    Outcome outcome;
    std::vector<int32_t> counts;
    for (int32_t i = 0; i < kBatch; ++i) counts.push_back(1 + i * 5 % static_cast<int32_t>(kSteps));
    for (uint64_t i = 0; i < 3; ++i) {
      const std::vector<float> in = drawn(i, kBatch * kSteps * kWidth), out = drawn(100 + i, kBatch);
      outcome.losses.push_back(step({{x, in}, {y, out}, {lengths, counts}})[0].item<float>());
    }
    for (const StoredVariable& variable : graph.store()->variables()) {
      outcome.weights.emplace_back(static_cast<size_t>(element_count(variable.type.shape).fixed()));
      if (variable.type.dtype != DType::F32)
        outcome.weights.pop_back();
      else
        session.get(graph.find(variable.name), outcome.weights.back());
    }
    outcome.arena_bytes = session.arena_bytes();
    outcome.peak_bytes = session.peak_bytes();
    return outcome;
  } catch (const DoesNotFit&) {
    return std::nullopt;
  }
}

MemoryLine share_of(const Outcome& whole, double share) {
  return MemoryLine(static_cast<Bytes>(share * static_cast<double>(whole.peak_bytes)));
}

TEST(Sequences, TrainToTheSameBitsUnderAnyLine) {
  const Levers levers{.micro_batch = false};
  const std::optional<Outcome> whole = train(MemoryLine(), levers);
  ASSERT_TRUE(whole);
  EXPECT_LT(whole->losses[2], whole->losses[0] + 1);
  int smaller = 0;
  for (double share = 0.95; share > 0.3; share -= 0.1) {
    const std::optional<Outcome> tight = train(share_of(*whole, share), levers);
    if (!tight) continue;
    smaller += tight->arena_bytes < whole->arena_bytes ? 1 : 0;
    EXPECT_EQ(tight->losses, whole->losses) << share;
    EXPECT_EQ(tight->weights, whole->weights) << share;
  }
  EXPECT_GT(smaller, 0) << "no line was smaller than what is taken without one";
}

TEST(Sequences, TrainToTheSameNumbersInMicroBatches) {
  const std::optional<Outcome> whole = train(MemoryLine(), {});
  ASSERT_TRUE(whole);
  std::optional<Outcome> tight;
  for (double share = 0.9; share > 0.2; share -= 0.1)
    if (auto fits = train(share_of(*whole, share), {})) tight = std::move(fits);
  ASSERT_TRUE(tight);
  EXPECT_LT(tight->arena_bytes, whole->arena_bytes);
  for (size_t i = 0; i < whole->losses.size(); ++i) EXPECT_NEAR(tight->losses[i], whole->losses[i], 1e-5);
  for (size_t v = 0; v < whole->weights.size(); ++v)
    for (size_t i = 0; i < whole->weights[v].size(); ++i) ASSERT_NEAR(tight->weights[v][i], whole->weights[v][i], 1e-5);
}

}  // namespace
}  // namespace plimsoll

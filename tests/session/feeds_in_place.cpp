// Feeds that a step reads where the caller has them: the same numbers as with a copy, and no place in the arena.
#include <plimsoll/session.h>

#include <algorithm>

#include <gtest/gtest.h>

#include <plimsoll/layers.h>
#include "memory/arena.h"
#include "ops/ops.h"
#include "support/disk_folder.h"
#include "support/error_of.h"

namespace plimsoll::session {
namespace {

using plimsoll::testing::error_of;

constexpr int64_t kBatch = 1024, kWidth = 64;

struct Rows {
  memory::Arena arena{2 * MiB};
  float* x = nullptr;
  float* y = nullptr;
  Rows() {
    arena.commit(arena.maximum());
    x = reinterpret_cast<float*>(arena.data());
    y = x + kBatch * kWidth;
    for (int64_t i = 0; i < kBatch * kWidth; ++i) x[i] = static_cast<float>(i % 97) / 97;
    for (int64_t i = 0; i < kBatch; ++i) y[i] = static_cast<float>(i % 3);
  }
};

struct Outcome {
  std::vector<float> losses;
  Bytes arena_bytes = 0;
};

// Three steps; without a line, with one that leaves a fraction of what that takes, or in micro-batches.
Outcome train(bool in_place, double share_of_line, const Levers& levers, const std::string& scratch = {}) {
  const Rows rows;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
  const Tensor y = graph.placeholder("y", DType::F32, {Dim::batch(), 1});
  Tensor h = x;
  for (int i = 0; i < 8; ++i) h = tanh(layers::dense(h, kWidth));
  const Tensor loss = mean_squared_error(layers::dense(h, 1), y);
  const Updates updates = minimize(loss, Optimiser::sgd(0.1));
  SessionOptions options;
  options.reads_feeds_in_place = in_place;
  options.levers = levers;
  options.scratch_folder = scratch;
  options.disk_limit = scratch.empty() ? 0 : GiB;
  Bytes all = 0;
  {
    Session roomy(graph, MemoryLine(), options);
    roomy.step({.fetch = {loss}, .update = updates, .batch = kBatch});
    all = roomy.arena_bytes();
  }
  Session session(
      graph,
      MemoryLine(static_cast<Bytes>(share_of_line * static_cast<double>(all)) + (scratch.empty() ? 0 : 3 * MiB / 2)),
      options);
  Step step = session.step({.fetch = {loss}, .update = updates, .batch = kBatch});
  Outcome outcome;
  for (int i = 0; i < 3; ++i)
    outcome.losses.push_back(
        step({Feed(x, rows.x, kBatch * kWidth * 4), Feed(y, rows.y, kBatch * 4)})[0].item<float>());
  outcome.arena_bytes = session.arena_bytes();
  const Rows untouched;
  EXPECT_TRUE(std::equal(rows.x, rows.x + kBatch * kWidth, untouched.x)) << "a step changed its feed";
  return outcome;
}

TEST(FeedsInPlace, GiveTheSameNumbersInLessMemory) {
  const Outcome copied = train(false, 2, {}), read = train(true, 2, {});
  EXPECT_EQ(copied.losses, read.losses);
  EXPECT_LE(read.arena_bytes, copied.arena_bytes);
}

TEST(FeedsInPlace, WithRecomputing) {
  Levers levers;
  levers.micro_batch = false;
  EXPECT_EQ(train(false, 2, {}).losses, train(true, 0.6, levers).losses);
}

TEST(FeedsInPlace, WithAScratchFile) {
  const testing::DiskFolder folder;
  Levers levers;
  levers.micro_batch = false;
  EXPECT_EQ(train(false, 2, {}).losses, train(true, 0.5, levers, folder).losses);
}

TEST(FeedsInPlace, InMicroBatchesEachReadsItsOwnRows) {
  Levers levers;
  levers.recompute = false;
  const Outcome whole = train(false, 2, {}), parts = train(true, 0.6, levers);
  ASSERT_EQ(whole.losses.size(), parts.losses.size());
  for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(whole.losses[i], parts.losses[i], 1e-4F) << i;
}

TEST(FeedsInPlace, FollowTheBatchFromSlotToSlot) {
  const Rows first, second;
  for (int64_t i = 0; i < kBatch * kWidth; ++i) second.x[i] *= 2;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
  const Tensor total = reduce_sum(x);
  Session session(graph, MemoryLine(16 * MiB), {.reads_feeds_in_place = true});
  Step step = session.step({.fetch = {total}, .batch = kBatch});
  const float one = step({Feed(x, first.x, kBatch * kWidth * 4)})[0].item<float>();
  const float two = step({Feed(x, second.x, kBatch * kWidth * 4)})[0].item<float>();
  EXPECT_FLOAT_EQ(two, 2 * one);
  EXPECT_EQ(step({Feed(x, first.x, kBatch * kWidth * 4)})[0].item<float>(), one);
  const float half = step({Feed(x, first.x, kBatch * kWidth * 2)})[0].item<float>();
  EXPECT_LT(half, one) << "a batch that is not full";
}

TEST(FeedsInPlace, ThatAreNotAlignedAreRefused) {
  const Rows rows;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  Session session(graph, MemoryLine(16 * MiB), {.reads_feeds_in_place = true});
  Step step = session.step({.fetch = {reduce_sum(x)}, .batch = 2});
  EXPECT_EQ(error_of([&] { step({Feed(x, rows.x + 1, 32)}); }),
            "feed 'x' is read where it lies but is not aligned to 64 bytes; align it, or leave "
            "SessionOptions::reads_feeds_in_place off");
}

}  // namespace
}  // namespace plimsoll::session

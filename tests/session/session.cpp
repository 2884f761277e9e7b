#include "session/engine.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "memory/process.h"
#include "ops/ops.h"
#include "support/error_of.h"
#include "support/forced.h"
#include "support/sanitizer.h"

namespace plimsoll::session {
namespace {

using namespace memory;

using namespace kernels;
using namespace ops;
using namespace plan;

using testing::error_of;
using ::testing::HasSubstr;
using testing::make_engine;

// Two dense layers that learn to tell which half of the input is larger.
struct Net {
  Graph graph;
  Tensor x, labels, logits, loss;
  Updates updates;

  explicit Net(const Optimiser& optimiser = Optimiser::adam(), int64_t width = 16) {
    x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
    labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
    const Tensor w1 = graph.variable("w1", DType::F32, {8, width}, Init::glorot_uniform(8, width));
    const Tensor b1 = graph.variable("b1", DType::F32, {width}, Init::zeros());
    const Tensor w2 = graph.variable("w2", DType::F32, {width, 2}, Init::glorot_uniform(width, 2));
    logits = dense(relu(dense(x, w1, b1)), w2);
    loss = sparse_cross_entropy(logits, labels);
    updates = minimize(loss, optimiser);
  }
  Request train(int64_t batch) const { return {{loss}, updates.nodes, batch}; }
};

struct Batch {
  std::vector<float> x;
  std::vector<int32_t> labels;
  explicit Batch(int64_t count) : x(static_cast<size_t>(count) * 8), labels(static_cast<size_t>(count)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 97));
    for (size_t i = 0; i < labels.size(); ++i) {
      const float* row = x.data() + i * 8;
      labels[i] = std::accumulate(row, row + 4, 0.0F) > std::accumulate(row + 4, row + 8, 0.0F) ? 1 : 0;
    }
  }
  std::vector<Feed> feeds(const Net& net) const { return {{net.x, x}, {net.labels, labels}}; }
};

TEST(Session, Learns) {
  Net net(Optimiser::adam(0.01));
  MemoryLine line;
  Engine session = make_engine(net.graph, line, {net.train(32)});
  const Batch batch(32);
  const auto feeds = batch.feeds(net);
  const float first = session.run_step(0, feeds)[0].floats()[0];
  float last = first;
  for (int i = 0; i < 200; ++i) last = session.run_step(0, feeds)[0].floats()[0];
  EXPECT_LT(last, first / 4);
  EXPECT_EQ(session.step_count(), 201);
}

TEST(Session, SameSeedGivesTheSameBits) {
  const auto losses = [](uint64_t seed) {
    Net net;
    MemoryLine line;
    SessionOptions options;
    options.seed = seed;
    Engine session = make_engine(net.graph, line, {net.train(16)}, options);
    const Batch batch(16);
    const auto feeds = batch.feeds(net);
    std::vector<float> all;
    for (int i = 0; i < 10; ++i) all.push_back(session.run_step(0, feeds)[0].floats()[0]);
    return all;
  };
  EXPECT_EQ(losses(3), losses(3));
  EXPECT_NE(losses(3), losses(4));
}

TEST(Session, PlansAnotherBatchWhenItComes) {
  Net net;
  MemoryLine line;  // not forced: a larger batch needs more than the smallest line of the first
  Engine session(net.graph, line, {net.train(16)});
  const Batch batch(16);
  session.run_step(0, batch.feeds(net));
  const Batch small(5);
  const Tensor fetches[] = {net.logits};
  const auto views = session.run(fetches, small.feeds(net));
  EXPECT_EQ(views[0].dims, (Dims{5, 2}));
  const Batch large(64);
  EXPECT_EQ(session.run(fetches, large.feeds(net))[0].dims, (Dims{64, 2}));
  EXPECT_EQ(session.steps().size(), 3U);
  EXPECT_TRUE(std::isfinite(session.run_step(0, batch.feeds(net))[0].floats()[0]));
}

TEST(Session, VariablesCanBeReadAndSet) {
  Net net;
  MemoryLine line;
  Engine session = make_engine(net.graph, line, {net.train(4)});
  const Tensor b1 = net.graph.find("b1");
  std::vector<float> values(16, 7.0F);
  session.set(b1, values.data(), 64);
  std::vector<float> read(16);
  session.get(b1, read.data(), 64);
  EXPECT_EQ(read, values);
  EXPECT_THROW(session.get(b1, read.data(), 60), Error);
  EXPECT_THROW(session.get(net.x, read.data(), 64), Error);
}

TEST(Session, RefusesWrongFeeds) {
  Net net;
  MemoryLine line;
  Engine session = make_engine(net.graph, line, {net.train(4)});
  const Batch batch(4);
  auto feeds = batch.feeds(net);
  EXPECT_THAT(error_of([&] { session.run_step(0, {feeds.data(), 1}); }), HasSubstr("placeholder 'labels'"));
  feeds[0].bytes -= 4;
  EXPECT_THAT(error_of([&] { session.run_step(0, feeds); }),
              HasSubstr("feed 'x' has 124 bytes but f32[4,8] needs 128"));
  const Tensor fetches[] = {net.loss};
  EXPECT_THAT(error_of([&] { session.run(fetches, feeds); }), HasSubstr("no multiple"));
}

TEST(Session, LineTooSmallIsRefusedWithTheSmallestThatWorks) {
  Net net(Optimiser::adam(), 20000);
  MemoryLine small(MiB);
  Bytes smallest = 0;
  try {
    Engine session(net.graph, small, {net.train(64)});
    FAIL();
  } catch (const DoesNotFit& e) {
    EXPECT_EQ(e.exit_code(), 3);
    EXPECT_EQ(e.refusal().line, MiB);
    EXPECT_GT(e.refusal().deficit(), 0);
    EXPECT_FALSE(e.refusal().holders.empty());
    EXPECT_THAT(e.what(), HasSubstr("smallest line that works"));
    smallest = e.refusal().smallest_line;
  }
  EXPECT_EQ(small.used(), 0);
  MemoryLine enough(smallest);
  Engine session(net.graph, enough, {net.train(64)});
  const Batch batch(64);
  EXPECT_TRUE(std::isfinite(session.run_step(0, batch.feeds(net))[0].floats()[0]));
  EXPECT_LE(enough.peak(), smallest);
  MemoryLine tight(smallest - MiB);
  EXPECT_THROW(Engine(net.graph, tight, {net.train(64)}), DoesNotFit);
}

// A weight in blocks is set and read through a copy in rows, which may need more than the step itself.
TEST(Session, RoomToSetVariablesIsPartOfTheRefusal) {
  const auto request = [](Graph& graph) {
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 256, 4, 4});
    const Tensor w = graph.variable("w", DType::F32, {256, 256, 3, 3}, Init::zeros());
    return Request{{reduce_sum(conv2d(x, w, {}, Window::padded(1)))}, {}, 1};
  };
  constexpr Bytes kWeight = 256 * 256 * 9 * 4;
  Graph probe;
  MemoryLine unlimited;
  const Engine any(probe, unlimited, {request(probe)});
  if (any.arena_bytes() < 2 * kWeight) GTEST_SKIP() << "here the convolution keeps its weight in rows";
  ASSERT_LT(any.steps().front().plan.arena_bytes, kWeight * 3 / 2);
  Graph graph;
  const Request step = request(graph);
  MemoryLine tight(kWeight * 3 / 2);
  try {
    Engine session(graph, tight, {step});
    FAIL();
  } catch (const DoesNotFit& e) {
    EXPECT_EQ(e.refusal().need, any.arena_bytes() + any.runtime_bytes());
    MemoryLine enough(e.refusal().need);
    Engine session(graph, enough, {step});
    EXPECT_NO_THROW(session.open());
  }
}

TEST(Session, PlannedPeakIsTheMeasuredOne) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Net net(Optimiser::adam(), 20000);
  MemoryLine line;
  Engine session = make_engine(net.graph, line, {net.train(256)});
  const Bytes before = resident_bytes();
  session.open();
  const Bytes opened = resident_bytes() - before;
  const Bytes staging = session.file_bytes() > 0 ? ScratchFile::kStagingBytes : 0;
  EXPECT_NEAR(static_cast<double>(opened), static_cast<double>(session.arena_bytes() + staging), 256.0 * KiB);
  const Batch batch(256);
  for (int i = 0; i < 3; ++i) session.run_step(0, batch.feeds(net));
  // Everything was touched when the arena was taken: steps add what libraries take by themselves, and no more than was
  // counted for it (and code pages that run for the first time).
  EXPECT_LT(resident_bytes() - before - opened, session.runtime_bytes() + MiB);
}

// The logits of a large vocabulary are held for some rows at a time where there is room, else recomputed: with the same
// bits, and the plan says so.
TEST(Session, LogitsAreMadeAgainWhenTheLineLeavesNoRoomForThem) {
  constexpr int64_t kClasses = 30000, kRows = 256;
  struct Words {
    Graph graph;
    Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(kRows), 8});
    Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch(kRows)});
    Tensor kernel = graph.variable("kernel", DType::F32, {kClasses, 8}, Init::glorot_uniform(8, kClasses));
    Tensor loss = linear_cross_entropy(x, kernel, labels, true);
    Updates updates = minimize(loss, Optimiser::sgd(0.1));
  };
  const auto train = [&](MemoryLine& line, std::string* did) {
    Words net;
    std::vector<float> x(kRows * 8);
    std::vector<int32_t> labels(kRows);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 117);
    const Feed feeds[] = {{net.x, x}, {net.labels, labels}};
    Engine session(net.graph, line, {{{net.loss}, net.updates.nodes, 1}});
    for (const Decision& decision : session.steps().front().plan.decisions) *did += decision.what + ". ";
    std::vector<float> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(session.run_step(0, feeds)[0].floats()[0]);
    return losses;
  };
  MemoryLine wide, narrow(20 * MiB);
  std::string did_wide, did_narrow;
  const std::vector<float> losses = train(wide, &did_wide);
  EXPECT_EQ(train(narrow, &did_narrow), losses);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_THAT(did_wide, ::testing::Not(HasSubstr("logits")));
  EXPECT_THAT(did_narrow, HasSubstr("make logits again in tiles"));
}

TEST(Session, ClosingGivesEveryByteBack) {
  MemoryLine line;
  Net net;
  Engine session = make_engine(net.graph, line, {net.train(4)});
  session.open();
  EXPECT_GT(line.used(), 0);
  session.close();
  EXPECT_EQ(line.used(), 0);
  const Batch batch(4);
  EXPECT_THAT(error_of([&] { session.run_step(0, batch.feeds(net)); }), HasSubstr("closed"));
}

TEST(Session, AThousandSessionsLeaveNothingBehind) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Batch batch(4);
  Bytes after_warm_up = 0;
  for (int i = 0; i < 1000; ++i) {
    Net net;
    MemoryLine line;
    Engine session = make_engine(net.graph, line, {net.train(4)});
    session.run_step(0, batch.feeds(net));
    session.close();
    if (i == 50) {
      trim_allocator();
      after_warm_up = resident_bytes();
    }
  }
  trim_allocator();
  EXPECT_LT(resident_bytes() - after_warm_up, 512 * KiB);
}

TEST(Session, AHundredThousandStepsLeaveMemoryFlat) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Net net;
  MemoryLine line;
  Engine session = make_engine(net.graph, line, {net.train(4)});
  const Batch batch(4);
  const auto feeds = batch.feeds(net);
  for (int i = 0; i < 1000; ++i) session.run_step(0, feeds);
  const Bytes before = resident_bytes();
  for (int i = 0; i < 100000; ++i) session.run_step(0, feeds);
  EXPECT_LE(resident_bytes() - before, 64 * KiB);
}

}  // namespace
}  // namespace plimsoll::session

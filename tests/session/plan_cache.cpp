// Plans for batch sizes that come up while a session runs are a cache, bounded in bytes: the least
// recently used go first.
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "memory/process.h"
#include "ops/ops.h"
#include "session/engine.h"
#include "support/sanitizer.h"

namespace plimsoll::session {
namespace {

using namespace memory;

struct Net {
  Graph graph;
  Tensor x, y;
  Net() {
    x = graph.placeholder("x", DType::F32, {Dim::batch(), 16});
    y = x;
    for (int i = 0; i < 20; ++i) {
      const std::string name = "w" + std::to_string(i);
      y = relu(matmul(y, graph.variable(name, DType::F32, {16, 16}, Init::glorot_uniform(16, 16))));
    }
  }
  std::vector<float> run(Engine& session, int64_t batch) const {
    const std::vector<float> rows(static_cast<size_t>(batch * 16), 0.5F);
    const Feed feeds[] = {{x, rows}};
    const Tensor fetches[] = {y};
    const auto values = session.run(fetches, feeds)[0].floats();
    return {values.begin(), values.begin() + 16};
  }
};

TEST(PlanCache, FiveHundredBatchSizesLeaveMemoryFlat) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  tame_allocator();
  Net net;
  MemoryLine line(64 * MiB);
  SessionOptions options;
  options.plan_cache_bytes = MiB;
  Engine session(net.graph, line, {{{net.y}, {}, 600}}, options);
  const std::vector<float> expected = net.run(session, 600);
  for (int64_t batch = 1; batch <= 100; ++batch) EXPECT_EQ(net.run(session, batch), expected);
  const size_t kept = session.steps().size();
  EXPECT_LT(kept, 60U);
  trim_allocator();
  const Bytes before = resident_bytes();
  for (int64_t batch = 101; batch <= 599; ++batch) net.run(session, batch);
  EXPECT_LE(session.steps().size(), kept + 1);
  trim_allocator();
  EXPECT_LE(resident_bytes(), before + MiB);
  // The steps of the constructor stay.
  EXPECT_EQ(session.steps().front().request.batch, 600);
}

TEST(PlanCache, TheLeastRecentlyUsedGoesFirst) {
  Net net;
  MemoryLine line(64 * MiB);
  SessionOptions options;
  options.plan_cache_bytes = 256 * KiB;
  Engine session(net.graph, line, {{{net.y}, {}, 64}}, options);
  const auto has = [&](int64_t batch) {
    for (const PlannedStep& step : session.steps())
      if (step.request.batch == batch) return true;
    return false;
  };
  for (int64_t batch = 1; batch < 30; ++batch) {
    net.run(session, batch);
    net.run(session, 1);
  }
  EXPECT_TRUE(has(1));
  EXPECT_TRUE(has(29));
  EXPECT_TRUE(has(64));
  EXPECT_FALSE(has(2));
}

}  // namespace
}  // namespace plimsoll::session

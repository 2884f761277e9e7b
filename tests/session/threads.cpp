// Sessions in several threads at once, on one line: each computes what it computes alone.
#include <thread>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "ops/ops.h"
#include "session/engine.h"
#include "support/disk_folder.h"
#include "support/forced.h"

namespace plimsoll::session {
namespace {

constexpr int64_t kWidth = 32;

std::vector<float> train(MemoryLine line, const SessionOptions& options) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
  Tensor y = x;
  for (int i = 0; i < 4; ++i)
    y = relu(dense(y, graph.variable("w" + std::to_string(i), DType::F32, {kWidth, kWidth},
                                     Init::glorot_uniform(kWidth, kWidth))));
  const Tensor loss = reduce_mean(mul(y, y));
  const Updates updates = minimize(loss, Optimiser::adam());
  const std::vector<float> numbers(8 * kWidth, 0.5F);
  const Feed feeds[] = {{x, numbers}};
  Engine session = testing::make_engine(graph, line, {{{loss}, updates.nodes, 8}}, options);
  std::vector<float> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(session.run_step(0, feeds)[0].floats()[0]);
  session.close();
  return losses;
}

TEST(SessionThreads, ShareALineAndKeepTheirNumbers) {
  const testing::DiskFolder folder;
  const std::vector<float> alone = train(MemoryLine(), {});
  ASSERT_NE(alone.front(), alone.back());
  for (const bool has_scratch : {false, true}) {
    SessionOptions options;
    if (has_scratch) {
      options.scratch_folder = folder;
      options.disk_limit = 64 * MiB;
    }
    const MemoryLine line(64 * MiB);
    std::vector<std::vector<float>> losses(3);
    std::vector<std::thread> threads;
    for (std::vector<float>& of_thread : losses)
      threads.emplace_back([&line, &options, &of_thread] { of_thread = train(line, options); });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& of_thread : losses) EXPECT_EQ(of_thread, alone);
    EXPECT_EQ(line.used(), 0);
  }
}

}  // namespace
}  // namespace plimsoll::session

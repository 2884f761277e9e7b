// Each mode of tests/configs does force what its file says, and changes no number beyond what its file admits.
#include "support/forced.h"

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "ops/ops.h"
#include "support/error_of.h"

namespace plimsoll::session {
namespace {

using testing::Mode;

// Large enough that each lever pays: a scratch file alone takes more than a MiB to stage transfers.
struct Net {
  static constexpr int64_t kWidth = 128, kBatch = 512;
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
  Tensor loss;
  Updates updates;
  Net() {
    Tensor y = x;
    for (int i = 0; i < 8; ++i)
      y = gelu(dense(y, graph.variable("w" + std::to_string(i), DType::F32, {kWidth, kWidth},
                                       Init::glorot_uniform(kWidth, kWidth))));
    loss = reduce_mean(mul(y, y));
    updates = minimize(loss, Optimiser::adam());
  }
  std::vector<Request> requests() const { return {{{loss}, updates.nodes, kBatch}}; }
  std::vector<float> train(Engine& engine) const {
    std::vector<float> numbers(static_cast<size_t>(kBatch * kWidth));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
    const Feed feeds[] = {{x, numbers}};
    std::vector<float> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(engine.run_step(0, feeds)[0].floats()[0]);
    return losses;
  }
};

class ForcedMode : public ::testing::TestWithParam<std::string> {};

TEST_P(ForcedMode, ShowsInThePlanAndKeepsTheNumbers) {
  const Mode mode = testing::read_mode(GetParam());
  Net free_net;
  MemoryLine free_line;
  Engine free(free_net.graph, free_line, free_net.requests());
  const std::vector<float> losses = free_net.train(free);
  ASSERT_LT(losses.back(), losses.front());
  Net net;
  MemoryLine line;
  Engine forced = testing::make_engine_in(mode, net.graph, line, net.requests());
  EXPECT_TRUE(testing::has_sign(forced, mode.shows));
  EXPECT_LT(line.limit(), free.peak_bytes());
  const std::vector<float> others = net.train(forced);
  EXPECT_LE(line.peak(), line.limit());
  EXPECT_EQ(forced.steps().front().plan.exactness == plan::Exactness::BitIdentical, mode.keeps_bits);
  if (mode.keeps_bits) {
    EXPECT_EQ(others, losses);
  } else {
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(others[i], losses[i], 1e-3F * losses[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, ForcedMode, ::testing::ValuesIn(testing::mode_names()),
                         [](const auto& info) { return info.param; });

// What PLIMSOLL_TEST_MODE names reaches every engine of the tests, and nothing does when it is unset.
TEST(ForcedModeOfThisRun, ReachesTheEnginesOfTests) {
  Net net;
  MemoryLine line;
  Engine engine = testing::make_engine(net.graph, line, net.requests());
  const Mode* mode = testing::forced_mode();
  EXPECT_EQ(line.limit() == MemoryLine::kUnlimited, mode == nullptr);
  if (mode != nullptr) {
    EXPECT_TRUE(testing::has_sign(engine, mode->shows));
  }
  // A line with a limit is the test's own.
  MemoryLine own(64 * MiB);
  const Engine asked = testing::make_engine(net.graph, own, net.requests());
  EXPECT_EQ(own.limit(), 64 * MiB);
}

TEST(ForcedModeFiles, AnUnknownModeIsRefused) {
  EXPECT_THAT(testing::error_of([] { testing::read_mode("nonsense"); }), ::testing::HasSubstr("no mode 'nonsense'"));
}

}  // namespace
}  // namespace plimsoll::session

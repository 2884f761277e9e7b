// The public session: step handles, typed results, other batch sizes, forecasts.
#include <plimsoll/session.h>

#include <gtest/gtest.h>

#include <plimsoll/layers.h>
#include "ops/ops.h"
#include "support/error_of.h"

namespace plimsoll::session {
namespace {

using plimsoll::testing::error_of;

struct Net {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  Tensor y = graph.placeholder("y", DType::F32, {Dim::batch(), 1});
  Tensor loss = mean_squared_error(layers::dense(layers::dense(x, 64, {.activation = "relu"}), 1), y);
  std::vector<float> rows = std::vector<float>(32 * 4, 0.25F), targets = std::vector<float>(32, 1.0F);
  StepSpec spec(int64_t batch = 32) { return {.fetch = {loss}, .update = updates(), .batch = batch}; }
  const Updates& updates() {
    if (updates_.nodes.empty()) updates_ = minimize(loss, Optimiser::sgd(0.1));
    return updates_;
  }

 private:
  Updates updates_;
};

TEST(Steps, TrainsThroughHandles) {
  Net net;
  Session session(net.graph, MemoryLine(16 * MiB), {});
  Step train = session.step(net.spec());
  Step score = session.step({.fetch = {net.loss}, .batch = 32});
  EXPECT_FALSE(session.is_open());
  const float before = score({{net.x, net.rows}, {net.y, net.targets}})[0].item<float>();
  for (int i = 0; i < 20; ++i) train({{net.x, net.rows}, {net.y, net.targets}});
  const Results after = score({{net.x, net.rows}, {net.y, net.targets}});
  EXPECT_LT(after[0].item<float>(), before / 2);
  EXPECT_EQ(after.size(), 1);
  EXPECT_EQ(session.step_count(), 20);
}

TEST(Steps, AShortLastBatchIsPlannedWhenItComes) {
  Net net;
  for (const bool covers_process : {false, true}) {
    Session session(net.graph, covers_process ? MemoryLine::process(256 * MiB) : MemoryLine(MiB));
    Step train = session.step(net.spec());
    train({{net.x, net.rows}, {net.y, net.targets}});
    const std::span rows(net.rows), targets(net.targets);
    train({{net.x, rows.first(7 * 4)}, {net.y, targets.first(7)}});
    train({{net.x, net.rows}, {net.y, net.targets}});
    EXPECT_EQ(session.step_count(), 3);
    EXPECT_EQ(train.batch(), 32);
  }
}

TEST(Steps, AShortBatchGivesWhatASessionOfThatBatchGives) {
  Net net;
  const std::span rows(net.rows), targets(net.targets);
  Session large(net.graph, MemoryLine()), small(net.graph, MemoryLine());
  Step of_large = large.step(net.spec(32)), of_small = small.step(net.spec(5));
  const auto run = [&](Step& step) {
    return step({{net.x, rows.first(5 * 4)}, {net.y, targets.first(5)}})[0].item<float>();
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(of_large), run(of_small));
}

TEST(Steps, ForecastsAreAnswers) {
  Net net;
  Session session(net.graph, MemoryLine(512 * KiB));
  const Forecast fits = session.forecast(net.spec());
  EXPECT_TRUE(fits.fits());
  EXPECT_GT(fits.peak(), 0);
  EXPECT_TRUE(fits.is_bit_identical());
  Session low(net.graph, MemoryLine(1024));
  const Forecast refused = low.forecast(net.spec());
  EXPECT_FALSE(refused.fits());
  EXPECT_GT(refused.smallest_line(), 1024);
  EXPECT_THROW(low.step(net.spec()), DoesNotFit);
  // A refused step leaves the earlier ones as they were.
  Step train = session.step(net.spec());
  EXPECT_FALSE(session.forecast(net.spec(100'000)).fits());
  EXPECT_LT(train({{net.x, net.rows}, {net.y, net.targets}})[0].item<float>(), 100);
}

TEST(Steps, RefuseWhatMakesNoSense) {
  Net net;
  auto session = std::make_unique<Session>(net.graph, MemoryLine());
  EXPECT_NE(error_of([&] { session->open(); }).find("no step yet"), std::string::npos);
  Step train = session->step({.fetch = {net.loss, net.x}, .update = net.updates(), .batch = 32});
  const Results results = train({{net.x, net.rows}, {net.y, net.targets}});
  EXPECT_NE(error_of([&] { results[1].item<float>(); }).find("128"), std::string::npos);
  EXPECT_NE(error_of([&] { results[0].item<int32_t>(); }).find("f32"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)results[2]; }).find("fetches 2"), std::string::npos);
  EXPECT_NE(error_of([&] { session->step(net.spec()); }).find("before the first run"), std::string::npos);
  session.reset();
  EXPECT_NE(error_of([&] { train({{net.x, net.rows}, {net.y, net.targets}}); }).find("closed"), std::string::npos);
}

TEST(Steps, VariablesAreReadAndSetByTheirType) {
  Net net;
  Session session(net.graph, MemoryLine());
  Step score = session.step({.fetch = {net.loss}, .batch = 32});
  const Tensor bias = net.graph.find("dense_1/bias");
  std::vector<float> value{2.5F};
  session.set(bias, value);
  value[0] = 0;
  session.get(bias, value);
  EXPECT_EQ(value[0], 2.5F);
  std::vector<int32_t> wrong(1);
  EXPECT_NE(error_of([&] { session.get(bias, wrong); }).find("f32"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::session

#include "session/number_watch.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "ops/ops.h"
#include "session/engine.h"
#include "support/forced.h"

namespace plimsoll::session {
namespace {

using ::testing::HasSubstr;
using testing::make_engine;

// exp('hot') of a product, a loss, and an update.
struct Net {
  explicit Net(double rate = 0.01) : updates(minimize(loss, Optimiser::sgd(rate))) {}
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  Tensor w = graph.variable("w", DType::F32, {8, 4}, Init::constant(0.1));
  Tensor hot = exp(matmul(x, w), "hot");
  Tensor loss = reduce_mean(hot);
  Updates updates;
};

class Watched {
 public:
  explicit Watched(Net& net, bool watches = true) : net_(net), session_(make(net, line_, watches)) {}
  // The loss, or what was thrown.
  std::pair<int, std::string> step(float number, size_t at = 17) {
    std::vector<float> x(48, 0.5F);
    x[at] = number;
    const Feed feeds[] = {{net_.x, x}};
    try {
      loss = session_.run_step(0, feeds)[0].item<float>();
    } catch (const Error& error) {
      return {error.exit_code(), error.what()};
    }
    return {0, ""};
  }
  float loss = 0;

 private:
  static Engine make(Net& net, MemoryLine& line, bool watches) {
    SessionOptions options;
    options.finds_bad_numbers = watches;
    return make_engine(net.graph, line, {{{net.loss}, net.updates.nodes, 6}}, options);
  }
  Net& net_;
  MemoryLine line_;
  Engine session_;
};

TEST(NumberWatch, NamesTheFirstOperatorThatWritesABadNumber) {
  Net net;
  Watched watched(net);
  EXPECT_EQ(watched.step(1).second, "");
  const auto [code, what] = watched.step(3e4F);
  EXPECT_EQ(code, 6);
  EXPECT_THAT(what, HasSubstr("'hot' wrote inf at step 2, before all other operators, though the data is finite"));
}

TEST(NumberWatch, WithoutItTheStepSaysNothing) {
  Net net;
  Watched plain(net, false);
  EXPECT_EQ(plain.step(3e4F).second, "");
  EXPECT_FALSE(std::isfinite(plain.loss));
}

TEST(NumberWatch, ChangesNoNumber) {
  Net net, other;
  Watched watched(net), plain(other, false);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(watched.step(0.1F * float(i)).second, "");
    plain.step(0.1F * float(i));
    EXPECT_EQ(watched.loss, plain.loss) << i;
  }
}

TEST(NumberWatch, AWeightThatIsSpoiltEndsTheStepThoughTheLossIsFine) {
  Net net(1e38);
  Watched watched(net);
  const auto [code, what] = watched.step(60);
  EXPECT_EQ(code, 6);
  EXPECT_THAT(what, HasSubstr("sgd"));
  EXPECT_THAT(what, HasSubstr("at step 1"));
}

TEST(NumberWatch, BadDataIsTheDatasFault) {
  Net net;
  Watched watched(net);
  const auto [code, what] = watched.step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(code, 4);
  EXPECT_THAT(what, HasSubstr("'x' has nan in sample 2 of the batch (element 1) at step 1; "));
}

TEST(NumberWatch, AnInfinityThatReachesNobodyIsFine) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  const Tensor y = clip(exp(x), 0, 5);
  MemoryLine line;
  SessionOptions options;
  options.finds_bad_numbers = true;
  Engine session = make_engine(graph, line, {{{y}, {}, 1}}, options);
  const std::vector<float> numbers(8, 1000);
  const Feed feeds[] = {{x, numbers}};
  EXPECT_EQ(session.run_step(0, feeds)[0].floats()[3], 5);
}

}  // namespace
}  // namespace plimsoll::session

// What is used after it is gone, or was moved away, is an Error that says so.
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include <plimsoll/session.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

TEST(Gone, ATensorAfterItsGraph) {
  std::optional<Graph> graph(std::in_place);
  const Tensor x = graph->placeholder<float>("x", {Dim::batch(), 2}), y = relu(x);
  EXPECT_NE(y.owner(), nullptr);
  graph.reset();
  EXPECT_EQ(y.owner(), nullptr);
  EXPECT_TRUE(y.is_set());
  const char* const sentence = "a tensor is used after its graph is gone";
  EXPECT_THAT(error_of([&] { static_cast<void>(y.shape()); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { static_cast<void>(y.name()); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { static_cast<void>(y.graph()); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { relu(y); }), HasSubstr(sentence));
  Graph other;
  const Tensor z = other.placeholder<float>("x", {Dim::batch(), 2});
  EXPECT_NE(error_of([&] { add(z, y); }), "no error");
  Session session(other, MemoryLine(MiB));
  EXPECT_NE(error_of([&] { session.step({.fetch = {y}}); }), "no error");
}

// Not a size that overflows on its way to the planner.
TEST(Gone, ABatchThatCannotBeCounted) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 8}), y = relu(x);
  Session session(graph, MemoryLine(MiB));
  for (const int64_t batch : {int64_t{1} << 48, int64_t{1} << 62})
    EXPECT_THAT(error_of([&] { session.step({.fetch = {y}, .batch = batch}); }),
                HasSubstr("has more than 2^50 elements, too many to count their bytes"));
  EXPECT_THAT(error_of([&] { session.step({.fetch = {y}, .batch = int64_t{1} << 47}); }), HasSubstr("does not fit"));
  EXPECT_EQ(session.step({.fetch = {y}, .batch = 8}).batch(), 8);
}

TEST(Gone, ASessionThatWasMovedAway) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch()}), y = relu(x);
  MemoryLine line(MiB);
  Session session(graph, line);
  Step step = session.step({.fetch = {y}});
  Session taken = std::move(session);
  const std::vector<float> numbers{3};
  EXPECT_EQ(step({{x, numbers}})[0].item<float>(), 3);
  // NOLINTBEGIN(bugprone-use-after-move)
  const char* const sentence = "the session was moved away";
  EXPECT_THAT(error_of([&] { session.step({.fetch = {y}}); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { session.forecast({.fetch = {y}}); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { session.open(); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { session.close(); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { static_cast<void>(session.is_open()); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { session.save("x"); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { static_cast<void>(session.line()); }), HasSubstr(sentence));
  EXPECT_THAT(error_of([&] { static_cast<void>(session.peak_bytes()); }), HasSubstr(sentence));
  const Step other = std::move(step);
  EXPECT_THAT(error_of([&] { step({{x, numbers}}); }), HasSubstr("the step was moved away"));
  // NOLINTEND(bugprone-use-after-move)
  session = std::move(taken);  // it may be given another one
  EXPECT_TRUE(session.is_open());
  EXPECT_EQ(other.batch(), 1);
}

}  // namespace
}  // namespace plimsoll

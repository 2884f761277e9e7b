// Which layers lie on which rank of a pipeline, and the order of its micro-batches.
#include "model/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/layers.h>
#include <plimsoll/ops.h>
#include "plan/check/exchanges.h"
#include "support/error_of.h"

namespace plimsoll::model {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using Kind = StageTurn::Kind;

// Three layers; the first one's value is used by the second and, over it, by the third.
struct Net {
  Net() {
    const Scope scope(graph, "net");
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
    first = layers::dense(x, 4, {}, "first");
    second = layers::dense(first, 4, {}, "second");
    third = layers::dense(add(second, first, "skip"), 4, {}, "third");
  }
  StageCut cut(const std::vector<std::string>& layers) {
    return cut_into_stages(graph.body(), {0, static_cast<NodeId>(graph.body().nodes().size())}, "net", layers,
                           std::vector<ValueId>{third.id()}, {});
  }
  int stage_of(const StageCut& cut, Tensor value) {
    return cut.stage_of[static_cast<size_t>(graph.body().value(value.id()).producer)];
  }
  Graph graph;
  Tensor first, second, third;
};

TEST(Stages, BeginWithTheirLayersAndSendWhatIsUsedLater) {
  Net net;
  const StageCut cut = net.cut({"second", "third"});
  EXPECT_EQ(net.stage_of(cut, net.first), 0);
  EXPECT_EQ(net.stage_of(cut, net.second), 1);
  EXPECT_EQ(net.stage_of(cut, net.third), 2);
  EXPECT_THAT(cut.crossing[0], ElementsAre(net.first.id()));
  ASSERT_EQ(cut.crossing[1].size(), 1U) << "the sum is made before the third layer";
  EXPECT_EQ(net.cut({}).crossing.size(), 0U);
}

TEST(Stages, PassOnWhatALaterRankUses) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  const Tensor a = relu(x, "a"), b = relu(a, "b"), c = add(b, a, "c");
  const StageCut cut = cut_into_stages(graph.body(), {0, 3}, "", {"b", "c"}, std::vector<ValueId>{c.id()}, {});
  EXPECT_THAT(cut.crossing[0], ElementsAre(a.id()));
  EXPECT_THAT(cut.crossing[1], ElementsAre(a.id(), b.id())) << "a goes through the rank between";
}

TEST(Stages, ThatCanNotBeAreRefused) {
  Net net;
  EXPECT_THAT(
      error_of([&] { net.cut({"fourth"}); }),
      HasSubstr("model 'net' has no layer 'fourth' to begin a stage with; its layers are first, second, third"));
  EXPECT_THAT(error_of([&] { net.cut({"sec"}); }), HasSubstr("no layer 'sec'")) << "names are whole";
  EXPECT_THAT(error_of([&] { net.cut({"third", "second"}); }), HasSubstr("in the order of the model"));
  EXPECT_THAT(error_of([&] { net.cut({"second", "second"}); }), HasSubstr("in the order of the model"));
  EXPECT_THAT(error_of([&] { net.cut({"first"}); }), HasSubstr("stage 0 of the pipeline would have no layer"));
}

TEST(Stages, TakeOneForwardAndOneBackward) {
  EXPECT_THAT(list_turns(0, 1, 2), ElementsAre(StageTurn{Kind::Forward, 0, -1}, StageTurn{Kind::Backward, -1, 0},
                                               StageTurn{Kind::Forward, 1, -1}, StageTurn{Kind::Backward, -1, 1}));
  EXPECT_THAT(list_turns(0, 2, 2), ElementsAre(StageTurn{Kind::Forward, 0, -1}, StageTurn{Kind::ExchangeAfter, 0, -1},
                                               StageTurn{Kind::Forward, 1, -1}, StageTurn{Kind::ExchangeAfter, 1, 0},
                                               StageTurn{Kind::Backward, -1, 0}, StageTurn{Kind::ExchangeAfter, -1, 1},
                                               StageTurn{Kind::Backward, -1, 1}));
}

// As find_unmatched reads them. Activations have 8 bytes, gradients 4.
std::string list_of(int stage, const std::vector<StageTurn>& turns) {
  std::string text;
  for (const StageTurn& turn : turns) {
    const int forward = turn.forward >= 0 ? 8 : 0, backward = turn.backward >= 0 ? 4 : 0;
    if (turn.kind == Kind::ExchangeBefore)
      text += "peer " + std::to_string(stage - 1) + " sends " + std::to_string(backward) + " receives " +
              std::to_string(forward) + " x\n";
    if (turn.kind == Kind::ExchangeAfter)
      text += "peer " + std::to_string(stage + 1) + " sends " + std::to_string(forward) + " receives " +
              std::to_string(backward) + " x\n";
  }
  return text;
}

TEST(Stages, NeverWaitForEachOtherAndHoldFewMicroBatches) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int64_t micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      std::vector<std::string> lists;
      for (int stage = 0; stage < stages; ++stage) {
        const std::vector<StageTurn> turns = list_turns(stage, stages, micro_batches);
        int64_t forward = 0, backward = 0;
        for (const StageTurn& turn : turns) {
          if (turn.kind == Kind::Forward) {
            EXPECT_EQ(turn.forward, forward++);
          } else if (turn.kind == Kind::Backward) {
            EXPECT_EQ(turn.backward, backward++);
          }
          EXPECT_LE(forward - backward, stages - stage);
        }
        EXPECT_EQ(forward, micro_batches);
        EXPECT_EQ(backward, micro_batches);
        lists.push_back(list_of(stage, turns));
      }
      EXPECT_EQ(plan::find_unmatched(lists), "") << stages << " stages, " << micro_batches << " micro-batches";
    }
}

}  // namespace
}  // namespace plimsoll::model

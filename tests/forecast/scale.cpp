// Plans for ranks that do not exist: bytes by what is shared, times by the volumes that are sent.
#include "forecast/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "forecast/paper_step.h"
#include "support/sanitizer.h"
#include "train/training.h"

namespace plimsoll::forecast {
namespace {

using ::testing::HasSubstr;

train::Spec wide_spec() {
  train::Spec spec;
  spec.model = "mlp";
  spec.model_options.width = 512;
  spec.batch = 64;
  spec.line = GiB;
  spec.network = {1.25e9, 20'000};
  return spec;
}

const report::ScaleRow& row_of(const report::ScaleFacts& facts, Sharding part, int64_t ranks) {
  for (const report::ScaleRow& row : facts.blocks.at(static_cast<size_t>(part)).rows)
    if (row.ranks == ranks) return row;
  throw Error("there is no such row");
}

TEST(PaperStep, WithoutPartsIsWhatThePlannerPredicts) {
  for (const int ranks : {2, 8}) {
    const auto training = train::make_training(on_paper(wide_spec(), ranks));
    const session::PlannedStep& step = training->main_step();
    const report::ScaleTime time = predict_paper_step(step.program.problem, step.plan, training->step_batch(),
                                                      Sharding::None, ranks, wide_spec().network);
    EXPECT_NEAR(time.step_ns, step.plan.predicted_ns, 1e-9 * time.step_ns + 1000);
    EXPECT_GT(time.exposed_ns, 0) << "the last gradient is there when the computation ends";
    EXPECT_LT(time.exposed_ns, time.step_ns);
  }
}

// Adam holds two numbers for each weight, and each rank keeps a sum of gradients.
TEST(PaperStep, BytesFollowWhatIsShared) {
  const auto training = train::make_training(on_paper(wide_spec(), 4));
  const session::PlannedStep& step = training->main_step();
  const SharedBytes bytes = count_shared(step.program.problem, step.plan);
  const double p = 4.0 * (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
  EXPECT_NEAR(static_cast<double>(bytes.weights), p, 4096) << "places are aligned";
  EXPECT_NEAR(static_cast<double>(bytes.gradients), p, 4096);
  EXPECT_NEAR(static_cast<double>(bytes.state), 2 * p, 4096);
  EXPECT_NEAR(static_cast<double>(bytes.largest_unit), 4.0 * 784 * 512, 4096 + 4 * 512);
  for (const int64_t n : {2, 4, 64}) {
    const auto share = 1.0 / static_cast<double>(n);
    const auto held = [&](Sharding part) { return 4 * p - static_cast<double>(bytes.saved(part, n)); };
    EXPECT_NEAR(held(Sharding::None), 4 * p, 1) << "16 P";
    EXPECT_NEAR(held(Sharding::State), 2 * p + 2 * p * share, 8192) << "8 P + 8 P / N";
    EXPECT_NEAR(held(Sharding::Gradients), p + 3 * p * share, 8192) << "4 P + 12 P / N";
    EXPECT_NEAR(held(Sharding::Weights), 4 * p * share + static_cast<double>(bytes.largest_unit), 16384)
        << "16 P / N and the largest unit";
  }
  EXPECT_EQ(bytes.saved(Sharding::Weights, 1), 0);
}

TEST(PaperStep, SendsTheVolumesOfEachSharing) {
  const auto training = train::make_training(on_paper(wide_spec(), 4));
  const session::PlannedStep& step = training->main_step();
  const auto sent = [&](Sharding part) {
    return predict_paper_step(step.program.problem, step.plan, training->step_batch(), part, 4, wide_spec().network)
        .sent_bytes;
  };
  const double p = 4.0 * (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10), part = 0.75;
  EXPECT_NEAR(sent(Sharding::None), 2 * part * p, 0.001 * p) << "summed and gathered";
  EXPECT_NEAR(sent(Sharding::State), 3 * part * p, 0.001 * p) << "the same, and weights gathered";
  EXPECT_NEAR(sent(Sharding::Gradients), 2 * part * p, 0.001 * p) << "summed into slices, weights gathered";
  EXPECT_NEAR(sent(Sharding::Weights), 3 * part * p, 0.001 * p) << "weights gathered for both passes as well";
}

TEST(Scale, HasARowForEachNumberAndSaysWhereItEnds) {
  const report::ScaleFacts facts = plan_scale(wide_spec(), 8);
  ASSERT_EQ(facts.blocks.size(), 4U);
  for (const report::ScaleBlock& block : facts.blocks) {
    ASSERT_EQ(block.rows.size(), 11U) << "1, 2, 4 ... 1024";
    EXPECT_NEAR(block.rows[0].strong->efficiency, 1, 1e-9);
    EXPECT_NEAR(block.rows[0].weak->efficiency, 1, 1e-9);
    for (const report::ScaleRow& row : block.rows) {
      EXPECT_EQ(row.strong.has_value(), row.ranks <= 64) << row.ranks;
      EXPECT_EQ(row.samples, row.ranks <= 64 ? 64 / row.ranks : 0);
      ASSERT_TRUE(row.weak);
      EXPECT_TRUE(row.ranks == 1 || row.weak->efficiency < 1) << row.ranks;
    }
  }
  EXPECT_EQ(row_of(facts, Sharding::None, 8).strong->step_ns, row_of(facts, Sharding::None, 8).weak->step_ns);
  EXPECT_GT(row_of(facts, Sharding::None, 8).rank_bytes, row_of(facts, Sharding::State, 8).rank_bytes);
  EXPECT_GT(row_of(facts, Sharding::State, 8).rank_bytes, row_of(facts, Sharding::Gradients, 8).rank_bytes);
  EXPECT_GT(facts.blocks[0].stops_at, 0) << "a net of three small layers does not scale to 64 ranks";
}

TEST(Scale, ASlowerNetworkEndsItEarlier) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec slow = wide_spec();
  slow.network = {12.5e6, 200'000};
  train::Spec fast = wide_spec();
  fast.network = {100e9, 100};
  const report::ScaleFacts at_slow = plan_scale(slow, 8), at_fast = plan_scale(fast, 8);
  for (const Sharding part : kShardings) {
    const report::ScaleRow &slower = row_of(at_slow, part, 8), &faster = row_of(at_fast, part, 8);
    EXPECT_EQ(slower.rank_bytes, faster.rank_bytes);
    EXPECT_GT(slower.strong->step_ns, faster.strong->step_ns);
    EXPECT_GT(slower.strong->exposed_ns, faster.strong->exposed_ns);
    EXPECT_LT(slower.strong->efficiency, faster.strong->efficiency);
  }
  EXPECT_LT(at_slow.blocks[0].stops_at, at_fast.blocks[0].stops_at == 0 ? 1024 : at_fast.blocks[0].stops_at);
}

TEST(Scale, SharingFitsWhereHoldingAllDoesNot) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = wide_spec();
  spec.model_options.width = 2048;  // 92 MiB with Adam
  spec.line = 80 * MiB;
  const report::ScaleFacts facts = plan_scale(spec, 4);
  EXPECT_FALSE(row_of(facts, Sharding::None, 4).fits);
  EXPECT_GT(row_of(facts, Sharding::None, 4).rank_bytes, spec.line);
  EXPECT_TRUE(row_of(facts, Sharding::Gradients, 16).fits);
  EXPECT_LE(row_of(facts, Sharding::Gradients, 16).rank_bytes, spec.line);
  EXPECT_THAT(report::scale_text(facts), HasSubstr("too large"));
}

TEST(Scale, OfABatchThatDoesNotDivideIsThatOfTheFullestRank) {
  train::Spec spec = wide_spec();
  spec.batch = 50;
  const report::ScaleFacts facts = plan_scale(spec, 10);
  EXPECT_EQ(row_of(facts, Sharding::None, 10).samples, 5);
  EXPECT_EQ(row_of(facts, Sharding::None, 16).samples, 4);
  EXPECT_EQ(row_of(facts, Sharding::None, 64).samples, 0);
}

TEST(Scale, RefusesMoreRanksThanSamples) {
  try {
    on_paper(wide_spec(), 65);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a batch of 64 has no sample for each of 65 ranks; give a batch of 65 or more");
    EXPECT_EQ(e.kind(), ErrorKind::Usage);
  }
}

TEST(Scale, IsToldInWordsAndAsJson) {
  const report::ScaleFacts facts = plan_scale(wide_spec(), 8);
  const std::string text = report::scale_text(facts);
  EXPECT_THAT(text, HasSubstr("on paper: 10 Gb/s, 20 us a message each way"));
  EXPECT_THAT(text, HasSubstr("strong: the batch of 64 is shared by the ranks"));
  EXPECT_THAT(text, HasSubstr("weak: 8 samples for each rank, as with 8 ranks"));
  EXPECT_THAT(text, HasSubstr("stops scaling at "));
  EXPECT_THAT(text, HasSubstr("no sample"));
  const nlohmann::json json = report::scale_json(facts);
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["network"]["message_ns"], 20'000);
  EXPECT_EQ(json["shardings"][3]["shard"], "weights");
  EXPECT_EQ(json["shardings"][0]["rows"][3]["strong"]["step_ns"], row_of(facts, Sharding::None, 8).strong->step_ns);
  EXPECT_FALSE(json["shardings"][0]["rows"][10].contains("strong"));
}

}  // namespace
}  // namespace plimsoll::forecast

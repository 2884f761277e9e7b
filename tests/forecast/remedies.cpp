// Remedies, the batch search and forecasts: what is named was planned, and works.
#include "forecast/remedies.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "forecast/batch_search.h"
#include "forecast/forecast.h"
#include "support/disk_folder.h"
#include "support/sanitizer.h"

namespace plimsoll::forecast {
namespace {

using ::testing::HasSubstr;

// Adam's state of 8 MiB, which other optimisers and a disk can do without.
train::Spec wide_spec() {
  train::Spec spec;
  spec.model = "mlp";
  spec.model_options.width = 1024;
  spec.line = GiB;
  return spec;
}

train::Spec lenet_spec() {
  train::Spec spec;
  spec.model = "lenet";
  spec.line = GiB;
  return spec;
}

Bytes smallest_line(train::Spec spec) {
  spec.line = 1;
  const Attempt tried = attempt(spec);
  return verify_smallest_line(spec, tried.refusal.value()).smallest_line;
}

const PlannedRemedy* find(const std::vector<PlannedRemedy>& remedies,
                          const std::function<bool(const PlannedRemedy&)>& is_it) {
  const auto at = std::find_if(remedies.begin(), remedies.end(), is_it);
  return at == remedies.end() ? nullptr : &*at;
}

// Between what frozen weights take in a type and in the next smaller one: that one is offered, and fits.
TEST(Remedies, KeepFrozenWeightsInFewerBits) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = wide_spec();
  spec.model = "dense-chain";
  spec.model_options.layers = 30;
  spec.model_options.width = 512;
  spec.freeze.all_but = {"*/dense_29/*"};
  const auto line_of = [&](DType type) {
    train::Spec at = spec;
    at.freeze.type = type;
    return smallest_line(at);
  };
  const Bytes wide = line_of(DType::F32), half = line_of(DType::BF16), bytes = line_of(DType::I8);
  ASSERT_LT(half, wide);
  ASSERT_LT(bytes, half);
  for (const auto& [line, type] : {std::pair{half, DType::BF16}, std::pair{bytes, DType::I8}}) {
    train::Spec low = spec;
    low.line = line;
    const auto remedies = find_remedies(low, attempt(low).refusal.value());
    const PlannedRemedy* found =
        find(remedies, [](const PlannedRemedy& remedy) { return remedy.spec.freeze.type != DType::F32; });
    ASSERT_NE(found, nullptr) << name_of(type);
    EXPECT_EQ(found->spec.freeze.type, type);
    EXPECT_TRUE(found->is_lossy);
    EXPECT_TRUE(found->changes_results);
    EXPECT_THAT(found->what, HasSubstr(fmt::format("frozen weights in {}", name_of(type))));
    EXPECT_TRUE(attempt(found->spec).training != nullptr);
  }
  // Without frozen weights this remedy is not offered.
  train::Spec all = wide_spec();
  all.line = smallest_line(all) - 4 * MiB;
  for (const PlannedRemedy& remedy : find_remedies(all, attempt(all).refusal.value()))
    EXPECT_EQ(remedy.spec.freeze.type, DType::F32);
}

TEST(Remedies, ChangeTheSpecAndFit) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = wide_spec();
  spec.line = smallest_line(spec) - 4 * MiB;
  const Refusal refusal = attempt(spec).refusal.value();
  const auto remedies = find_remedies(spec, refusal);
  ASSERT_FALSE(remedies.empty());
  for (const PlannedRemedy& remedy : remedies) {
    EXPECT_NE(train::describe_difference(spec, remedy.spec), "");
    EXPECT_GE(remedy.slowdown, 1);
    const Attempt tried = attempt(remedy.spec);
    EXPECT_TRUE(tried.training != nullptr) << train::describe_difference(spec, remedy.spec);
    if (tried.training) {
      EXPECT_LE(tried.training->session->peak_bytes(), train::resolve_line(remedy.spec).bytes);
    }
  }
  EXPECT_TRUE(find(remedies, [&](const auto& r) { return r.spec.line > spec.line; }));
  const PlannedRemedy* plain = find(remedies, [](const auto& r) { return r.spec.optimiser.name() == "sgd"; });
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->changes_results);
  const PlannedRemedy* disk = find(remedies, [](const auto& r) { return !r.spec.scratch_folder.empty(); });
  if (disk != nullptr) {
    EXPECT_GT(disk->scratch_file_bytes, 0);
    EXPECT_FALSE(disk->changes_results);
  }
}

TEST(Remedies, AreRanked) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = wide_spec();
  spec.line = smallest_line(spec) - 4 * MiB;
  const auto remedies = find_remedies(spec, attempt(spec).refusal.value());
  for (size_t i = 1; i < remedies.size(); ++i) {
    EXPECT_LE(remedies[i - 1].is_lossy, remedies[i].is_lossy);
    if (remedies[i - 1].is_lossy == remedies[i].is_lossy) {
      EXPECT_LE(remedies[i - 1].changes_results, remedies[i].changes_results);
    }
  }
}

TEST(Remedies, TakeBackLeversThatWereForbidden) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = lenet_spec();
  spec.line = smallest_line(spec) + MiB;
  spec.levers.micro_batch = spec.levers.recompute = spec.levers.in_place = spec.levers.order = false;
  const Attempt refused = attempt(spec);
  ASSERT_TRUE(refused.refusal.has_value());
  const auto remedies = find_remedies(spec, *refused.refusal);
  const PlannedRemedy* all = find(remedies, [](const auto& r) { return r.spec.levers == Levers{}; });
  ASSERT_TRUE(all);
  EXPECT_EQ(all->spec.line, spec.line);
}

TEST(Remedies, StartNothingWhenTheTimeIsOver) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = lenet_spec();
  spec.line = MiB;
  const Refusal refusal = attempt(spec).refusal.value();
  EXPECT_TRUE(find_remedies(spec, refusal, [](double) { return false; }).empty());
  std::vector<std::string> not_tried;
  EXPECT_TRUE(find_remedies(spec, refusal, within_seconds(0), never_stops, &not_tried).empty());
  EXPECT_THAT(not_tried, ::testing::IsSupersetOf({"a larger line", "a smaller batch", "16 bits"}));
  not_tried.clear();
  find_remedies(spec, refusal, always_goes_on, never_stops, &not_tried);
  EXPECT_TRUE(not_tried.empty());
  int asked = 0;
  const auto some = find_remedies(spec, refusal, [&](double) { return ++asked <= 1; });
  EXPECT_LE(some.size(), 1U);
  EXPECT_THROW(find_remedies(spec, refusal, always_goes_on, [n = 0]() mutable { return ++n > 3; }), Interrupted)
      << "asked to stop while it plans";
}

TEST(SmallestLine, IsAcceptedAndNearlyTight) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const train::Spec spec = lenet_spec();
  train::Spec at = spec;
  at.line = smallest_line(spec);
  EXPECT_TRUE(attempt(at).training != nullptr);
  at.line -= 2 * MiB;
  EXPECT_TRUE(attempt(at).refusal.has_value());
}

TEST(LargestBatch, IsExactUpTo64Samples) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec;
  spec.model = "fashion";
  spec.levers.micro_batch = false;
  spec.batch = 24;
  spec.line = smallest_line(spec) + MiB / 2;
  spec.batch = 0;
  const LargestBatch found = find_largest_batch(spec, 64, [] { return true; });
  ASSERT_GE(found.batch, 16);
  ASSERT_LE(found.batch, 64);
  spec.batch = found.batch;
  EXPECT_TRUE(attempt(spec).training != nullptr);
  if (found.refused_batch > 0) {
    EXPECT_EQ(found.refused_batch, found.batch + 1);
    EXPECT_GT(found.deficit, 0);
    spec.batch = found.refused_batch;
    EXPECT_TRUE(attempt(spec).refusal.has_value());
  }
}

TEST(LargestBatch, IsTheMostThatWasAllowed) {
  train::Spec spec = lenet_spec();
  spec.finds_batch = true;
  spec.batch = 40;
  const auto training = make_sized_training(spec);
  EXPECT_EQ(training->spec.batch, 40);
  EXPECT_THAT(training->batch_reason, HasSubstr("batch 40 is the most that was asked for"));
  EXPECT_EQ(find_largest_batch(lenet_spec(), 0, [] { return true; }).batch, 0);
}

TEST(LargestBatch, IsAMultipleOfMicroBatchesAndShards) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  for (const bool is_pipeline : {true, false}) {
    train::Spec spec = lenet_spec();
    if (is_pipeline)
      spec.stages.micro_batches = 4;
    else
      spec.shards = 8;
    const int64_t unit = is_pipeline ? 4 : 8;
    spec.batch = 64;
    spec.line = smallest_line(spec) + MiB / 4;
    const LargestBatch found = find_largest_batch(spec, 203, [] { return true; });
    EXPECT_GE(found.batch, 64);
    EXPECT_EQ(found.batch % unit, 0) << found.batch;
    EXPECT_EQ(found.refused_batch % unit, 0) << found.refused_batch;
    EXPECT_EQ(find_largest_batch(spec, unit - 1, [] { return true; }).batch, 0);
    spec.finds_batch = true;
    EXPECT_EQ(make_sized_training(spec)->spec.batch % unit, 0);
    spec.line = MiB;
    spec.finds_batch = false;
    EXPECT_NO_THROW(find_remedies(spec, attempt(spec).refusal.value()));
  }
}

TEST(LargestBatch, RefusesWithTheNearest) {
  train::Spec spec = lenet_spec();
  spec.finds_batch = true;
  spec.line = MiB;
  EXPECT_THROW(make_sized_training(spec), DoesNotFit);
}

TEST(Forecast, OfASpecThatFits) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const train::Spec spec = lenet_spec();
  const Forecast forecast = forecast::forecast(spec);
  EXPECT_TRUE(forecast.fits());
  EXPECT_EQ(forecast.line(), spec.line);
  EXPECT_GT(forecast.smallest_line(), 0);
  EXPECT_LE(forecast.smallest_line(), round_line(forecast.peak()) + MiB);
  EXPECT_TRUE(forecast.is_bit_identical());
  EXPECT_EQ(forecast.micro_batches(), 1);
  EXPECT_NEAR(forecast.slowdown(), 0, 1e-9);
  EXPECT_TRUE(forecast.remedies().empty());
  EXPECT_THAT(forecast.text(), HasSubstr("plan    lenet · batch 128"));
  EXPECT_EQ(nlohmann::json::parse(forecast.json())["fits"], true);
  train::Spec tight = spec;
  tight.line = forecast.smallest_line();
  const Forecast at_its_line = forecast::forecast(tight, {.finds_smallest_line = false});
  EXPECT_TRUE(at_its_line.fits());
  EXPECT_LE(at_its_line.peak(), tight.line);
}

TEST(Forecast, OfASpecThatDoesNotFitIsAnAnswer) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = lenet_spec();
  spec.line = 2 * MiB;
  const Forecast forecast = forecast::forecast(spec);
  EXPECT_FALSE(forecast.fits());
  EXPECT_GT(forecast.peak(), spec.line);
  ASSERT_FALSE(forecast.remedies().empty());
  EXPECT_EQ(forecast.remedies().front().text(),
            "line " + line_text(forecast.smallest_line()) + ": the smallest line that works as asked" +
                forecast.remedies().front().text().substr(forecast.remedies().front().text().find("asked") + 5));
  EXPECT_FALSE(forecast.remedies().front().changes_results());
  EXPECT_THAT(forecast.text(), HasSubstr("does not fit"));
  EXPECT_TRUE(forecast::forecast(spec, {.finds_remedies = false}).remedies().empty());
  spec.line = forecast.smallest_line();
  EXPECT_TRUE(forecast::forecast(spec, {.finds_smallest_line = false}).fits());
}

TEST(Forecast, AMistakeIsAnError) {
  train::Spec spec = lenet_spec();
  spec.model = "lenot";
  EXPECT_THROW(forecast::forecast(spec), Error);
}

}  // namespace
}  // namespace plimsoll::forecast

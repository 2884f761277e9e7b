// fit: with validation, callbacks, events and checkpoints, the memory of the process does not grow.
#include <malloc.h>

#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "input/files.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

TEST(Growth, ThereIsNoneIn100000StepsOfFit) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const testing::TemporaryDirectory files;
  std::vector<float> x(400 * 8);
  std::vector<int32_t> y(400);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 101;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 3);
  const Dataset samples = Dataset::slices({{"x", x, {400, 8}}, {"y", y}});
  Model net = sequential({layers::dense(8, {.activation = "relu"}), layers::dropout(0.1), layers::dense(3)});
  net.compile({.optimiser = Optimiser::adam(1e-4),
               .loss = "sparse_cross_entropy",
               .metrics = {"accuracy", "top_2"},
               .accumulate = 2});
  MemoryLine line(64 * MiB);

  // 100 steps of 4 samples and a validation in each epoch; the line's own count must not move at all.
  constexpr int64_t kEpochs = 1000, kWarmEpochs = 100;
  std::vector<Bytes> resident, held;
  int64_t steps = 0;
  const auto watch = custom_callback({.after_step = [&](FitRun&) { ++steps; },
                                      .after_epoch =
                                          [&](FitRun& run) {
                                            if (run.epoch() % kWarmEpochs != 0) return;
                                            ::malloc_trim(0);
                                            resident.push_back(resident_bytes());
                                            held.push_back(line.used());
                                          }});
  const History history =
      net.fit(samples.shuffle().batch(4).prefetch(2), line,
              {.epochs = kEpochs,
               .validation = samples.take(40).batch(4),
               .callbacks = {watch, checkpoint(files.path() + "/checkpoints", {.every_epochs = 10}),
                             csv_log(files.path() + "/metrics.csv"), json_log(files.path() + "/metrics.jsonl"),
                             event_files(files.path() + "/events", {.seconds_between = 0.01, .histogram_epochs = 1}),
                             early_stopping({.monitor = "loss", .patience = kEpochs, .restore_best_weights = true}),
                             reduce_on_plateau({.patience = kEpochs})}});
  EXPECT_EQ(steps, 100'000);
  EXPECT_EQ(history.epochs.size(), static_cast<size_t>(kEpochs));
  ASSERT_EQ(resident.size(), 10U);
  for (const Bytes bytes : held) EXPECT_EQ(bytes, held.front());
  // The history itself is 900 epochs longer by then: some hundred bytes each.
  EXPECT_LT(resident.back() - resident.front(), MiB)
      << fmt::format("{} -> {}", format_bytes(resident.front()), format_bytes(resident.back()));
  fmt::print("resident after 10,000 steps {}, after 100,000 {}\n", format_bytes(resident.front()),
             format_bytes(resident.back()));
}

}  // namespace
}  // namespace plimsoll

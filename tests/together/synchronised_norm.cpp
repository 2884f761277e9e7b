// Batch norm with the statistics of all replicas: the whole batch is normalised as one process does it.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

// Samples that differ much from one another, so that the statistics of a part of a batch are not those of the whole.
struct Waves {
  explicit Waves(int64_t count) : samples(count) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < 2 * 4 * 4; ++j)
        x.push_back(static_cast<float>(i % 7) * 0.5F + std::sin(static_cast<float>(i * i + 3 * j)));
      y.push_back(static_cast<int32_t>(i % 3));
    }
  }
  Dataset dataset() const { return Dataset::slices({{"x", x, {samples, 2, 4, 4}}, {"y", y}}); }
  int64_t samples;
  std::vector<float> x;
  std::vector<int32_t> y;
};

Model net_of(const layers::BatchNorm& norm) {
  Model net =
      sequential({layers::conv2d(8, 3, {.padding = "same"}), layers::batch_norm(norm), layers::activation("relu"),
                  layers::conv2d(4, 3), layers::batch_norm(norm), layers::flatten(), layers::dense(3)});
  net.compile({.optimiser = Optimiser::sgd(0.05, 0.9), .loss = "sparse_cross_entropy"});
  return net;
}

struct Numbers {
  std::vector<double> losses, validation;
};

Numbers train(const Strategy& strategy, bool is_synchronised, int64_t samples = 51, int64_t batch = 16) {
  const Waves waves(samples);
  MemoryLine line(64 * MiB);
  Model net = net_of({.momentum = 0.8, .synchronised = is_synchronised});
  const FitOptions options{.epochs = 3, .validation = waves.dataset().batch(batch), .strategy = strategy};
  const History history = net.fit(waves.dataset().shuffle({.seed = 3}).batch(batch), line, options);
  EXPECT_LE(line.peak(), line.limit());
  return {history["loss"], history["val_loss"]};
}

double distance(const Numbers& a, const Numbers& b) {
  double most = 0;
  EXPECT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    most = std::max(most, std::abs(a.losses[i] / b.losses[i] - 1));
    most = std::max(most, std::abs(a.validation[i] / b.validation[i] - 1));
  }
  return most;
}

// 51 samples in batches of 16: the last batch of 3 leaves replicas with 1 sample and, of four, one without any.
TEST(SynchronisedNorm, NormalisesTheWholeBatch) {
  const Numbers alone = train({}, false);
  EXPECT_EQ(distance(train({}, true), alone), 0) << "alone, a process has the whole batch";
  for (const int replicas : {2, 3, 4}) {
    EXPECT_LT(distance(train(Strategy::mirrored(replicas), true), alone), 1e-4) << replicas;
    EXPECT_GT(distance(train(Strategy::mirrored(replicas), false), alone), 1e-3)
        << replicas << ": the comparison sees statistics of parts";
  }
}

TEST(SynchronisedNorm, HasAReplicaForEachShard) {
  EXPECT_LT(distance(train(Strategy::mirrored(4, {.shards = 4}), true), train({}, true)), 1e-4);
  const auto refused = [](const Strategy& strategy) { return error_of([&] { train(strategy, true); }); };
  EXPECT_THAT(refused(Strategy::mirrored(2, {.shards = 4})),
              HasSubstr("needs a rank for each shard, and 2 shards are computed one after another on each of 2 ranks"));
  EXPECT_THAT(refused(Strategy::mirrored(1, {.shards = 4})), HasSubstr("on each of 1 rank; give as many ranks"));
  EXPECT_THAT(refused(Strategy::pipeline({}, 4)), HasSubstr("has the statistics of a micro-batch"));
}

}  // namespace
}  // namespace plimsoll

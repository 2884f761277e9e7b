#include <filesystem>

#include <gtest/gtest.h>

#include "data/batches.h"
#include "data/prefetch.h"
#include "memory/process.h"
#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll::data {
namespace {

using namespace memory;

const std::string kFolder = "/usr/share/datasets/fashion-mnist/";

// Reads an epoch as training would and returns the sum of all pixels and labels.
double read_epoch(MemoryLine& line, const Source& images, const Source& labels) {
  Batches batches({&images, &labels},
                  {.batch = 64,
                   .shuffle = true,
                   .seed = 1,
                   .conversions = {Conversion{DType::F32, 1.0f / 255}, Conversion{DType::I32}}},
                  line);
  Prefetch prefetch(batches, 2, line);
  double sum = 0;
  while (const BatchSlot* slot = prefetch.next()) {
    const auto* const x = static_cast<const float*>(slot->rows[0]);
    const auto* const y = static_cast<const int32_t*>(slot->rows[1]);
    for (int64_t i = 0; i < slot->samples * 784; ++i) sum += x[i];
    for (int64_t i = 0; i < slot->samples; ++i) sum += y[i];
  }
  return sum;
}

class FashionMnist : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
};

TEST_F(FashionMnist, IsWhatItIsKnownToBe) {
  const auto images = open_source(kFolder + "train-images-idx3-ubyte.gz");
  const auto labels = open_source(kFolder + "train-labels-idx1-ubyte.gz");
  EXPECT_EQ(images->samples(), 60000);
  EXPECT_EQ(images->sample_shape(), (std::vector<int64_t>{28, 28}));
  EXPECT_EQ(images->dtype(), DType::U8);
  EXPECT_EQ(labels->samples(), 60000);
  uint8_t first = 0;
  labels->read(0, 1, &first);
  EXPECT_EQ(first, 9);
}

TEST_F(FashionMnist, AnEpochNeedsLessThanTwoMebibytes) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  MemoryLine line(2 * MiB);
  trim_allocator();
  const Bytes before = resident_bytes();
  const bool measured = reset_peak_resident();
  const auto images = open_source(kFolder + "train-images-idx3-ubyte.gz");
  const auto labels = open_source(kFolder + "train-labels-idx1-ubyte.gz");
  const double sum = read_epoch(line, *images, *labels);
  // The mean pixel of this set is known as 0.2860; labels 0 to 9 are equally frequent.
  EXPECT_NEAR((sum - 60000 * 4.5) / 60000 / 784, 0.2860, 0.0001);
  EXPECT_LT(resident_bytes() - before, 2 * MiB);
  if (measured) {
    EXPECT_LT(peak_resident_bytes() - before, 2 * MiB);
  }
}

// The unpacked file is 45 MiB; its pages in the cache of the group must give way.
TEST_F(FashionMnist, AnEpochFinishesUnderATightLimit) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const auto outcome = testing::run_limited(
      [] {
        MemoryLine line(2 * MiB);
        const auto images = open_source(kFolder + "train-images-idx3-ubyte.gz");
        const auto labels = open_source(kFolder + "train-labels-idx1-ubyte.gz");
        return read_epoch(line, *images, *labels) > 0 ? 0 : 1;
      },
      12 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 0);
  EXPECT_FALSE(outcome.run->oom_killed);
}

}  // namespace
}  // namespace plimsoll::data

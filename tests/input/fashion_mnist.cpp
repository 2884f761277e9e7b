#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include "memory/process.h"
#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

const std::string kFolder = "/usr/share/datasets/fashion-mnist/";

Dataset fashion_mnist() {
  return Dataset::files(kFolder + "train-images-idx3-ubyte.gz", kFolder + "train-labels-idx1-ubyte.gz");
}

// Reads an epoch as training would and returns the sum of all pixels and labels.
double read_epoch(MemoryLine& line) {
  const Dataset batches =
      fashion_mnist()
          .map({{"x", DType::F32, {28, 28}, {}}, {"y", DType::U8, {}, {}}},
               [](const ElementView& from, const ElementSlot& to) {
                 std::ranges::transform(from.as<uint8_t>(0), to.as<float>(0).begin(),
                                        [](uint8_t pixel) { return static_cast<float>(pixel) / 255; });
                 to.as<uint8_t>(1)[0] = from.as<uint8_t>(1)[0];
               })
          .shuffle()
          .batch(64)
          .prefetch(1);
  double sum = 0;
  for (const ElementView& batch : batches.on(line)) {
    for (const float pixel : batch.as<float>("x")) sum += pixel;
    for (const uint8_t label : batch.as<uint8_t>("y")) sum += label;
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
  const Dataset dataset = fashion_mnist();
  EXPECT_EQ(dataset.size(), 60000);
  EXPECT_EQ(to_string(dataset.element()), "x u8[28,28], y u8[]");
  MemoryLine line;
  EXPECT_EQ(dataset.on(line).next()->as<uint8_t>("y")[0], 9);
}

TEST_F(FashionMnist, AnEpochNeedsLessThanTwoMebibytes) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  MemoryLine line(2 * MiB);
  fashion_mnist().on(line).next();  // makes the code resident, which is no memory of an epoch
  memory::trim_allocator();
  const Bytes before = resident_bytes();
  const bool measured = memory::reset_peak_resident();
  const double sum = read_epoch(line);
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
  const auto outcome = run_limited(
      [] {
        MemoryLine line(2 * MiB);
        return read_epoch(line) > 0 ? 0 : 1;
      },
      12 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 0);
  EXPECT_FALSE(outcome.run->oom_killed);
}

}  // namespace
}  // namespace plimsoll::testing

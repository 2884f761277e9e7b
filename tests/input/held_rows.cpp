// Arrays of files that are held in memory once rows are read out of order: same elements, bytes under the line.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/collect.h"
#include "input/files.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 5000, kColumns = 24;
constexpr Bytes kArrayBytes = kRows * (kColumns + 1) * 8;

class HeldRowsTest : public ::testing::Test {
 protected:
  HeldRowsTest() {
    std::vector<int64_t> x, y;
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t column = 0; column < kColumns; ++column) x.push_back(i * kColumns + column);
      y.push_back(-i);
    }
    x_ = dir_.write("x.npy", npy("'<i8'", "(5000, 24)", raw(x)));
    y_ = dir_.write("y.npy", npy("'<i8'", "(5000,)", raw(y)));
  }

  Dataset rows() const { return Dataset::files(x_, y_); }
  Dataset shuffled() const { return rows().shuffle({.seed = 3}).batch(32).prefetch(2); }

  // All components of all epochs.
  static std::vector<int64_t> epochs(Iteration& iteration, uint64_t count) {
    std::vector<int64_t> all;
    for (uint64_t epoch = 0; epoch < count; ++epoch) {
      iteration.start_epoch(epoch);
      for (const ElementView& batch : iteration)
        for (size_t i = 0; i < batch.size(); ++i) std::ranges::copy(numbers(batch, i), std::back_inserter(all));
    }
    return all;
  }

  const TemporaryDirectory dir_;
  std::string x_, y_;
};

TEST_F(HeldRowsTest, AreTheSameElementsInTheSameOrder) {
  MemoryLine line, tight(shuffled().bytes());
  Iteration held = shuffled().on(line, line.free()), read = shuffled().on(tight);
  EXPECT_EQ(epochs(held, 3), epochs(read, 3));
  EXPECT_GT(held.bytes(), kArrayBytes);
  EXPECT_EQ(read.bytes(), shuffled().bytes());
}

TEST_F(HeldRowsTest, CountAsBytesOfTheSource) {
  MemoryLine line;
  Iteration iteration = shuffled().on(line, line.free());
  const Bytes before = iteration.stages().front().bytes;
  epochs(iteration, 1);
  EXPECT_GE(iteration.stages().front().bytes - before, kArrayBytes);
  EXPECT_LE(iteration.stages().front().bytes - before, kArrayBytes + 64 * KiB);
  EXPECT_GE(line.used(Tag::Data), iteration.bytes());
}

TEST_F(HeldRowsTest, AreNotHeldWithoutRoomOrWhenReadInOrder) {
  MemoryLine line, small;
  Iteration in_order = rows().batch(32).prefetch(2).on(line, line.free());
  epochs(in_order, 1);
  EXPECT_LT(in_order.bytes(), kArrayBytes);
  Iteration without_room = shuffled().on(small, kArrayBytes / 2);
  epochs(without_room, 2);
  EXPECT_EQ(without_room.bytes(), shuffled().bytes());
}

TEST_F(HeldRowsTest, AnEighthOfTheLineIsTheMostUnlessMoreIsGiven) {
  MemoryLine line(4 * kArrayBytes);
  Iteration eighth = shuffled().on(line);
  epochs(eighth, 1);
  EXPECT_LE(line.used(), std::max(shuffled().bytes(), line.limit() / 8));
}

TEST_F(HeldRowsTest, AnIterationResumesInTheirMiddle) {
  MemoryLine line, other;
  Iteration whole = shuffled().on(line, line.free());
  whole.start_epoch(1);
  for (int i = 0; i < 100; ++i) whole.next();
  const DatasetState state = whole.state();
  Iteration resumed = shuffled().on(other, other.free());
  resumed.seek(state);
  EXPECT_EQ(collect(resumed), collect(whole));
}

// The file got shorter: the rows that are left are read, and the error names the place.
TEST_F(HeldRowsTest, AFileThatBecameShorterIsAnErrorOfItsRow) {
  const Dataset dataset = rows().shuffle({.seed = 3}).batch(1).prefetch(2);
  std::filesystem::resize_file(x_, std::filesystem::file_size(x_) - 8);
  MemoryLine line;
  Iteration iteration = dataset.on(line, line.free());
  int64_t read = 0;
  std::string message;
  while (true) {
    try {
      if (iteration.next() == nullptr) break;
      ++read;
    } catch (const Error& error) {
      message += error.what();
      EXPECT_EQ(error.kind(), ErrorKind::BadData);
    }
  }
  EXPECT_EQ(read, kRows - 1);
  EXPECT_THAT(message, HasSubstr(x_ + ": at byte"));
}

}  // namespace
}  // namespace plimsoll::testing

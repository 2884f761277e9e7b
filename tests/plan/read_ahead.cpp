#include "plan/search/read_ahead.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/problems.h"
#include "plan/search/stays.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;

// Tasks in a row, each 1000 ns; the one of that number reads a stored variable, which takes 1000 ns for each block.
struct Chain {
  static constexpr Bytes kBlock = 1000;  // at 1e9 bytes a second: 1000 ns
  Staged staged;
  std::vector<TaskId> actions;

  Chain(int tasks, int reader, Bytes weight_bytes, double read_bytes_per_s = 1e9) {
    Builder b;
    const BufferId w = b.variable("w", weight_bytes);
    BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
    for (int i = 0; i < tasks; ++i) {
      const BufferId y = b.temporary("y" + std::to_string(i), 64);
      b.task("t" + std::to_string(i), i == reader ? std::vector{x, w} : std::vector{x}, {y});
      x = y;
    }
    Stored stored;
    stored.variables.assign(b.problem.buffers.size(), false);
    stored.variables[static_cast<size_t>(w)] = true;
    std::vector<TaskId> order(b.problem.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    const Limits limits{.disk_bytes = GiB, .disk_read_bytes_per_s = read_bytes_per_s, .disk_write_bytes_per_s = 1e9};
    staged = stage(b.problem, limits, find_split(b.problem), order, stored);
    actions.resize(staged.problem.tasks.size());
    std::iota(actions.begin(), actions.end(), 0);
  }

  int place_of_load(const std::vector<TaskId>& in) const {
    for (size_t s = 0; s < in.size(); ++s)
      if (is_load(staged.problem.tasks[static_cast<size_t>(in[s])]) &&
          staged.problem.tasks[static_cast<size_t>(in[s])].lane == Lane::Disk)
        return static_cast<int>(s);
    return -1;
  }
  Bytes peak(const std::vector<TaskId>& of) const {
    return find_stays(staged.problem, staged.sizes, of, true).peak_bytes;
  }
  std::vector<TaskId> ahead(Bytes peak_bytes, Ahead how = Ahead::EachAlone) const {
    return read_ahead(staged, actions, true, peak_bytes, how);
  }
};

constexpr Bytes kMuch = GiB;

TEST(ReadAhead, ALoadIsWaitedForWhenItStartsLate) {
  const Chain chain(6, 4, 2 * Chain::kBlock);
  EXPECT_EQ(chain.place_of_load(chain.actions), 4);
  const double load_ns = chain.staged.transfer_ns(4);
  EXPECT_GT(load_ns, 1000);
  EXPECT_DOUBLE_EQ(predict_ns(chain.staged, chain.actions, Disk::AtHand), 6000 + load_ns);
}

TEST(ReadAhead, StartsJustEarlyEnoughToBeHidden) {
  const Chain chain(8, 6, 2 * Chain::kBlock);
  const std::vector<TaskId> ahead = chain.ahead(kMuch);
  EXPECT_DOUBLE_EQ(predict_ns(chain.staged, ahead, Disk::AtHand), 8000);
  const double load_ns = chain.staged.transfer_ns(chain.actions[6]);
  EXPECT_EQ(chain.place_of_load(ahead), 6 - static_cast<int>(std::ceil(load_ns / 1000)));
}

TEST(ReadAhead, LeavesTheOrderOfEverythingElse) {
  const Chain chain(8, 6, 2 * Chain::kBlock);
  std::vector<TaskId> ahead = chain.ahead(kMuch);
  EXPECT_NE(ahead, chain.actions);
  const TaskId load = ahead[static_cast<size_t>(chain.place_of_load(ahead))];
  std::erase(ahead, load);
  std::vector<TaskId> others = chain.actions;
  std::erase(others, load);
  EXPECT_EQ(ahead, others);
}

TEST(ReadAhead, NeverRaisesThePeakAboveWhatIsAllowed) {
  const Chain chain(8, 6, 64 * KiB);
  const Bytes least = chain.peak(chain.actions);
  for (const Ahead how : {Ahead::EachAlone, Ahead::InOneRow})
    for (const Bytes allowed : {least, least + 32, least + 64, least + 4096, kMuch})
      EXPECT_LE(chain.peak(chain.ahead(allowed, how)), std::max(allowed, least));
}

TEST(ReadAhead, StaysWhereItIsWithoutRoomOrTime) {
  const Chain first(4, 0, Chain::kBlock);  // nothing comes before it
  EXPECT_EQ(first.ahead(kMuch), first.actions);
  const Chain full(8, 6, 64 * KiB);
  EXPECT_EQ(full.ahead(0), full.actions);
}

// Every task reads a weight of its own that takes twice as long to load as the task does.
struct Stream {
  Staged staged;
  std::vector<TaskId> actions;

  explicit Stream(int tasks) {
    Builder b;
    BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
    Stored stored;
    for (int i = 0; i < tasks; ++i) {
      const BufferId w = b.variable("w" + std::to_string(i), 2048), y = b.temporary("y" + std::to_string(i), 64);
      b.task("t" + std::to_string(i), {x, w}, {y}).fixed_ns = 1024;
      x = y;
    }
    for (const Buffer& buffer : b.problem.buffers) stored.variables.push_back(buffer.kind == BufferKind::Variable);
    std::vector<TaskId> order(b.problem.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    const Limits limits{.disk_bytes = GiB, .disk_read_bytes_per_s = 1e9, .disk_write_bytes_per_s = 1e9};
    staged = stage(b.problem, limits, find_split(b.problem), order, stored);
    actions.resize(staged.problem.tasks.size());
    std::iota(actions.begin(), actions.end(), 0);
  }
  double ns(Bytes room, Ahead how) const {
    return predict_ns(staged, read_ahead(staged, actions, true, room, how), Disk::Ordinary);
  }
};

TEST(ReadAhead, InOneRowTheDiskNeverRests) {
  const Stream stream(20);
  EXPECT_DOUBLE_EQ(predict_ns(stream.staged, stream.actions, Disk::Ordinary), 20 * (2048 + 1024));
  EXPECT_DOUBLE_EQ(stream.ns(5 * 2048, Ahead::InOneRow), 20 * 2048 + 1024);
}

TEST(ReadAhead, InOneRowItRestsWhereThereIsNoRoom) {
  const Stream stream(20);
  EXPECT_DOUBLE_EQ(stream.ns(2048 + 256, Ahead::InOneRow), 20 * (2048 + 1024));
}

TEST(ReadAhead, InOneRowLoadsKeepTheirOrder) {
  const Stream stream(20);
  const std::vector<TaskId> ahead = read_ahead(stream.staged, stream.actions, true, 6 * 2048, Ahead::InOneRow);
  EXPECT_NE(ahead, stream.actions);
  std::vector<TaskId> loads;
  for (const TaskId task : ahead)
    if (stream.staged.problem.tasks[static_cast<size_t>(task)].lane == Lane::Disk &&
        is_load(stream.staged.problem.tasks[static_cast<size_t>(task)]))
      loads.push_back(task);
  EXPECT_TRUE(std::is_sorted(loads.begin(), loads.end()));
}

TEST(ReadAhead, TheTimeIsThatOfTheDiskAtHand) {
  const Chain fast(6, 4, 64 * KiB, 4e9);
  const Chain slow(6, 4, 64 * KiB, 0.5e9);
  EXPECT_LT(predict_ns(fast.staged, fast.actions, Disk::AtHand), predict_ns(slow.staged, slow.actions, Disk::AtHand));
  EXPECT_NEAR(predict_ns(slow.staged, slow.actions, Disk::AtHand) - 6000,
              8 * (predict_ns(fast.staged, fast.actions, Disk::AtHand) - 6000), 1e-6);
}

}  // namespace
}  // namespace plimsoll::plan

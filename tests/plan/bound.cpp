#include "plan/bound.h"

#include <functional>
#include <limits>
#include <queue>

#include <gtest/gtest.h>

#include "plan/make_plan.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using testing::Dice;

Bound bound_of(const Problem& problem, bool in_place = true, Return how = Return::ByRunning) {
  return find_lower_bound(problem, measure(problem, 1, 1), in_place, how);
}

// The least peak over all orders and all ways to recompute tasks, to drop values and to share places.
class Optimum {
 public:
  Optimum(const Problem& problem, bool in_place) : problem_(problem), in_place_(in_place) {
    for (const Buffer& buffer : problem.buffers) {
      const uint32_t bit = 1u << size_.size();
      size_.push_back(placed_bytes(buffer, 1));
      if (buffer.kind == BufferKind::Input) inputs_ |= bit;
      if (buffer.kind == BufferKind::Output) outputs_ |= bit;
    }
    all_done_ = (1u << problem.tasks.size()) - 1;
    best_.assign(size_t{1} << (problem.tasks.size() + size_.size()), std::numeric_limits<Bytes>::max());
  }

  Bytes find() {
    reach(bytes_of(inputs_), 0, inputs_);
    while (!queue_.empty()) {
      const auto [peak, state] = queue_.top();
      queue_.pop();
      const auto alive = static_cast<uint32_t>(state & ((1u << size_.size()) - 1));
      const auto done = static_cast<uint32_t>(state >> size_.size());
      if (peak > best_[state]) continue;
      if (done == all_done_ && (outputs_ & ~alive) == 0) return peak;
      for (uint32_t b = 0; b < size_.size(); ++b)
        if ((alive >> b & 1) && done > 0) reach(peak, done, alive & ~(1u << b));
      for (uint32_t t = 0; t < problem_.tasks.size(); ++t) try_task(peak, done, alive, t);
    }
    return std::numeric_limits<Bytes>::max();
  }

 private:
  Bytes bytes_of(uint32_t alive) const {
    Bytes bytes = 0;
    for (uint32_t b = 0; b < size_.size(); ++b)
      if (alive >> b & 1) bytes += size_[b];
    return bytes;
  }

  void reach(Bytes peak, uint32_t done, uint32_t alive) {
    const size_t state = (size_t{done} << size_.size()) | alive;
    if (best_[state] <= peak) return;
    best_[state] = peak;
    queue_.push({peak, state});
  }

  void try_task(Bytes peak, uint32_t done, uint32_t alive, uint32_t t) {
    const Task& task = problem_.tasks[t];
    if ((done >> t & 1) && !task.recomputable) return;
    uint32_t reads = 0, writes = 0;
    for (const BufferId id : task.reads) reads |= 1u << id;
    for (const BufferId id : task.writes) writes |= 1u << id;
    if (reads & ~alive) return;
    const Bytes bytes = bytes_of(alive | writes) + workspace_bytes(task, 1);
    const uint32_t now_done = done | 1u << t;
    reach(std::max(peak, bytes), now_done, alive | writes);
    if (!in_place_) return;
    for (const InPlace& pair : task.may_share) {
      const BufferId from = task.reads[pair.read], to = task.writes[pair.write];
      if (size_[from] != size_[to] || (alive >> to & 1)) continue;
      reach(std::max(peak, bytes - size_[to]), now_done, (alive | writes) & ~(1u << from));
    }
  }

  const Problem& problem_;
  const bool in_place_;
  std::vector<Bytes> size_, best_;
  uint32_t inputs_ = 0, outputs_ = 0, all_done_ = 0;
  std::priority_queue<std::pair<Bytes, size_t>, std::vector<std::pair<Bytes, size_t>>, std::greater<>> queue_;
};

Problem small_problem(uint64_t seed) {
  Dice dice(seed);
  Builder b;
  std::vector<BufferId> values = {b.buffer("x", BufferKind::Input, Tag::Data, 64 * (1 + dice.below(8)))};
  if (dice.below(2) == 0) values.push_back(b.buffer("y", BufferKind::Input, Tag::Data, 64 * (1 + dice.below(8))));
  const int tasks = 5 + static_cast<int>(dice.below(4));
  for (int t = 0; t < tasks; ++t) {
    const auto recent = std::min<int64_t>(3, static_cast<int64_t>(values.size()));
    std::vector<BufferId> reads = {values[values.size() - 1 - dice.below(recent)]};
    if (const BufferId other = values[dice.below(static_cast<int64_t>(values.size()))]; other != reads[0])
      reads.push_back(other);
    const BufferKind kind = t + 1 == tasks || dice.below(9) == 0 ? BufferKind::Output : BufferKind::Temporary;
    const bool shares = dice.below(3) == 0 && b.problem.buffers[reads[0]].kind != BufferKind::Output;
    const Bytes bytes = shares ? b.problem.buffers[reads[0]].fixed_bytes : 64 * (1 + dice.below(30));
    values.push_back(b.buffer("v" + std::to_string(t), kind, Tag::Activations, bytes));
    Task& task = b.task("t" + std::to_string(t), reads, {values.back()});
    task.recomputable = dice.below(6) > 0;
    if (shares) task.may_share = {{0, 0}};
    if (dice.below(4) == 0) task.workspace_fixed_bytes = 64 * dice.below(10);
  }
  return b.problem;
}

TEST(Bound, AnInputGivesItsPlaceToItsLastReader) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 640);
  const BufferId h = b.temporary("h", 640), y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  b.task("a", {x}, {h}).may_share = {{0, 0}};
  b.task("b", {h}, {y});
  EXPECT_EQ(bound_of(b.problem).bytes, 640 + 64);
  EXPECT_EQ(bound_of(b.problem, false).bytes, 640 + 640);
  b.problem.tasks[1].reads.push_back(x);
  EXPECT_EQ(bound_of(b.problem).bytes, 640 + 640 + 64) << "a follower still needs it";
}

TEST(Bound, IsNeverAboveTheOptimumOfSmallProblems) {
  double gap = 0, gap_of_tasks = 0;
  constexpr int kProblems = 300;
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    const Problem problem = small_problem(seed);
    const bool in_place = seed % 2 == 0;
    const Bytes optimum = Optimum(problem, in_place).find();
    const Bytes bound = bound_of(problem, in_place).bytes;
    const Bytes of_tasks = bound_of(problem, in_place, Return::ByLoading).bytes;
    EXPECT_LE(bound, optimum) << "seed " << seed;
    EXPECT_LE(of_tasks, bound) << "seed " << seed;
    gap += static_cast<double>(optimum) / static_cast<double>(bound) - 1;
    gap_of_tasks += static_cast<double>(optimum) / static_cast<double>(of_tasks) - 1;
  }
  printf("mean of optimum over bound: %.2f %%, over what tasks touch: %.2f %%\n", 100 * gap / kProblems,
         100 * gap_of_tasks / kProblems);
  EXPECT_LT(gap, 0.7 * gap_of_tasks);
}

TEST(Bound, CountsAnInputThatIsReadLater) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 1024), h = b.temporary("h", 64);
  const BufferId wide = b.temporary("wide", 8192), low = b.temporary("low", 64);
  const BufferId out = b.buffer("out", BufferKind::Output, Tag::Eager, 64);
  b.task("first", {x}, {h});
  b.task("grow", {h}, {wide});
  b.task("shrink", {wide}, {low});
  b.task("end", {low, x}, {out});
  EXPECT_EQ(bound_of(b.problem).bytes, 1024 + 8192 + 64);
  EXPECT_EQ(bound_of(b.problem, true, Return::ByLoading).bytes, 8192 + 64) << "it may be away for that while";
  b.problem.tasks[3].reads = {low};
  EXPECT_EQ(bound_of(b.problem).bytes, 8192 + 64) << "nobody waits for it";
}

TEST(Bound, CountsWhatWaitsWhileAnotherIsMade) {
  // Both a and c are read at the end, each made from something large: one of them waits for the other.
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId wide = b.temporary("wide", 8192), high = b.temporary("high", 8192);
  const BufferId a = b.temporary("a", 1024), c = b.temporary("c", 2048);
  const BufferId out = b.buffer("out", BufferKind::Output, Tag::Eager, 64);
  for (const auto& [name, from, to] : {std::tuple("wide", x, wide), {"a", wide, a}, {"high", x, high}, {"c", high, c}})
    b.task(name, {from}, {to}).recomputable = true;
  b.task("end", {a, c}, {out});
  const Bound bound = bound_of(b.problem);
  EXPECT_EQ(bound.bytes, 1024 + 8192 + 2048) << "the smaller one waits";
  EXPECT_EQ(bound.bytes, Optimum(b.problem, true).find());
  EXPECT_EQ(b.problem.tasks[bound.task].name, "end");
}

TEST(Bound, CountsWhatCannotBeMadeAgain) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64), once = b.temporary("once", 1024);
  const BufferId wide = b.temporary("wide", 8192), low = b.temporary("low", 64);
  const BufferId out = b.buffer("out", BufferKind::Output, Tag::Eager, 64);
  b.task("once", {x}, {once});
  b.task("grow", {once}, {wide}).recomputable = true;
  b.task("shrink", {wide}, {low}).recomputable = true;
  b.task("end", {low, once}, {out});
  EXPECT_EQ(bound_of(b.problem).bytes, 1024 + 8192 + 64);
  b.problem.tasks[0].recomputable = true;
  EXPECT_LT(bound_of(b.problem).bytes, 1024 + 8192 + 64) << "it may go while wide is there";
}

TEST(Bound, SaysNothingOfAValueWrittenTwice) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId wide = b.temporary("wide", 8192), a = b.temporary("a", 64), c = b.temporary("c", 64);
  const BufferId out = b.buffer("out", BufferKind::Output, Tag::Eager, 64);
  b.task("wide", {x}, {wide});
  b.task("a", {wide}, {a});
  b.task("c", {x}, {c});
  b.task("again", {x}, {a});
  b.task("end", {a, c}, {out});
  EXPECT_EQ(bound_of(b.problem).bytes, 8192 + 64 + 64) << "the second a needs no wide one beside c";
}

}  // namespace
}  // namespace plimsoll::plan

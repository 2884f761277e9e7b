// A hundred kinds of faults, planted in valid plans: the check refuses each and names what is wrong.
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <type_traits>

#include <gtest/gtest.h>

#include "plan/check/check.h"
#include "plan/faults.h"

namespace plimsoll::plan {
namespace {

using testing::Dice;
using testing::Fault;
using testing::Subject;
using testing::Words;

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> planned = testing::planned_subjects(), by_hand = testing::handmade_subjects();
    planned.insert(planned.end(), by_hand.begin(), by_hand.end());
    return planned;
  }();
  return all;
}

bool holds_one_of(const std::string& text, const std::string& alternatives) {
  std::istringstream stream(alternatives);
  for (std::string word; std::getline(stream, word, '|');)
    if (text.find(word) != std::string::npos) return true;
  return false;
}

void expect_refused(const std::vector<Fault>& faults) {
  std::map<std::string, int> planted;
  for (const Subject& subject : subjects())
    for (const Fault& fault : faults)
      for (uint64_t seed = 0; seed < 4; ++seed) {
        Dice dice(seed);
        Subject broken = subject;
        const Words words = fault.plant(broken, dice);
        planted[fault.name] += words.empty() ? 0 : 1;
        if (words.empty()) continue;
        const std::string answer = check(broken.problem, broken.plan, broken.limits);
        EXPECT_NE(answer, "") << fault.name << " in " << subject.name;
        for (const std::string& word : words)
          EXPECT_TRUE(holds_one_of(answer, word))
              << fault.name << " in " << subject.name << " says: " << answer << "\n  but not: " << word;
      }
  for (const auto& [name, count] : planted) EXPECT_GT(count, 0) << name << " was never planted";
}

TEST(CheckFaults, SubjectsAreValid) {
  bool makes_again = false, shares = false;
  for (const Subject& subject : subjects()) {
    EXPECT_EQ(check(subject.problem, subject.plan, subject.limits), "") << subject.name;
    makes_again = makes_again || subject.plan.actions.size() > subject.problem.tasks.size();
    for (int32_t s = 0; s < static_cast<int32_t>(subject.plan.actions.size()); ++s)
      shares = shares || testing::hands_place_on(subject.plan, s);
  }
  EXPECT_TRUE(makes_again) << "none of the plans runs a task again";
  EXPECT_TRUE(shares) << "none of the plans works in place";
}

TEST(CheckFaults, OfPlace) { expect_refused(testing::place_faults()); }
TEST(CheckFaults, OfTime) { expect_refused(testing::time_faults()); }
TEST(CheckFaults, OfActions) { expect_refused(testing::action_faults()); }
TEST(CheckFaults, OfMicroBatches) { expect_refused(testing::micro_batch_faults()); }
TEST(CheckFaults, OfTransfersAndVariants) { expect_refused(testing::transfer_faults()); }
TEST(CheckFaults, OfReports) { expect_refused(testing::report_faults()); }

TEST(CheckFaults, AreMoreThanAHundredKinds) {
  std::set<std::string> names;
  size_t count = 0;
  for (const auto& list : {testing::place_faults(), testing::time_faults(), testing::action_faults(),
                           testing::micro_batch_faults(), testing::transfer_faults(), testing::report_faults()}) {
    count += list.size();
    for (const Fault& fault : list) names.insert(fault.name);
  }
  EXPECT_EQ(names.size(), count) << "a name stands for two kinds";
  EXPECT_GE(count, 100U);
  RecordProperty("kinds", static_cast<int>(count));
}

template <typename Record>
void scribble(Record& record, Dice& dice) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::array<unsigned char, sizeof(Record)> bytes;
  std::memcpy(bytes.data(), &record, sizeof(Record));
  const int64_t at = dice.below(sizeof(Record));
  const int64_t count = 1 + dice.below(std::min<int64_t>(8, sizeof(Record) - at));
  for (int64_t i = at; i < at + count; ++i)
    bytes[i] = static_cast<unsigned char>(dice.below(3) == 0 ? 255 : dice.below(256));
  std::memcpy(&record, bytes.data(), sizeof(Record));
}

template <typename List>
void scribble_in(List& list, Dice& dice) {
  if (dice.below(6) == 0) list.push_back(list.empty() ? typename List::value_type{} : list.front());
  if (dice.below(6) == 0 && !list.empty()) list.erase(list.begin() + dice.below(static_cast<int64_t>(list.size())));
  if (!list.empty()) scribble(list[dice.below(static_cast<int64_t>(list.size()))], dice);
}

// Whatever stands in a plan, the check answers. What it accepts must at least stay inside its own arena and line.
TEST(CheckFaults, RandomBytesAreAnswered) {
  int refused = 0, planted = 0;
  for (const Subject& subject : subjects()) {
    if (subject.plan.actions.size() > 120) continue;
    for (uint64_t seed = 0; seed < 1500; ++seed) {
      Dice dice(seed * 31 + subject.plan.actions.size());
      Plan plan = subject.plan;
      for (int64_t i = dice.below(3); i >= 0; --i) {
        switch (dice.below(9)) {
          case 0:
          case 1:
            scribble_in(plan.lives, dice);
            break;
          case 2:
          case 3:
            scribble_in(plan.actions, dice);
            break;
          case 4:
            scribble_in(plan.micro_batches, dice);
            break;
          case 5:
            scribble_in(plan.stored, dice);
            break;
          case 6:
            scribble(dice.below(2) == 0 ? plan.arena_bytes : plan.variable_bytes, dice);
            break;
          case 7:
            scribble(plan.peak_by_tag, dice);
            scribble(dice.below(2) == 0 ? plan.live_bytes : plan.lower_bound_bytes, dice);
            break;
          default:
            scribble(dice.below(2) == 0 ? plan.peak_action : plan.lower_bound_task, dice);
        }
      }
      const std::string answer = check(subject.problem, plan, subject.limits);
      ++planted;
      refused += answer.empty() ? 0 : 1;
      if (!answer.empty()) continue;
      EXPECT_LE(plan.arena_bytes, subject.limits.bytes);
      for (const Life& life : plan.lives) EXPECT_LE(life.offset + life.bytes, plan.arena_bytes);
    }
  }
  EXPECT_GT(planted, 10'000);
  EXPECT_GT(refused, planted / 2);
}

TEST(CheckFaults, AnInputMayBeTakenOverByWhatIsListedBeforeIt) {
  testing::Builder b;
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  b.task("a", {x}, {y}).may_share = {{0, 0}};
  Plan plan = testing::lay_out(b.problem, testing::script_of({{.task = 0}}), {1}, 1);
  for (Life& life : plan.lives) life.offset = 0;
  testing::fit_arena(plan);
  EXPECT_EQ(check(b.problem, plan, {}), "");
}

// Rows of the second micro-batch lie in the middle of the whole batch: their place is not where the value would go.
TEST(CheckFaults, RowsOfALaterPartAreNotTakenOver) {
  testing::Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 64);
  const BufferId h = b.temporary("h", 0, 64);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 0, 64);
  for (const auto& [from, to] : {std::pair(x, h), std::pair(h, y)}) {
    Task& task = b.task("to" + std::to_string(to), {from}, {to});
    task.may_share = {{0, 0}};
    task.batch_rule = BatchRule::Rows;
  }
  Plan plan = testing::lay_out(
      b.problem,
      testing::script_of({{.task = 0}, {.task = 1}, {.task = 0, .micro_batch = 1}, {.task = 1, .micro_batch = 1}}),
      {1, 3}, 4);
  EXPECT_EQ(check(b.problem, plan, {.batch = 4}), "");
  Bytes input = 0;
  for (const Life& life : plan.lives)
    if (life.buffer == x) input = life.offset;
  for (Life& life : plan.lives)
    if (life.buffer == h && life.first_action == 2) testing::move_life(plan, life, input);
  EXPECT_EQ(check(b.problem, plan, {.batch = 4}), "h overlaps x at action 2 (bytes 0-191)");
}

// The variant's own operands are held to the rule for the task's: no micro-batch may read what is not added up yet.
TEST(CheckFaults, AVariantDoesNotReadPartOfASum) {
  testing::Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 64);
  const BufferId sum = b.temporary("sum", 64);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 0, 64);
  b.task("add", {x}, {sum}).batch_rule = BatchRule::Sums;
  Task& rows = b.task("rows", {x}, {y});
  rows.batch_rule = BatchRule::Rows;
  Variant variant;
  variant.reads = {x, sum};
  variant.writes = {y};
  rows.variants = {variant};
  std::vector<Action> actions{{.task = 0}, {.task = 1}, {.task = 0, .micro_batch = 1}, {.task = 1, .micro_batch = 1}};
  Plan plan = testing::lay_out(b.problem, testing::script_of(actions), {2, 2}, 4);
  plan.exactness = Exactness::WithinTolerance;
  EXPECT_EQ(check(b.problem, plan, {.batch = 4}), "");
  for (Action& action : actions) action.variant = action.task == 1 ? 0 : -1;
  plan = testing::lay_out(b.problem, testing::script_of(actions), {2, 2}, 4);
  plan.exactness = Exactness::WithinTolerance;
  EXPECT_EQ(check(b.problem, plan, {.batch = 4}), "rows needs the whole of sum, which is a sum over micro-batches");
}

}  // namespace
}  // namespace plimsoll::plan

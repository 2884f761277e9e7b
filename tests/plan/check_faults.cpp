// A hundred kinds of faults, planted in valid plans: the check refuses each and names what is wrong.
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "plan/check.h"
#include "plan/faults.h"

namespace plimsoll {
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
    makes_again = makes_again || subject.plan.steps.size() > subject.problem.tasks.size();
    for (int32_t s = 0; s < static_cast<int32_t>(subject.plan.steps.size()); ++s)
      shares = shares || testing::hands_place_on(subject.plan, s);
  }
  EXPECT_TRUE(makes_again) << "none of the plans runs a task again";
  EXPECT_TRUE(shares) << "none of the plans works in place";
}

TEST(CheckFaults, OfPlace) { expect_refused(testing::place_faults()); }
TEST(CheckFaults, OfTime) { expect_refused(testing::time_faults()); }
TEST(CheckFaults, OfSteps) { expect_refused(testing::step_faults()); }
TEST(CheckFaults, OfParts) { expect_refused(testing::part_faults()); }
TEST(CheckFaults, OfTransfersAndVariants) { expect_refused(testing::transfer_faults()); }
TEST(CheckFaults, OfReports) { expect_refused(testing::report_faults()); }

TEST(CheckFaults, AreMoreThanAHundredKinds) {
  std::set<std::string> names;
  size_t count = 0;
  for (const auto& list : {testing::place_faults(), testing::time_faults(), testing::step_faults(),
                           testing::part_faults(), testing::transfer_faults(), testing::report_faults()}) {
    count += list.size();
    for (const Fault& fault : list) names.insert(fault.name);
  }
  EXPECT_EQ(names.size(), count) << "a name stands for two kinds";
  EXPECT_GE(count, 100U);
  RecordProperty("kinds", static_cast<int>(count));
}

}  // namespace
}  // namespace plimsoll

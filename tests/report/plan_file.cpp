#include "report/plan_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "plan/planned.h"
#include "plan/problems.h"
#include "support/error_of.h"

namespace plimsoll::report {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    limits_.batch = 16;
    plan_ = testing::must_plan(problem_, limits_);
    write_plan(limits_, problem_, plan_, "chain of six", path_);
    std::ifstream file(path_, std::ios::binary);
    text_ = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  void write_changed(const std::string& from, const std::string& to) const {
    std::string text = text_;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(text.replace(at, from.size(), to));
  }

  const std::string path_ = ::testing::TempDir() + "report-" + std::to_string(::getpid()) + ".plan";
  const plan::Problem problem_ = testing::training_chain(6, 512, 4096);
  plan::Limits limits_;
  plan::Plan plan_;
  std::string text_;
};

TEST_F(PlanFileTest, ReadsBackWhatWasWritten) {
  ASSERT_TRUE(is_plan_file(path_));
  const PlanFile file = read_plan(path_);
  EXPECT_EQ(file.limits, limits_);
  EXPECT_EQ(file.plan, plan_);
  EXPECT_EQ(file.problem.name, "chain of six");
  EXPECT_EQ(file.problem.tasks, problem_.tasks);
  EXPECT_EQ(check(file.problem, file.plan, file.limits), "");
}

TEST_F(PlanFileTest, OtherFilesAreNoPlans) {
  for (const char* text : {"", "plim", "not a plan at all", "PLIMSOLL plan 1\n"}) {
    write(text);
    EXPECT_FALSE(is_plan_file(path_)) << text;
  }
}

TEST_F(PlanFileTest, DamageIsNamedWithTheFile) {
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\nbuffer ", "\nbaffle "},
                                 {"\naction ", "\naction fly_"},
                                 {"limits\n", "limit\n"},
                                 {"plan 1\n", "plan 9\n"},
                                 {"\nbatch 16", "\nbatch many"}}) {
    write_changed(from, to);
    EXPECT_THAT(error_of([&] { read_plan(path_); }), HasSubstr(path_)) << from;
  }
  for (const size_t size : {text_.size() - 1, text_.size() / 2, size_t{20}}) {
    write(text_.substr(0, size));
    EXPECT_THAT(error_of([&] { read_plan(path_); }), HasSubstr(path_)) << size;
  }
}

TEST_F(PlanFileTest, TextSaysWhetherThePlanHolds) {
  const PlanFile file = read_plan(path_);
  EXPECT_THAT(plan_file_text(file, ""), HasSubstr("check: holds\n"));
  EXPECT_THAT(plan_file_text(file, ""), HasSubstr("does    batch whole"));
  EXPECT_THAT(plan_file_text(file, ""), HasSubstr(" of no limit\n"));
  const std::string faulty = plan_file_text(file, "relu2 overlaps relu3");
  EXPECT_THAT(faulty, HasSubstr("check: relu2 overlaps relu3\n"));
  EXPECT_THAT(faulty, Not(HasSubstr("peak  "))) << "what a faulty plan says of itself may point nowhere";
}

TEST_F(PlanFileTest, JsonSaysTheSame) {
  const PlanFile file = read_plan(path_);
  const auto holds = nlohmann::json::parse(plan_file_json(file, "", path_));
  EXPECT_EQ(holds["holds"], true);
  EXPECT_EQ(holds["file"], path_);
  EXPECT_EQ(holds["arena_bytes"], plan_.arena_bytes);
  const auto faulty = nlohmann::json::parse(plan_file_json(file, "overlap", path_));
  EXPECT_EQ(faulty["holds"], false);
  EXPECT_EQ(faulty["fault"], "overlap");
  EXPECT_FALSE(faulty.contains("peak_task"));
}

}  // namespace
}  // namespace plimsoll::report

// plimsoll inspect DATA: what it is, its elements and its statistics; bad data ends with exit code 4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "input/files.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

TEST(InspectData, SaysWhatItHolds) {
  const TemporaryDirectory dir;
  const std::string path = dir.write("fruit.csv", "size,kind\n1.5,pear\n2.5,apple\n");
  const Outcome outcome = run_program("inspect " + path);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              HasSubstr("fruit.csv: a CSV file, 2 elements of size f32[], kind i64[]; 2 classes: apple, pear"));
  EXPECT_THAT(outcome.output, HasSubstr("size             least 1.5, mean 2, most 2.5"));
  const nlohmann::json facts = nlohmann::json::parse(run_program("inspect --json " + path).output);
  EXPECT_EQ(facts["kind"], "a CSV file");
  EXPECT_EQ(facts["parts"][0]["elements"], 2);
  EXPECT_EQ(facts["statistics"]["fields"][0]["mean"], 2);
}

TEST(InspectData, ShowsTheHalvesThatTrainingTakes) {
  const TemporaryDirectory dir;
  dir.write("train.csv", "a,b\n1,2\n3,4\n");
  dir.write("val.csv", "a,b\n1,2\n");
  const Outcome outcome = run_program("inspect " + dir.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("train.csv: a CSV file, 2 elements"));
  EXPECT_THAT(outcome.output, HasSubstr("val.csv: a CSV file, 1 elements"));
}

TEST(InspectData, BadDataEndsWithItsExitCode) {
  const TemporaryDirectory dir;
  const Outcome ragged = run_program("inspect " + dir.write("a.csv", "a,b\n1,2\n3\n"));
  EXPECT_EQ(ragged.exit_code, 4);
  EXPECT_THAT(ragged.errors, HasSubstr("a.csv: row 3 (at byte 8): the row has 1 fields"));
  const Outcome cut_off =
      run_program("inspect " + dir.write("a.gz", gzip(idx(0x08, {100}, std::string(100, 'x'))).substr(0, 20)));
  EXPECT_EQ(cut_off.exit_code, 4);
  EXPECT_THAT(cut_off.errors, HasSubstr("a.gz: at byte 20: the gzip file ends too early"));
}

}  // namespace
}  // namespace plimsoll::testing

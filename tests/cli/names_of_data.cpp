// Classes and columns are found by their names in every verb, whatever their order in a file.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModel = "mlp --image-size 1 --channels 3 --classes 3 --width 8 --batch 6";

// Three classes that the largest column tells apart; columns and classes in the order that is given.
std::string flowers(const std::string& header, const std::string& kinds, int rows) {
  std::string text = header + "\n";
  for (int row = 0; row < rows; ++row) {
    const char kind = kinds[static_cast<size_t>(row) % kinds.size()];
    std::string line;
    for (size_t at = 0; at < header.size(); at += 2)
      line += fmt::format(
          "{}{}", at > 0 ? "," : "",
          header[at] == 'k' ? std::string("kind_") + kind : fmt::format("{}", (header[at] == kind ? 5 : 0) + row % 2));
    text += line + "\n";
  }
  return text;
}

class NamesOfData : public ::testing::Test {
 protected:
  double accuracy(const std::string& arguments) const {
    const Outcome outcome = run_program(arguments + " --json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.event("eval").value("accuracy", -1.0);
  }
  TemporaryDirectory dir_;
  std::string train_ = dir_.write("train.csv", flowers("a,b,c,k", "abc", 60));
  std::string turned_ = dir_.write("turned.csv", flowers("k,c,b,a", "cb", 60));
  std::string saved_ = dir_.path() + "/m";
};

TEST_F(NamesOfData, TrainEvalAndPredictFindThem) {
  const Outcome outcome =
      run_program(fmt::format("train {} --data {} --val {} --label k --epochs 40 --lr 0.02 --json --save-model {}",
                              kModel, train_, turned_, saved_));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.event("end")["test_accuracy"], 1) << outcome.event("end").dump(1);
  EXPECT_EQ(accuracy(fmt::format("eval {} --data {}", saved_, turned_)), 1);
  const auto predicted = [&](const std::string& header) {
    const std::string path = dir_.write("rows.csv", flowers(header, "cb", 4));
    return run_program(fmt::format("predict {} --data {} --output {}/p.csv", saved_, path, dir_.path())).exit_code == 0
               ? accuracy(fmt::format("eval {} --data {}", saved_, turned_))
               : -1;
  };
  EXPECT_EQ(predicted("c,a,b"), 1);  // without labels
}

TEST_F(NamesOfData, OthersAreRefusedWithExitCodeFour) {
  const std::string other = dir_.write("other.csv", flowers("a,b,d,k", "abd", 12));
  const Outcome outcome = run_program(fmt::format("train {} --data {} --val {}", kModel, train_, other));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.errors, HasSubstr("without c, with 1 more: d"));
  const std::string none = fmt::format("{} --data {} --label nosuch", kModel, train_);
  for (const char* verb : {"train", "plan", "profile"}) {
    const Outcome refused = run_program(fmt::format("{} {}", verb, none));
    EXPECT_EQ(refused.exit_code, 2) << verb;
    EXPECT_THAT(refused.errors, HasSubstr("it has a, b, c, k")) << verb;
  }
}

TEST_F(NamesOfData, NumbersOfNormalisationAreFinite) {
  for (const char* map : {"normalise:0.5:inf", "normalise:nan:1", "normalise:inf:1", "normalise:0:nan"}) {
    const Outcome outcome = run_program(fmt::format("train {} --data {} --map {}", kModel, train_, map));
    EXPECT_EQ(outcome.exit_code, 2) << map;
    EXPECT_THAT(outcome.errors, HasSubstr("--map normalise:MEAN:DEVIATION: a ")) << map;
  }
}

}  // namespace
}  // namespace plimsoll::testing

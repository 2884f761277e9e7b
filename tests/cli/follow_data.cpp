// Built-in models have the sizes of their data, in every verb, and weights say which.
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/pictures.h"
#include "input/records.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Black shapes that only the alpha channel shows: a bar on top, or at the bottom.
Picture icon(bool is_on_top, int shift) {
  Picture shape{8, 8, 4, std::vector<uint8_t>(8 * 8 * 4)};
  for (size_t y = 0; y < 3; ++y)
    for (size_t x = 0; x < 8; ++x) shape.pixels[((is_on_top ? y : 7 - y) * 8 + x) * 4 + 3] = uint8_t(200 + shift);
  return shape;
}

class FollowsData : public ::testing::Test {
 protected:
  FollowsData() {
    for (const char* name : {"icons/bottom", "icons/top"}) {
      fs::create_directories(dir_.path() + "/" + name);
      for (int i = 0; i < 16; ++i)
        dir_.write(fmt::format("{}/{}.png", name, i), png(icon(std::string(name) == "icons/top", i)));
    }
    std::string text = "a,b,c,kind\n";
    for (int i = 0; i < 30; ++i) text += fmt::format("{},{},{},{}\n", i % 3, i % 2, i % 5, i % 3 == 0 ? "no" : "yes");
    table_ = dir_.write("a.csv", text);
  }
  static Outcome good(const std::string& command) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.errors;
    return outcome;
  }
  const TemporaryDirectory dir_;
  const std::string icons_ = dir_.path() + "/icons", weights_ = dir_.path() + "/w";
  std::string table_;
};

TEST_F(FollowsData, TransparencyIsSeenAndClassesAreThoseOfTheFolders) {
  const Outcome outcome = good(fmt::format(
      "train mlp --image-size 8 --channels 3 --width 8 --batch 8 --data {} --val {} --epochs 20 --lr 0.01 --json "
      "--progress none --save {}",
      icons_, icons_, weights_));
  EXPECT_EQ(outcome.event("end")["test_accuracy"], 1) << "two classes, which alpha tells apart";
  EXPECT_THAT(outcome.output, HasSubstr("(so the model has 2 classes)"));
  EXPECT_THAT(good(fmt::format("plan resnet18 --image-size 33 --data {}", icons_)).output,
              HasSubstr("a folder of images (so the model has 2 classes), 32 elements"));
}

TEST_F(FollowsData, EveryVerbTakesTheSizesOfATable) {
  const std::string model = "mlp --width 8 --batch 6";
  for (const char* verb : {"plan", "train --progress none"})
    EXPECT_THAT(good(fmt::format("{} {} --data {}", verb, model, table_)).output,
                HasSubstr("(so the model has 2 classes, 3 channels, image size 1), 30 elements of x f32[3], y i64[]"))
        << verb;
  EXPECT_THAT(good(fmt::format("profile --steps 2 {} --data {}", model, table_)).output,
              HasSubstr("read(to x f32[3],"));
}

TEST_F(FollowsData, WeightsSayWhichSizesTheModelHas) {
  good(fmt::format("train mlp --width 8 --batch 6 --data {} --progress none --save {}", table_, weights_));
  // Data of one class, and no flags for the sizes.
  const std::string some = dir_.write("some.csv", "kind,c,b,a\nyes,1,1,1\nyes,2,0,2\n");
  for (const char* verb : {"eval", "predict", "save -o DIR/m"}) {
    std::string command = fmt::format("{} mlp --width 8 --weights {}", verb, weights_);
    if (command.starts_with("eval") || command.starts_with("predict")) command += " --data " + some;
    for (const auto& [word, text] : {std::pair("DIR", dir_.path())})
      if (const size_t at = command.find(word); at != std::string::npos) command.replace(at, std::strlen(word), text);
    good(command);
  }
  good(fmt::format("eval {}/m --data {}", dir_.path(), some));
}

TEST_F(FollowsData, WhatContradictsTheDataIsRefusedByPlanAndTrain) {
  for (const char* verb : {"plan", "train"}) {
    const auto refused = [&](const std::string& flags) {
      const Outcome outcome = run_program(fmt::format("{} mlp {}", verb, flags));
      EXPECT_NE(outcome.exit_code, 0) << flags;
      return outcome.errors;
    };
    EXPECT_THAT(refused(fmt::format("--data {} --channels 5", table_)), HasSubstr("samples of 3 numbers [3] but"));
    EXPECT_THAT(refused(fmt::format("--data {} --classes 1", table_)), HasSubstr("has 2 classes but the model has 1"));
    EXPECT_THAT(refused(fmt::format("--data {} --map normalise", table_)), HasSubstr("is for images"));
    EXPECT_THAT(refused(fmt::format("--data {} --map flip", table_)), HasSubstr("is for images"));
    EXPECT_THAT(refused("--label kind"), HasSubstr("--label does nothing without --data"));
  }
  good(fmt::format("train mlp --data {} --map normalise:1:2 --batch 6 --progress none", table_));
}

}  // namespace
}  // namespace plimsoll::testing

// Bad labels and bad numbers in the data, as a user meets them: named, and told apart from training that diverged.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSamples = 16;
constexpr size_t kPixels = 16;

class BadDataTest : public ::testing::Test {
 protected:
  std::string folder_ = ::testing::TempDir() + "cli_bad_data";
  std::vector<float> x_ = std::vector<float>(kSamples * kPixels, 0.25F);
  std::vector<int32_t> y_ = std::vector<int32_t>(kSamples, 1);

  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 7) / 7;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  template <class T>
  void write(const std::string& name, const char* type, const std::string& shape, const std::vector<T>& numbers) const {
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
    header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
    std::ofstream file(folder_ + "/" + name, std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
    file.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(T)));
  }

  void write_data() const {
    for (const char* half : {"train", "test"}) {
      write(fmt::format("x_{}.npy", half), "<f4", "(16, 1, 4, 4)", x_);
      write(fmt::format("y_{}.npy", half), "<i4", "(16,)", y_);
    }
  }

  Outcome run(const std::string& verb, const std::string& more = "") const {
    return run_program(
        fmt::format("{} mlp --image-size 4 --channels 1 --classes 4 --batch 8 --data {} {}", verb, folder_, more));
  }
};

TEST_F(BadDataTest, GoodDataIsFine) {
  write_data();
  const Outcome trained = run("train", fmt::format("--epochs 1 --save {}/w.safetensors", folder_));
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  const Outcome scored = run("eval", fmt::format("--weights {}/w.safetensors", folder_));
  EXPECT_EQ(scored.exit_code, 0) << scored.errors;
}

TEST_F(BadDataTest, ALabelOutsideOfTheClassesIsExitCodeFour) {
  y_[9] = 7;
  write_data();
  const Outcome outcome = run("train", "--epochs 1");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr(": row 9: label 7 is not in [0, 4)"));
}

TEST_F(BadDataTest, NumbersOfTheDataThatAreNotFiniteAreExitCodeFour) {
  x_[9 * kPixels + 3] = std::numeric_limits<float>::quiet_NaN();
  write_data();
  const Outcome outcome = run("train", "--epochs 1");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("'input' has nan in sample"));
  EXPECT_THAT(outcome.errors, HasSubstr("(element 3)"));
}

TEST_F(BadDataTest, TrainingThatDivergesIsExitCodeSix) {
  for (float& number : x_) number *= 1e18F;
  write_data();
  const Outcome outcome = run("train", "--epochs 40 --optimizer sgd --lr 1e30");
  EXPECT_EQ(outcome.exit_code, 6) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("though the data is finite; try a smaller --lr"));
}

TEST_F(BadDataTest, EvaluationTellsTheSame) {
  write_data();
  const std::string weights = folder_ + "/w.safetensors";
  ASSERT_EQ(run("train", "--epochs 1 --save " + weights).exit_code, 0);
  x_[9 * kPixels + 3] = std::numeric_limits<float>::infinity();
  write_data();
  const Outcome bad_data = run("eval", "--weights " + weights);
  EXPECT_EQ(bad_data.exit_code, 4) << bad_data.errors << bad_data.output;
  EXPECT_THAT(bad_data.errors, HasSubstr("'input' has inf in sample 1 of the batch (element 3) while samples 8 to 15"));
  for (float& number : x_) number = 3e38F;
  write_data();
  const Outcome bad_numbers = run("eval", "--weights " + weights);
  EXPECT_EQ(bad_numbers.exit_code, 6) << bad_numbers.errors << bad_numbers.output;
  for (float& number : x_) number = 0;
  y_[15] = -1;
  write_data();
  const Outcome bad_label = run("eval", "--weights " + weights);
  EXPECT_EQ(bad_label.exit_code, 4) << bad_label.errors << bad_label.output;
  EXPECT_THAT(bad_label.errors, HasSubstr(": row 15: label -1 is not in [0, 4)"));
}

}  // namespace
}  // namespace plimsoll::testing

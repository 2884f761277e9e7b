// --half-storage: what it saves, what the plan says of it, and that training goes on from a file as if never stopped.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/half_product.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kData = "--data /usr/share/datasets/fashion-mnist";

nlohmann::json plan(const std::string& arguments) {
  const Outcome outcome = run_program("plan --json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << arguments << outcome.errors;
  return nlohmann::json::parse(outcome.output, nullptr, false);
}

TEST(HalfStorage, LowersThePeakAndThePlanSaysSo) {
  const std::string model = "resnet18 --image-size 64 --batch 16 --memory 4GiB";
  const auto plain = plan(model);
  const auto values = plan(model + " --half-storage values");
  const auto both = plan(model + " --half-storage values,state");
  EXPECT_EQ(plain["exactness"], "bit-identical");
  EXPECT_EQ(values["exactness"], "lossy");
  EXPECT_GT(values["half_storage"]["values"], 0);
  EXPECT_EQ(values["half_storage"]["state"], false);
  EXPECT_EQ(both["half_storage"]["state"], true);
  EXPECT_LT(values["planned_peak_bytes"], plain["planned_peak_bytes"]);
  EXPECT_LT(both["planned_peak_bytes"], values["planned_peak_bytes"]);
  EXPECT_LT(both["lower_bound_bytes"], plain["lower_bound_bytes"]);
  EXPECT_EQ(2 * both["by_tag"]["optimiser"].get<int64_t>() / 1000000,
            plain["by_tag"]["optimiser"].get<int64_t>() / 1000000);
}

TEST(HalfStorage, InWords) {
  const auto words = [](const std::string& arguments) {
    const Outcome outcome = run_program("plan lenet --memory 1GiB " + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.output;
  };
  EXPECT_THAT(words(""), HasSubstr("results bit-identical"));
  EXPECT_THAT(words("--half-storage values"), HasSubstr("results differ: values in bf16, as asked"));
  EXPECT_THAT(words("--half-storage state"), HasSubstr("results differ: optimiser state in 16 bits"));
  EXPECT_THAT(words("--half-storage values --half-storage state"),
              HasSubstr("values in bf16 and optimiser state in 16 bits"));
  // sgd has no state, so nothing is rounded.
  EXPECT_THAT(words("--half-storage state --optimizer sgd"), HasSubstr("results bit-identical"));
}

// oneDNN says whether the processor multiplies bf16; ONEDNN_MAX_CPU_ISA makes it say no.
TEST(HalfStorage, ProductsAreInBf16WhereTheProcessorMultipliesIt) {
  const std::string plan = "plan resnet18 --image-size 64 --batch 8 --memory 1GiB --json --policy ";
  const auto planned = [&](const char* policy, const char* with) {
    const Outcome outcome = run_program(plan + policy, with);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output);
  };
  const char* without = "env ONEDNN_MAX_CPU_ISA=AVX2";
  const auto here = planned("mixed_bfloat16", ""), stored = planned("stored_bfloat16", "");
  const bool multiplies = kernels::multiplies_bf16();
  EXPECT_EQ(here["half_compute"]["in_bf16"] > 20, multiplies);
  EXPECT_EQ(stored["half_compute"]["in_bf16"], 0);
  EXPECT_EQ(here["exactness"], "lossy");
  EXPECT_EQ(here == stored, !multiplies);
  EXPECT_EQ(planned("mixed_float16", "")["half_compute"]["in_bf16"], 0);
  const auto less = planned("mixed_bfloat16", without);
  EXPECT_EQ(less["half_compute"]["in_bf16"], 0);
  EXPECT_EQ(less["half_storage"], planned("stored_bfloat16", without)["half_storage"]);
}

TEST(HalfStorage, AProfileNamesTheProductsInBf16) {
  if (!kernels::multiplies_bf16()) GTEST_SKIP() << "this processor does not multiply bf16";
  const Outcome profile = run_program("profile resnet18 --image-size 32 --batch 4 --steps 1 --policy mixed_bfloat16");
  for (const char* name : {"conv2d bf16", "conv2d_input_grad bf16", "conv2d_kernel_grad bf16"})
    EXPECT_THAT(profile.output, HasSubstr(name));
}

TEST(HalfStorage, AWrongWordIsOneClearError) {
  const Outcome outcome = run_program("plan mlp --half-storage weights");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--half-storage 'weights' is unknown; known are values, state"));
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(HalfStorage, FilesGoBothWays) {
  const std::string half = ::testing::TempDir() + "half_state", wide = ::testing::TempDir() + "wide_state";
  const auto run = [&](const std::string& arguments) {
    const Outcome outcome = run_program(fmt::format("{} {} --memory 1GiB", arguments, kData));
    EXPECT_EQ(outcome.exit_code, 0) << arguments << outcome.errors;
  };
  run("train mlp --steps 2 --half-storage state --save " + half);
  run("train mlp --steps 2 --save " + wide);
  EXPECT_LT(bytes_of(half).size(), bytes_of(wide).size());
  run("train mlp --steps 2 --weights " + half);
  run("train mlp --steps 2 --half-storage state --weights " + wide);
  run("eval mlp --weights " + half);
  std::filesystem::remove(half);
  std::filesystem::remove(wide);
}

}  // namespace
}  // namespace plimsoll::testing

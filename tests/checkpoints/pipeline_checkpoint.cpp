// Strategy::pipeline with the checkpoint callback: the first rank has it, all stages write what they hold.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "input/files.h"
#include "ranks/communicator.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

constexpr const char* kFolder = "PLIMSOLL_TEST_FOLDER";  // of the files of a program of several ranks
constexpr const char* kEpochs = "PLIMSOLL_TEST_EPOCHS";

// Weights after so many epochs, as bytes of a file. Goes on from what is in the folder.
std::string train_stages(const Strategy& strategy, const std::string& folder, int64_t epochs) {
  constexpr int64_t kSamples = 64;
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < kSamples; ++i) {
    for (int64_t j = 0; j < 6; ++j) x.push_back(std::sin(static_cast<float>(i * i + 3 * j)));
    y.push_back(static_cast<int32_t>(i % 3));
  }
  const Dataset data = Dataset::slices({{"x", x, {kSamples, 6}}, {"y", y}});
  Model net = sequential({layers::dense(16, {.activation = "relu"}, "low"), layers::batch_norm(),
                          layers::dense(8, {.activation = "tanh"}, "high"), layers::dense(3, {}, "head")});
  net.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
  MemoryLine line(256 * MiB);
  const CheckpointOptions options{.every_steps = 3, .every_seconds = 3600, .resume = true};
  net.fit(data.shuffle({.seed = 3}).batch(16), line,
          {.epochs = epochs, .strategy = strategy, .callbacks = {checkpoint(folder + "/checkpoints", options)}});
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");  // files of ranks are apart
  const std::string file = fmt::format("{}/weights{}.safetensors", folder, rank != nullptr ? rank : "");
  net.save_weights(file);
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A program of two ranks, started by the test below.
TEST(StageProgram, DISABLED_Trains) {
  const std::string folder = std::getenv(kFolder);
  const bool is_first = std::string(std::getenv("OMPI_COMM_WORLD_RANK")) == "0";
  const std::string weights = train_stages(Strategy::pipeline({"high"}, 4), folder, std::atoll(std::getenv(kEpochs)));
  EXPECT_FALSE(weights.empty());
  if (is_first) std::ofstream(folder + "/of_all", std::ios::binary) << weights;
}

// MPI unloads its modules before a sanitizer looks for leaks, so that tests/leaks.supp can't name theirs.
std::string run_two_ranks(const std::string& folder, int64_t epochs) {
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 {}={} {}={} mpirun "
      "--oversubscribe --bind-to none -n 2 {} --gtest_also_run_disabled_tests "
      "--gtest_filter=StageProgram.DISABLED_Trains 2>&1",
      kFolder, folder, kEpochs, epochs, std::filesystem::read_symlink("/proc/self/exe").string());
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::string output;
  for (char text[512]; std::fgets(text, sizeof text, pipe) != nullptr;) output += text;
  EXPECT_EQ(::pclose(pipe), 0) << output;
  std::ifstream stream(folder + "/of_all", std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(PipelineCheckpoint, GoesOnWithStagesAndWithOneProcess) {
  if (!ranks::has_mpi()) GTEST_SKIP() << "this build has no ranks";
  const TemporaryDirectory alone, together, mixed;
  const std::string one = train_stages(Strategy::pipeline({}, 4), alone.path(), 4);
  ASSERT_FALSE(one.empty());
  EXPECT_TRUE(run_two_ranks(together.path(), 2) != one);
  EXPECT_TRUE(std::filesystem::exists(together.path() + "/checkpoints")) << "the first rank wrote them";
  EXPECT_TRUE(run_two_ranks(together.path(), 4) == one) << "two ranks go on from two";
  run_two_ranks(mixed.path(), 2);
  EXPECT_TRUE(train_stages(Strategy::pipeline({}, 4), mixed.path(), 4) == one) << "one process goes on from two";
}

}  // namespace
}  // namespace plimsoll

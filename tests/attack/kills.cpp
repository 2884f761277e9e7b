// kill -9 at any moment of a save leaves the old weights or the new ones.
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attack/effort.h"
#include "ops/ops.h"
#include "support/disk_folder.h"
#include "weights/weights_file.h"

namespace plimsoll::testing {
namespace {

using namespace memory;

using namespace plan;

constexpr int64_t kCount = 300'000;  // elements of each weight: a save takes some milliseconds

// Saves weights that all have the number of the save as their value, until it is killed.
[[noreturn]] void save_for_ever(const std::string& path, float first) {
  ::omp_set_num_threads(1);
  Graph graph;
  const Tensor a = graph.variable("a", DType::F32, {kCount}, Init::zeros());
  const Tensor b = graph.variable("b", DType::F32, {kCount}, Init::zeros());
  const Tensor sum = add(a, b);
  MemoryLine line;
  session::Engine session(graph, line, {{{sum}, {}, 1}});
  for (float number = first;; ++number) {
    const std::vector<float> values(kCount, number);
    session.set(a, values.data(), kCount * 4);
    session.set(b, values.data(), kCount * 4);
    session.set_step_count(static_cast<int64_t>(number));
    weights::save_weights(session, graph, path);
  }
}

// The number of the save that wrote the file; fails the test when its tensors are of several saves.
float number_of(const std::string& path) {
  const weights::WeightsReader file(path);
  EXPECT_EQ(file.tensors(), 2);
  std::vector<float> values(kCount);
  const auto number = static_cast<float>(file.steps());
  file.for_each([&](const weights::StoredTensor& stored) {
    file.read(stored.offset, values.data(), stored.bytes);
    for (const float value : values) ASSERT_EQ(value, number) << stored.name;
  });
  return number;
}

TEST(Kills, DuringSavesLeaveTheOldWeightsOrTheNew) {
  const DiskFolder folder;
  const std::string path = static_cast<const std::string&>(folder) + "/weights";
  std::mt19937 random(11);
  float number = 0;
  int64_t round = 0;
  for (const Effort effort(12, 1.0 / 8); effort.goes_on(round); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        save_for_ever(path, number + 1);
      } catch (const std::exception& e) {
        fmt::print(stderr, "the child failed: {}\n", e.what());
        ::_exit(1);
      }
    }
    ::usleep(20'000 + random() % 100'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    if (!std::filesystem::exists(path)) continue;
    const float now = number_of(path);
    EXPECT_GE(now, number);
    number = now;
  }
  fmt::print("{} kills, {} saves were complete\n", round, number);
  EXPECT_GT(number, 0);
  // A save begins by removing what kills left: then nothing else is in the folder.
  int others = 0;
  remove_abandoned_files(find_output_target(path));
  for (const auto& entry : std::filesystem::directory_iterator(static_cast<const std::string&>(folder)))
    others += entry.path() != path;
  EXPECT_EQ(others, 0);
}

}  // namespace
}  // namespace plimsoll::testing

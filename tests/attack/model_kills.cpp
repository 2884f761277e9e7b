// kill -9 at any moment of a save leaves the old model or the new one.
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "attack/effort.h"
#include "store/model_file.h"
#include "support/disk_folder.h"

namespace plimsoll::testing {
namespace {

ModelSpec wide_net() {
  ModelSpec spec;
  spec.model = Model("net", [](Tensor x, bool) { return layers::dense(layers::dense(x, 300), 300); });
  spec.inputs = {{"input", {DType::F32, {Dim::batch(), 300}}}};
  return spec;
}

// Saves weights that all have the number of the save as their value.
void save_numbered(const std::string& path, float number) {
  const model::TracedModel traced = model::trace(wide_net());
  const std::vector<weights::StoredTensor> tensors = store::list_weights(traced);
  const auto write = [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
    const std::vector<float> values(static_cast<size_t>(tensor.bytes) / sizeof(float), number);
    put(std::as_bytes(std::span(values)));
  };
  store::save_model(path, wide_net(), traced, {weights::list_of(tensors), write, static_cast<int64_t>(number)});
}

// The number of the save that wrote the model; fails the test when its tensors are of several saves.
float number_of_model(const std::string& path) {
  const store::StoredModel stored = store::read_model(path);
  store::expect_whole_weights(stored);
  const auto number = static_cast<float>(stored.steps);
  const weights::WeightsReader file(stored.weights_path());
  file.for_each([&](const weights::StoredTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.bytes) / sizeof(float));
    file.read(tensor.offset, values.data(), tensor.bytes);
    for (const float value : values) ASSERT_EQ(value, number) << tensor.name;
  });
  return number;
}

TEST(Kills, DuringSavesLeaveTheOldModelOrTheNew) {
  const DiskFolder folder;
  const std::string path = static_cast<const std::string&>(folder) + "/net.plimsoll";
  std::mt19937 random(13);
  float number = 0;
  save_numbered(path, number);
  int64_t round = 0;
  for (const Effort effort(12, 1.0 / 8); effort.goes_on(round); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::omp_set_num_threads(1);
      try {
        for (float next = number + 1;; ++next) save_numbered(path, next);
      } catch (const std::exception& e) {
        fmt::print(stderr, "the child failed: {}\n", e.what());
        ::_exit(1);
      }
    }
    ::usleep(10'000 + random() % 60'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "round " << round;
    const float after = number_of_model(path);
    EXPECT_GE(after, number);
    number = after;
  }
  EXPECT_GT(number, 0) << "no save was finished";
  // The next save takes away what the last kill left.
  save_numbered(path, number + 1);
  EXPECT_EQ(number_of_model(path), number + 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(static_cast<const std::string&>(folder)),
                          std::filesystem::directory_iterator()),
            1);
  fmt::print("{} kills, {} saves\n", round, static_cast<int64_t>(number));
}

}  // namespace
}  // namespace plimsoll::testing

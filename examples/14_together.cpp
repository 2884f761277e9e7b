// The same training alone, mirrored over replicas in one process, and over workers that mpirun starts: with a fixed
// number of shards the weights are the same to the last bit.
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kSamples = 1000, kColumns = 64, kShards = 4;

// Trains and writes the weights; returns the planned peak.
Bytes train_with(MemoryLine& line, const Strategy& strategy, const std::string& file) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(kSamples * kColumns);
  std::vector<int32_t> y;
  for (float& number : x) number = normal(random);
  for (size_t row = 0; row < kSamples; ++row) y.push_back(x[row * kColumns] > x[row * kColumns + 1] ? 1 : 0);

  Model net = sequential(
      {layers::dense(256, {.activation = "relu"}), layers::batch_norm(), layers::dropout(0.2), layers::dense(2)});
  net.compile({.optimiser = Optimiser::adam(), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  // The last batch has 40 samples: each of them is used, and counts as much as any other.
  const Dataset batches = Dataset::slices({{"x", std::move(x), {kSamples, kColumns}}, {"y", std::move(y)}})
                              .shuffle({.seed = 1})
                              .batch(64)
                              .prefetch(1);
  const FitOptions options{.epochs = 5, .strategy = strategy};
  const Bytes planned = net.plan(batches, line, options).peak();
  const History history = net.fit(batches, line, options);
  std::printf("loss %.6f, accuracy %.2f %%\n", history["loss"].back(), 100 * history["accuracy"].back());
  net.save_weights(file);
  return planned;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every worker has all weights and writes them; a file is replaced as a whole.
int run_workers(const std::string& program, const std::string& file) {
  const std::string command =
      "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 '" + program + "' worker '" + file + "'";
  std::fflush(stdout);
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MemoryLine line = MemoryLine::process("64MiB");
  if (argc > 2) {
    const Bytes planned = train_with(line, Strategy::ranks({.shards = kShards}), argv[2]);
    return example::report(line, planned);
  }
  const example::Folder folder;
  const std::string alone = folder / "alone.safetensors", other = folder / "other.safetensors";
  Bytes planned = train_with(line, Strategy::mirrored(1, {.shards = kShards}), alone);
  for (const int replicas : {2, 4}) {
    planned = std::max(planned, train_with(line, Strategy::mirrored(replicas, {.shards = kShards}), other));
    const bool is_same = content_of(other) == content_of(alone);
    std::printf("%d replicas: %s\n", replicas, is_same ? "the same weights" : "other weights");
    if (!is_same) return 1;
  }
  if (std::system("command -v mpirun > /dev/null") != 0) {
    std::puts("without mpirun, of openmpi-bin, there are no workers");
    return example::report(line, planned);
  }
  std::filesystem::remove(other);
  if (const int code = run_workers(std::filesystem::read_symlink("/proc/self/exe"), other); code != 0) return code;
  const bool is_same = content_of(other) == content_of(alone);
  std::printf("2 workers: %s\n", is_same ? "the same weights" : "other weights");
  return is_same ? example::report(line, planned) : 1;
}

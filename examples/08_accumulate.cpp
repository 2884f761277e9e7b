// Gradients of 4 batches of 256 added up for each update, against batches of 1024: the same losses from less memory.
#include <cmath>
#include <utility>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kRows = 5000, kColumns = 64;

struct Outcome {
  std::vector<double> losses;
  Bytes planned;
};

Outcome train(const Dataset& rows, const MemoryLine& line, int64_t batch, int64_t accumulate) {
  std::vector<Layer> hidden(6, layers::dense(128, {.activation = "tanh"}));
  hidden.push_back(layers::dense(2));
  Model net = sequential(hidden);
  net.compile({.optimiser = Optimiser::sgd(0.05), .loss = "sparse_cross_entropy", .accumulate = accumulate});
  const Dataset batches = rows.batch(batch);
  const Forecast forecast = net.plan(batches, line);
  const example::Stopwatch time;
  // 5000 rows are 4 groups of 1024 and one of 904: weighted by its samples, as the last large batch is.
  Outcome outcome{net.fit(batches, line, {.epochs = 5})["loss"], forecast.peak()};
  std::printf("batches of %4ld, an update for each %ld: %.2f s, planned %s, loss %.6f\n", batch, accumulate,
              time.seconds(), format_bytes(outcome.planned).c_str(), outcome.losses.back());
  return outcome;
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("64MiB");
  std::vector<float> x(kRows * kColumns);
  std::vector<int32_t> y(kRows);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<uint32_t>(i * i + i) * 2654435761U) * 0x1p-32F - 0.5F;
  for (size_t r = 0; r < y.size(); ++r) y[r] = x[r * kColumns] + x[r * kColumns + 1] > 0 ? 1 : 0;
  const Dataset rows = Dataset::slices({{"x", std::move(x), {kRows, kColumns}}, {"y", std::move(y)}});
  const Outcome parts = train(rows, line, 256, 4), whole = train(rows, line, 1024, 1);
  double difference = 0;
  for (size_t i = 0; i < whole.losses.size(); ++i)
    difference = std::max(difference, std::abs(parts.losses[i] / whole.losses[i] - 1));
  std::printf("largest difference of a loss: %.1e\n", difference);
  const bool is_fine = difference < 1e-4 && parts.planned < whole.planned;
  return is_fine ? example::report(line, std::max(parts.planned, whole.planned)) : 1;
}

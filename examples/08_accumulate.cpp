// Gradients of 4 batches of 32 added up for each update, against batches of 128: the same losses from less memory.
#include <cmath>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kRows = 2000, kColumns = 256;

struct Outcome {
  std::vector<double> losses;
  Bytes planned;
};

Outcome train(const Dataset& rows, const MemoryLine& line, int64_t batch, int64_t accumulate) {
  Model net = sequential({layers::dense(512, {.activation = "relu"}), layers::dense(512, {.activation = "relu"}),
                          layers::dense(512, {.activation = "relu"}), layers::dense(2)});
  net.compile({.optimiser = Optimiser::sgd(0.05), .loss = "sparse_cross_entropy", .accumulate = accumulate});
  const Dataset batches = rows.batch(batch);
  const Forecast forecast = net.plan(batches, line);
  const example::Stopwatch time;
  // 2000 rows are 15 groups of 128 and one of 80: weighted by its samples, as the last large batch is.
  Outcome outcome{net.fit(batches, line, {.epochs = 5})["loss"], forecast.peak()};
  std::printf("batches of %3ld, an update for each %ld: %.2f s, planned %s, loss %.6f\n", batch, accumulate,
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
  const Dataset rows = Dataset::slices({{"x", x, {kRows, kColumns}}, {"y", y}});
  const Outcome parts = train(rows, line, 32, 4), whole = train(rows, line, 128, 1);
  double difference = 0;
  for (size_t i = 0; i < whole.losses.size(); ++i)
    difference = std::max(difference, std::abs(parts.losses[i] / whole.losses[i] - 1));
  std::printf("largest difference of a loss: %.1e\n", difference);
  return difference < 1e-4 ? example::report(line, std::max(parts.planned, whole.planned)) : 1;
}

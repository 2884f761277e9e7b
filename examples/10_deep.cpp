// 5000 dense layers of 100 units, batch 1000: built, planned and trained in far less memory than the step
// would hold without a line.
#include <utility>
#include <vector>

#include "example.h"

using namespace plimsoll;

int main() {
  constexpr int kLayers = 5000;
  constexpr int64_t kUnits = 100, kBatch = 1000;
  MemoryLine line = MemoryLine::process("400MiB");

  // Each layer adds to what it takes, so that gradients reach the first one.
  Model deep("deep", [](Tensor x, bool) {
    for (int i = 0; i < kLayers; ++i)
      x = x + layers::dense(x, kUnits, {.activation = "tanh", .kernel = Init::normal(0, 1e-3)});
    return x;
  });
  deep.compile({.optimiser = Optimiser::sgd(2e-4), .loss = "mse"});

  std::vector<float> x(kBatch * kUnits), y(kBatch * kUnits);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<uint32_t>(i) * 2654435761U) * 0x1p-32F;
    y[i] = 0.5F;
  }
  const Dataset batch =
      Dataset::slices({{"x", std::move(x), {kBatch, kUnits}}, {"y", std::move(y), {kBatch, kUnits}}}).batch(kBatch);

  const example::Stopwatch planning;
  const Forecast forecast = deep.plan(batch, line);
  std::printf("planned in %.1f s\n%s", planning.seconds(), forecast.text().c_str());
  if (!forecast.fits()) return 1;
  const example::Stopwatch time;
  const History history = deep.fit(batch, line, {.epochs = 2});
  std::printf("2 steps in %.1f s, loss", time.seconds());
  for (const double loss : history["loss"]) std::printf(" %.4f", loss);
  std::puts("");
  return history["loss"].back() < history["loss"].front() ? example::report(line, forecast.peak()) : 1;
}

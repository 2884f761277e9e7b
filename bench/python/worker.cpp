// The C++ half of bench/python: the same model fitted, and the same operator called, as bench/python/run does in
// Python.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main() {
  MemoryLine line;
  constexpr int64_t kSamples = 8192;
  std::vector<float> x(kSamples * 784);
  std::vector<int32_t> y(kSamples);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761U % 1000) / 1000;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i * 40503U % 10);
  const Dataset train = Dataset::slices({{"x", borrow(x), {kSamples, 784}}, {"y", borrow(y)}}).batch(128);
  Model net = sequential(
      {layers::dense(512, {.activation = "relu"}), layers::dense(512, {.activation = "relu"}), layers::dense(10)});
  net.compile({.optimiser = Optimiser::adam(1e-3), .loss = "sparse_cross_entropy"});
  net.fit(train, line, {.epochs = 1});
  double began = seconds();
  net.fit(train, line, {.epochs = 3});
  std::printf("fit %.6f\n", (seconds() - began) / 3);

  const Eager eager(line);
  const Tensor one = full({16}, 1);
  constexpr int kCalls = 20'000;
  double best = 1;
  for (int round = 0; round < 5; ++round) {
    began = seconds();
    for (int i = 0; i < kCalls; ++i) {
      const Tensor made = relu(one);
    }
    best = std::min(best, (seconds() - began) / kCalls);
  }
  std::printf("call %.9f\n", best);
}

// Layers on ranks: each process that mpirun starts has the weights, gradients and optimiser state of some layers,
// inside a line that the whole net does not fit into. Started without mpirun, the program shows that one process is
// refused under that line.
//
//   mpirun -n 2 17_pipeline
#include <cmath>
#include <utility>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kSamples = 1024, kFeatures = 64, kWidth = 1600;

// Which of four quarters of the plane a point lies in, told by the first two of its numbers.
Dataset make_data() {
  std::vector<float> x(kSamples * kFeatures);
  std::vector<int32_t> y(kSamples);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 1009));
  for (size_t i = 0; i < y.size(); ++i) y[i] = (x[i * kFeatures] > 0 ? 1 : 0) + (x[i * kFeatures + 1] > 0 ? 2 : 0);
  return Dataset::slices({{"x", std::move(x), {kSamples, kFeatures}}, {"y", std::move(y)}}).batch(64, true);
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("86MiB");
  const Dataset data = make_data();
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  const bool is_rank = size != nullptr && std::string(size) != "1";

  Model net = sequential({layers::dense(kWidth, {.activation = "relu"}, "first"),
                          layers::dense(kWidth, {.activation = "relu"}, "middle"),
                          layers::dense(kWidth, {.activation = "relu"}, "second"), layers::dense(4, {}, "last")});
  net.compile({.optimiser = Optimiser::adam(1e-3), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});

  // The first rank has "first" and "middle", the next one "second" and "last".
  FitOptions options{.epochs = 4};
  if (is_rank) options.strategy = Strategy::pipeline({"second"}, 4);
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  try {
    const Forecast forecast = net.plan(data, line, options);
    const example::Stopwatch time;
    const History history = net.fit(data, line, options);
    std::printf("rank %s: %zu epochs in %.1f s, loss %.4f after %.4f\n", rank == nullptr ? "-" : rank,
                history.epochs.size(), time.seconds(), history["loss"].back(), history["loss"].front());
    return history["loss"].back() < history["loss"].front() ? example::report(line, forecast.peak()) : 1;
  } catch (const DoesNotFit& e) {
    std::printf("%s\n", e.what());
    return is_rank ? 1 : 0;  // one process alone has to be refused
  }
}

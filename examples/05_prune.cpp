// Prunes from 50 % to 80 % between steps 1000 and 10000, strips, and compares size and accuracy.
//
//   05_prune [SAMPLES [SCALE]]    steps of the schedule and epochs are divided by SCALE
#include "example.h"

using namespace plimsoll;

int main(int argc, char** argv) {
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 60'000;
  const int64_t scale = argc > 2 ? std::atoll(argv[2]) : 1;
  const std::string data = "/usr/share/datasets/fashion-mnist/";  // of the Debian package dataset-fashion-mnist
  MemoryLine line = MemoryLine::process("64MiB");

  const auto half = [&](const std::string& name) {
    return Dataset::files(data + name + "-images-idx3-ubyte.gz", data + name + "-labels-idx1-ubyte.gz");
  };
  const Dataset train = half("train").take(samples).shuffle({.seed = 1}).batch(60), test = half("t10k").batch(100);

  Model net = sequential({[](Tensor x, bool) {
                            return reshape(x * (1 / 255.0), {Dim::batch(), 784});
                          },
                          layers::dense(512, {.activation = "relu"}), layers::dense(512, {.activation = "relu"}),
                          layers::dense(10)});
  net.compile({.optimiser = Optimiser::adam(1e-3), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  const int64_t steps_per_epoch = (samples + 59) / 60;
  const auto epochs_of = [&](int64_t steps) { return (steps / scale + steps_per_epoch - 1) / steps_per_epoch; };
  net.fit(train, line, {.epochs = epochs_of(5000)});
  const double before = net.evaluate(test, line)["accuracy"];

  net.prune({.from = 0.5,
             .to = 0.8,
             .begin = 1000 / scale,
             .end = 10'000 / scale,
             .frequency = std::max<int64_t>(1, 100 / scale)});
  const FitOptions options{.epochs = epochs_of(11'000)};
  const Forecast forecast = net.plan(train, line, options);
  net.fit(train, line, options);
  const double pruned = net.evaluate(test, line)["accuracy"];

  StripReport report;
  Model small = net.strip({}, &report);
  net.release();
  const double stripped = small.evaluate(test, line)["accuracy"];
  std::fputs(to_string(report).c_str(), stdout);
  std::printf("accuracy: trained %.2f %%, pruned %.2f %%, stripped %.2f %%\n", 100 * before, 100 * pruned,
              100 * stripped);
  const bool is_small = 4 * small.bytes().memory <= net.bytes().memory && 4 * small.bytes().file <= net.bytes().file;
  if (!is_small || stripped != pruned || pruned < before - 0.01) return 1;
  return example::report(line, forecast.peak());
}

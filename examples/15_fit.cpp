// `fit` for 10 epochs with 4 workers on Fashion-MNIST, with callbacks and a table of what each layer holds.
//
//   15_fit [SAMPLES]
#include <algorithm>

#include "example.h"

using namespace plimsoll;

int main(int argc, char** argv) {
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 60'000;
  const std::string data = "/usr/share/datasets/fashion-mnist/";  // of the Debian package dataset-fashion-mnist
  MemoryLine line = MemoryLine::process("48MiB");
  const example::Folder folder;

  const auto half = [&](const std::string& name) {
    return Dataset::files(data + name + "-images-idx3-ubyte.gz", data + name + "-labels-idx1-ubyte.gz");
  };
  const Dataset train = half("train").take(samples).shuffle({.seed = 1}).batch(128), test = half("t10k").batch(128);

  // Bytes come in; the first layer makes numbers in [0, 1] of them.
  Model net = sequential({[](Tensor x, bool) {
                            return reshape(x * (1 / 255.0), {Dim::batch(), 1, 28, 28});
                          },
                          layers::conv2d(16, 3, {.activation = "relu"}), layers::max_pool(2),
                          layers::conv2d(32, 3, {.activation = "relu"}), layers::max_pool(2), layers::flatten(),
                          layers::dropout(0.3), layers::dense(10)});
  net.compile({.optimiser = Optimiser::adam(2e-3), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  std::fputs(net.summary(train, line).c_str(), stdout);

  const FitOptions options{
      .epochs = 10,
      .validation = test,
      .workers = 4,
      .callbacks = {checkpoint(folder / "checkpoints"), csv_log(folder / "metrics.csv"), event_files(folder / "events"),
                    early_stopping({.patience = 3, .restore_best_weights = true})},
      .verbose = true};
  const Forecast forecast = net.plan(train, line, options);
  const example::Stopwatch time;
  const History history = net.fit(train, line, options);
  std::printf("%zu epochs in %.1f s, best accuracy %.2f %%\n", history.epochs.size(), time.seconds(),
              100 * std::ranges::max(history["val_accuracy"]));
  return history["val_accuracy"].back() > 0.7 ? example::report(line, forecast.peak()) : 1;
}

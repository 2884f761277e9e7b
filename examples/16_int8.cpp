// Trains a small network on Fashion-MNIST, makes a model of 8 bits of it, and predicts with that in a process of its
// own under a smaller line.
//
//   16_int8 [SAMPLES]
#include <string>

#include "example.h"

using namespace plimsoll;

namespace {

Dataset half(const std::string& name) {
  const std::string data = "/usr/share/datasets/fashion-mnist/";  // of the Debian package dataset-fashion-mnist
  return Dataset::files(data + name + "-images-idx3-ubyte.gz", data + name + "-labels-idx1-ubyte.gz");
}

Model make_net() {
  // Bytes come in; the first layer makes numbers in [0, 1] of them.
  return sequential({[](Tensor x, bool) {
                       return reshape(x * (1 / 255.0), {Dim::batch(), 1, 28, 28});
                     },
                     layers::conv2d(16, 3, {.activation = "relu"}), layers::max_pool(2),
                     layers::conv2d(32, 3, {.activation = "relu"}), layers::max_pool(2), layers::flatten(),
                     layers::dense(128, {.activation = "relu"}), layers::dense(10)},
                    "fashion");
}

int predict(const std::string& path) {
  MemoryLine line = MemoryLine::process("12MiB");
  Model net = Model::load(path);
  const example::Stopwatch time;
  int64_t samples = 0;
  net.predict(half("t10k").batch(32), line, {.sink = [&](const Results&, int64_t batch) { samples += batch; }});
  std::printf("%lld predictions in %.2f s\n", static_cast<long long>(samples), time.seconds());
  return example::report(line, line.used());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--predict") return predict(argv[2]);
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 60'000;
  MemoryLine line = MemoryLine::process("64MiB");
  const example::Folder folder;
  const Dataset train = half("train").take(samples).shuffle({.seed = 1}).batch(128), test = half("t10k").batch(128);

  Model net = make_net();
  net.compile({.optimiser = Optimiser::adam(2e-3), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  const FitOptions options{.epochs = 4};
  const Forecast forecast = net.plan(train, line, options);
  net.fit(train, line, options);
  const double before = net.evaluate(test, line)["accuracy"];

  QuantiseReport report;
  Model small = net.quantise(half("train").take(512).batch(128), line, {.all = true, .scratch = folder / ""}, &report);
  const double after = small.evaluate(test, line)["accuracy"];
  std::printf("accuracy %.2f %% -> %.2f %%\n", 100 * before, 100 * after);
  std::printf("on disk %s -> %s, in memory %s -> %s\n", format_bytes(report.file_bytes_before).c_str(),
              format_bytes(report.file_bytes_after).c_str(), format_bytes(report.memory_bytes_before).c_str(),
              format_bytes(report.memory_bytes_after).c_str());
  small.save(folder / "small.plimsoll");
  small.release();
  const int failed = example::report(line, forecast.peak());

  const std::string command = std::string(argv[0]) + " --predict " + (folder / "small.plimsoll");
  std::fflush(stdout);
  return failed != 0 || before - after > 0.01 || std::system(command.c_str()) != 0 ? 1 : 0;
}

// fit with every callback, evaluate and predict inside a line: fit_line BYTES FOLDER. One that does not fit prints the
// smallest line that works.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string folder = argv[2];
  MemoryLine line = MemoryLine::process(std::atoll(argv[1]));
  std::vector<float> images(300 * 784);
  std::vector<int32_t> labels(300);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 37 % 101) / 101;
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 10);
  const Dataset samples = Dataset::slices({{"x", std::move(images), {300, 1, 28, 28}}, {"y", std::move(labels)}});
  const Dataset train = samples.shuffle().batch(64), test = samples.take(100).batch(64);

  Model net = sequential({layers::conv2d(16, 3, {.activation = "relu"}), layers::max_pool(2), layers::flatten(),
                          layers::dense(512, {.activation = "relu"}), layers::dense(10)});
  net.compile({.optimiser = Optimiser::adam(), .loss = "sparse_cross_entropy", .metrics = {"accuracy", "top_3"}});
  const FitOptions options{
      .epochs = 5,
      .validation = test,
      .workers = 2,
      .callbacks = {checkpoint(folder + "/checkpoints"), csv_log(folder + "/metrics.csv"),
                    json_log(folder + "/metrics.jsonl"), event_files(folder + "/events", {.histogram_epochs = 1}),
                    early_stopping({.patience = 5, .restore_best_weights = true}), reduce_on_plateau()}};
  const Forecast forecast = net.plan(train, line, options);
  if (!forecast.fits()) {
    std::printf("%lld", static_cast<long long>(forecast.smallest_line()));
    return 3;
  }
  net.fit(train, line, options);
  net.evaluate(test, line);
  net.predict(test, line, {.npy = folder + "/answers.npy"});
  return peak_resident_bytes() <= line.limit() ? 0 : 1;
}

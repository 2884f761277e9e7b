// Compiles, plans, fits, evaluates and predicts with a line for the whole process, from outside the source tree.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

int main() {
  MemoryLine line = MemoryLine::process("32MiB");

  // Points of the plane in three classes, by their angle.
  std::vector<float> points(2 * 3000);
  std::vector<int32_t> classes(3000);
  for (size_t i = 0; i < classes.size(); ++i) {
    const double angle = std::fmod(static_cast<double>(i) * 2.399963, 6.2831853);
    points[2 * i] = static_cast<float>(std::cos(angle));
    points[2 * i + 1] = static_cast<float>(std::sin(angle));
    classes[i] = static_cast<int32_t>(angle / 2.0943952);
  }
  const Dataset samples = Dataset::slices({{"x", std::move(points), {3000, 2}}, {"y", std::move(classes)}});
  const Dataset train = samples.take(2500).shuffle().batch(32), test = samples.skip(2500).batch(32);

  Model net = sequential({layers::dense(32, {.activation = "relu"}), layers::dense(3)});
  net.compile({.optimiser = Optimiser::adam(1e-2), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  const Forecast forecast = net.plan(train, line);  // takes no memory for tensors; not fitting is an answer
  if (!forecast.fits())
    for (const Remedy& remedy : forecast.remedies()) std::printf("%s\n", remedy.text().c_str());
  const History history = net.fit(train, line,
                                  {.epochs = 20,
                                   .validation = test,
                                   .workers = 2,
                                   .callbacks = {early_stopping({.patience = 3, .restore_best_weights = true})}});
  const Evaluation score = net.evaluate(test, line);
  const Prediction answers = net.predict(test, line);  // 500 rows of 3 logits
  const bool learned = history["loss"].back() < 0.3 && score["accuracy"] > 0.95 && answers.dims == Dims{500, 3};
  const bool kept = forecast.peak() <= line.limit() && peak_resident_bytes() <= line.limit();
  std::puts(learned && kept ? "learned inside the line" : "did not");
}

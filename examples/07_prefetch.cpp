// A slow map function beside the steps: with AUTOTUNE the number of threads and of batches read ahead is found while it
// runs.
#include <cmath>
#include <numeric>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kRows = 20'000, kColumns = 64, kBatch = 64;

// Takes about as long as decoding a small image.
void make_features(const ElementView& from, const ElementSlot& to) {
  const auto number = static_cast<double>(from.as<int64_t>("value")[0]);
  const std::span<float> x = to.as<float>("x");
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double value = number / static_cast<double>(i + 1);
    for (int k = 0; k < 8; ++k) value = std::sin(value + k);
    x[i] = static_cast<float>(value);
    sum += value;
  }
  to.as<int32_t>("y")[0] = sum > 0 ? 1 : 0;
}

double train(MemoryLine& line, int threads, int ahead, Bytes& planned) {
  Dataset rows =
      Dataset::range(kRows).map({{"x", DType::F32, {kColumns}}, {"y", DType::I32, {}}}, make_features, threads);
  rows = rows.batch(kBatch, true);
  if (ahead != 0) rows = rows.prefetch(ahead);
  Iteration batches = rows.on(line);

  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kColumns});
  const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
  const Tensor loss = sparse_cross_entropy(layers::dense(layers::dense(x, 256, {.activation = "relu"}), 2), y);
  Session session(graph, line, {.reads_feeds_in_place = true});
  Step step = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::sgd(0.1)), .batch = kBatch});
  session.open();
  const example::Stopwatch time;
  for (const ElementView& batch : batches) step({batch.feed(x, "x"), batch.feed(y, "y")});
  const double seconds = time.seconds();
  std::printf("%.2f s with\n", seconds);
  for (const StageReport& stage : batches.stages())
    std::printf("  %-24s %10s  %d threads\n", stage.name.c_str(), format_bytes(stage.bytes).c_str(), stage.threads);
  planned = std::max(planned, session.peak_bytes() + batches.bytes());
  return seconds;
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("32MiB");
  Bytes planned = 0;
  const double alone = train(line, 1, 0, planned), ahead = train(line, AUTOTUNE, AUTOTUNE, planned);
  std::printf("read ahead: %.2f times as fast\n", alone / ahead);
  return example::report(line, planned);
}

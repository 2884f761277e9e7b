// 20,000 rows at once against batches of 64: memory and time of each.
#include <utility>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kRows = 20'000, kColumns = 100;

Bytes train(MemoryLine& line, Dataset rows, int64_t batch) {
  Iteration batches = rows.batch(batch).on(line);
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kColumns});
  const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
  Tensor h = layers::dense(x, 256, {.activation = "relu"});
  h = layers::dense(h, 256, {.activation = "relu"});
  const Tensor loss = sparse_cross_entropy(layers::dense(h, 2), y);
  Session session(graph, line, {.reads_feeds_in_place = true});
  Step step = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::sgd(0.1)), .batch = batch});
  session.open();
  const example::Stopwatch time;
  float last = 0;
  for (const ElementView& element : batches) last = step({element.feed(x, "x"), element.feed(y, "y")})[0].item<float>();
  const Bytes planned = session.peak_bytes() + batches.bytes();
  std::printf("batches of %5ld: %.2f s an epoch, loss %.3f, planned %s, measured %s\n", batch, time.seconds(), last,
              format_bytes(planned).c_str(), format_bytes(peak_resident_bytes()).c_str());
  return planned;
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("128MiB");
  std::vector<float> x(kRows * kColumns);
  std::vector<int32_t> y(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<uint32_t>(i) * 2654435761U) * 0x1p-32F;
  for (size_t r = 0; r < y.size(); ++r) y[r] = x[r * kColumns] > 0.5F ? 1 : 0;
  const Dataset rows = Dataset::slices({{"x", std::move(x), {kRows, kColumns}}, {"y", std::move(y)}});
  const Bytes few = train(line, rows, 64), all = train(line, rows, kRows);
  return example::report(line, std::max(few, all));
}

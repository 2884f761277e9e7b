// Trains from batches of 64 that are fed to a session.
#include <span>
#include <vector>

#include "example.h"

using namespace plimsoll;

int main() {
  constexpr size_t kRows = 10'000, kColumns = 64, kBatch = 64;
  MemoryLine line = MemoryLine::process("32MiB");
  // Numbers in [0, 1), and which quarter of a row adds up to the most.
  std::vector<float> rows(kRows * kColumns);
  std::vector<int32_t> labels(kRows);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<float>(static_cast<uint32_t>(i * i + i) * 2654435761U) * 0x1p-32F;
  for (size_t r = 0; r < kRows; ++r) {
    float sums[4] = {};
    for (size_t c = 0; c < kColumns; ++c) sums[c / 16] += rows[r * kColumns + c];
    for (int32_t quarter = 1; quarter < 4; ++quarter)
      if (sums[quarter] > sums[labels[r]]) labels[r] = quarter;
  }

  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kColumns});
  const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
  const Tensor logits = layers::dense(layers::dense(x, 128, {.activation = "relu"}), 4);
  const Tensor loss = sparse_cross_entropy(logits, y);
  Session session(graph, line);
  Step train = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::adam(1e-2)), .batch = kBatch});
  std::fputs(train.forecast().text().c_str(), stdout);

  const example::Stopwatch time;
  float first = 0, mean = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    mean = 0;
    for (size_t begin = 0; begin < kRows; begin += kBatch) {
      const size_t count = std::min(kBatch, kRows - begin);  // the last batch of an epoch has 16 rows
      const float value = train({{x, std::span(rows).subspan(begin * kColumns, count * kColumns)},
                                 {y, std::span(labels).subspan(begin, count)}})[0]
                              .item<float>();
      mean += value * static_cast<float>(count) / kRows;
    }
    if (epoch == 0) first = mean;
  }
  const Bytes planned = session.peak_bytes();
  session.close();
  std::printf("loss %.4f -> %.4f in %.1f s; after close() the session holds %s of the line\n", first, mean,
              time.seconds(), format_bytes(line.used() - line.process_bytes()).c_str());
  return mean < first / 2 ? example::report(line, planned) : 1;
}

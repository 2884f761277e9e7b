// 100,000 x 100 numbers as one constant of the graph against a dataset in batches of 32: the memory of each.
#include <numeric>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kRows = 100'000, kColumns = 100, kBatch = 32;

// Numbers in [0, 1) that depend on their place alone.
float number_at(int64_t i) { return static_cast<float>(static_cast<uint32_t>(i) * 2654435761U) * 0x1p-32F; }

Tensor model(Tensor x) { return reduce_mean(layers::dense(layers::dense(x, 16, {.activation = "relu"}), 1)); }

Bytes train_on_constant(const MemoryLine& line) {
  Graph graph;
  std::vector<float> all(kRows * kColumns);
  for (int64_t i = 0; i < kRows * kColumns; ++i) all[static_cast<size_t>(i)] = number_at(i);
  const Tensor x = graph.constant(DType::F32, {kRows, kColumns}, std::as_bytes(std::span<const float>(all)), "x");
  all = {};
  const Tensor loss = model(x);
  Session session(graph, line);
  Step step = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::sgd(0.01))});
  for (int i = 0; i < 3; ++i) step(std::initializer_list<Feed>{});
  return session.peak_bytes() + graph.size_bytes();
}

Bytes train_on_dataset(MemoryLine& line) {
  const auto rows = [] {
    int64_t row = 0;
    return [row](const ElementSlot& to) mutable {
      if (row == kRows) return false;
      const std::span<float> x = to.as<float>("x");
      for (int64_t c = 0; c < kColumns; ++c) x[static_cast<size_t>(c)] = number_at(row * kColumns + c);
      ++row;
      return true;
    };
  };
  Iteration batches = Dataset::generator({{"x", DType::F32, {kColumns}}}, rows).batch(kBatch).prefetch(2).on(line);
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kColumns});
  const Tensor loss = model(x);
  Session session(graph, line, {.reads_feeds_in_place = true});
  Step step = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::sgd(0.01)), .batch = kBatch});
  for (const ElementView& batch : batches) step({batch.feed(x, "x")});
  return session.peak_bytes() + batches.bytes();
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("192MiB");
  const Bytes dataset = train_on_dataset(line);
  const Bytes measured = peak_resident_bytes();
  const Bytes constant = train_on_constant(line);
  std::printf("dataset: planned %s, measured %s\n", format_bytes(dataset).c_str(), format_bytes(measured).c_str());
  std::printf("constant: planned %s, measured %s\n", format_bytes(constant).c_str(),
              format_bytes(peak_resident_bytes()).c_str());
  return example::report(line, std::max(dataset, constant));
}

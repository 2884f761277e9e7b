// Sessions in a loop, each with a graph of its own and each closed: the memory of the process stays flat.
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

// A session that trains for a few steps; returns its planned peak.
Bytes train_once(const MemoryLine& line, int64_t width) {
  constexpr int64_t kBatch = 64, kColumns = 100;
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kColumns});
  const Tensor y = graph.placeholder<float>("y", {Dim::batch(), 1});
  const Tensor loss = mean_squared_error(layers::dense(layers::dense(x, width, {.activation = "relu"}), 1), y);
  Session session(graph, line);
  Step step = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::adam()), .batch = kBatch});
  const std::vector<float> rows(kBatch * kColumns, 0.5F), targets(kBatch, 1);
  for (int i = 0; i < 5; ++i) step({{x, rows}, {y, targets}});
  const Bytes planned = session.peak_bytes();
  session.close();  // every byte goes back to the line, and to the system
  return planned;
}

}  // namespace

int main() {
  constexpr int kSessions = 300, kFirst = 30;
  MemoryLine line = MemoryLine::process("48MiB");
  Bytes planned = 0, early = 0;
  for (int i = 0; i < kSessions; ++i) {
    planned = std::max(planned, train_once(line, 500 + i % 7 * 100));
    if (i + 1 == kFirst) early = resident_bytes();
  }
  const Bytes late = resident_bytes();
  std::printf("resident after %d sessions %s, after %d %s\n", kFirst, format_bytes(early).c_str(), kSessions,
              format_bytes(late).c_str());
  return late < early + MiB ? example::report(line, planned) : 1;
}

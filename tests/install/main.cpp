// Trains a small network with a line for the whole process, from outside the source tree.
#include <cmath>
#include <cstdio>
#include <vector>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

int main() {
  MemoryLine line = MemoryLine::process("24MiB");

  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 2});
  const Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  const Tensor hidden = layers::dense(x, 16, {.activation = "relu"});
  const Tensor loss = sparse_cross_entropy(layers::dense(hidden, 2), labels);
  const Updates updates = minimize(loss, Optimiser::adam(0.02));
  Session session(graph, line, {{{loss}, updates.nodes, 64}});

  // Is the point inside the circle?
  std::vector<float> points(128);
  std::vector<int32_t> inside(64);
  for (size_t i = 0; i < 64; ++i) {
    points[2 * i] = static_cast<float>(i % 8) / 4 - 1;
    points[2 * i + 1] = static_cast<float>(i / 8) / 4 - 1;
    inside[i] = std::hypot(points[2 * i], points[2 * i + 1]) < 0.6F ? 1 : 0;
  }
  const Feed feeds[] = {{x, points}, {labels, inside}};
  float first = 0;
  float last = 0;
  for (int step = 0; step < 300; ++step) {
    last = session.run_step(0, feeds)[0].floats()[0];
    if (step == 0) first = last;
  }
  const bool learned = last < first / 4, kept = peak_resident_bytes() <= line.limit();
  std::puts(learned && kept ? "learned inside the line" : "did not");
}

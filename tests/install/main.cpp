// Trains a small network under a line, from outside the source tree.
#include <cmath>
#include <cstdio>
#include <vector>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

int main() {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 2});
  const Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  const Tensor hidden = layers::dense(x, 16, {.activation = "relu"});
  const Tensor loss = sparse_cross_entropy(layers::dense(hidden, 2), labels);
  const Updates updates = minimize(loss, Optimiser::adam(0.02));

  MemoryLine line(4 * MiB);
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
  std::puts(last < first / 4 ? "learned inside the line" : "did not learn");
}

// Trains a small network with a line for the whole process, from outside the source tree.
#include <cmath>
#include <cstdio>
#include <vector>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

int main() {
  MemoryLine line = MemoryLine::process("24MiB");

  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 2});
  const Tensor labels = graph.placeholder<int32_t>("labels", {Dim::batch()});
  const Tensor hidden = layers::dense(x, 16, {.activation = "relu"});
  const Tensor loss = sparse_cross_entropy(layers::dense(hidden, 2), labels);
  Session session(graph, line);
  Step train = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::adam(0.02)), .batch = 64});

  // Is the point inside the circle?
  std::vector<float> points(128);
  std::vector<int32_t> inside(64);
  for (size_t i = 0; i < 64; ++i) {
    points[2 * i] = static_cast<float>(i % 8) / 4 - 1;
    points[2 * i + 1] = static_cast<float>(i / 8) / 4 - 1;
    inside[i] = std::hypot(points[2 * i], points[2 * i + 1]) < 0.6F ? 1 : 0;
  }
  const float first = train({{x, points}, {labels, inside}})[0].item<float>();
  float last = first;
  for (int step = 0; step < 300; ++step) last = train({{x, points}, {labels, inside}})[0].item<float>();
  const bool learned = last < first / 4, kept = peak_resident_bytes() <= line.limit();
  std::puts(learned && kept ? "learned inside the line" : "did not");
}

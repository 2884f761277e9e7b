// A network of one wide layer for the programs beside this file.
#pragma once

#include <cstdio>
#include <vector>

#include <plimsoll/plimsoll.h>

struct Net {
  plimsoll::Graph graph;
  plimsoll::Tensor x, y, loss;
  plimsoll::Updates updates;
  std::vector<float> rows = std::vector<float>(64 * 100, 0.5F), targets = std::vector<float>(64, 1.0F);

  explicit Net(int64_t width) {
    using namespace plimsoll;
    x = graph.placeholder("x", DType::F32, {Dim::batch(), 100});
    y = graph.placeholder("y", DType::F32, {Dim::batch(), 1});
    loss = mean_squared_error(layers::dense(layers::dense(x, width, {.activation = "relu"}), 1), y);
    updates = minimize(loss, Optimiser::adam(0.001));
  }
  plimsoll::Request step() const { return {{loss}, updates.nodes, 64}; }
  float run(plimsoll::Session& session) const {
    const plimsoll::Feed feeds[] = {{x, rows}, {y, targets}};
    return session.run_step(0, feeds)[0].floats()[0];
  }
};

// Ends the program with what went wrong.
inline int report(bool is_right, const char* what) {
  std::puts(is_right ? "right" : what);
  return is_right ? 0 : 1;
}

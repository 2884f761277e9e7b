// A network of one wide layer for the programs beside this file.
#pragma once

#include <cstdio>
#include <vector>

#include <plimsoll/plimsoll.h>
#include "base/bytes.h"

static_assert(kOwnBytes);

struct Net {
  plimsoll::Graph graph;
  plimsoll::Tensor x, y, loss;
  plimsoll::Updates updates;
  std::vector<float> rows = std::vector<float>(64 * 100, 0.5F), targets = std::vector<float>(64, 1.0F);

  explicit Net(int64_t width) {
    using namespace plimsoll;
    x = graph.placeholder<float>("x", {Dim::batch(), 100});
    y = graph.placeholder<float>("y", {Dim::batch(), 1});
    loss = mean_squared_error(layers::dense(layers::dense(x, width, {.activation = "relu"}), 1), y);
    updates = minimize(loss, Optimiser::adam(0.001));
  }
  plimsoll::StepSpec step() const { return {.fetch = {loss}, .update = updates, .batch = 64}; }
  float run(plimsoll::Step& step) const { return step({{x, rows}, {y, targets}})[0].item<float>(); }
};

// Prints what went wrong; the exit code of the program.
inline int report(bool is_right, const char* what) {
  std::puts(is_right ? "right" : what);
  return is_right ? 0 : 1;
}

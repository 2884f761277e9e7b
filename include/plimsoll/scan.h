// A function applied to the steps of a sequence, one after another, with a state that each hands to the next.
//
//   Tensor total = scan(x, zeros({64}), [](Tensor state, Tensor row) { return tanh(state + row); });
//
// The function is called once for each step while the graph is built, so that the steps are nodes of the graph as if
// they were written one by one: they have gradients, and a plan keeps or recomputes what they hold. Layers whose steps
// are all alike and many have operators of their own: lstm, gru, simple_rnn, cumsum, cumprod.
#pragma once

#include <functional>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

struct Scan {
  int axis = 0;          // along which the steps lie; it can't be the batch
  bool reverse = false;  // from the last step to the first; outputs stay at their places
};

// The last state. A step gets its state and its part of x, without that axis.
Tensor scan(const Tensor& x, const Tensor& state, const std::function<Tensor(Tensor state, Tensor step)>& function,
            const Scan& options = {});

// Several states, and an output of each step.
struct ScanStep {
  std::vector<Tensor> state;
  Tensor output = {};  // set in all steps or in none
};
struct ScanResult {
  std::vector<Tensor> state;
  Tensor outputs = {};  // stacked along the axis
};
ScanResult scan_steps(const Tensor& x, std::vector<Tensor> state,
                      const std::function<ScanStep(const std::vector<Tensor>& state, Tensor step)>& function,
                      const Scan& options = {});

}  // namespace plimsoll

// What the planner may do to make a step fit.
#pragma once

namespace plimsoll {

// Each can be switched off. All keep results bit-identical but micro_batch, which adds gradients in another order.
struct Levers {
  bool order = true;        // run tasks in the order with the lowest peak
  bool in_place = true;     // write a result over an input that nothing reads any more
  bool variants = true;     // run a kernel in a form with less workspace
  bool recompute = true;    // drop a value and compute it again before its next use
  bool micro_batch = true;  // run the step on smaller batches one after another
  bool spill = true;        // keep weights, optimiser state or values in a scratch file
  bool operator==(const Levers&) const = default;
};

}  // namespace plimsoll

// The predicted time of a task, from the cost that its operator states and the speed of the machine.
#pragma once

#include "kernels/kernel.h"

namespace plimsoll::lower {

// The defaults were measured on a 2-core machine with AVX2. Plans use them on every machine, so that the same line
// gives the same plan.
struct MachineSpeed {
  double flops_per_s = 180e9;  // the best matrix product
  double bytes_per_s = 28e9;   // read and written by a plain copy
  double cache_bytes = 16e6;   // tasks that move no more than this run from the caches
  double cache_bytes_per_s = 50e9;
  double task_ns = 2000;  // each kernel's start, threads woken included
};

// The operator's cost; its bytes default to those of all operands.
graph::Cost cost_of(const graph::Op& op, const kernels::Facts& facts);
graph::Cost cost_of_reorder(Bytes from, Bytes to);

double predict_ns(const graph::Cost& cost, const MachineSpeed& speed);

struct LinearTime {
  double fixed_ns = 0, per_sample_ns = 0;
};

// The straight line through the times of two batches, `fewer` <= `samples`. The fixed time, such as reading the
// weights, is paid again by every micro-batch.
LinearTime line_through(int64_t samples, double ns, int64_t fewer, double fewer_ns);

}  // namespace plimsoll::lower

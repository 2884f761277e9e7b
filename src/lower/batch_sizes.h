// How many samples a step and its micro-batches have, and the types of a draft's values at these sizes.
#pragma once

#include "kernels/kernel.h"
#include "lower/draft.h"

namespace plimsoll::lower {

class BatchSizes {
 public:
  // `micro_batch`: its samples; 0 when the step runs on the whole batch at once.
  BatchSizes(const Draft& draft, int64_t batch, int64_t micro_batch);

  int64_t batch() const { return batch_; }
  int64_t samples() const { return samples_; }            // of one run: a micro-batch or the whole batch
  int64_t last_samples() const { return last_samples_; }  // of the last micro-batch when it is smaller; else 0
  bool in_micro_batches() const { return in_micro_batches_; }

  // Whether the bytes of the value grow with the batch.
  bool is_batched(ValueId value) const;
  // Whether samples are outermost in the value, so that the rows of micro-batches follow each other.
  bool has_whole_samples(ValueId value) const;
  // Row-major, at `samples`.
  kernels::ConcreteType type_at(ValueId value, int64_t samples) const;
  kernels::ConcreteType type(ValueId value) const { return type_at(value, samples_); }

  // The same type or layout in the smaller last micro-batch.
  kernels::ConcreteType in_last(ValueId value, kernels::ConcreteType type) const;
  kernels::Layout in_last(ValueId value, const kernels::Layout& layout) const;

 private:
  const Draft& draft_;
  const int64_t batch_, samples_, last_samples_;
  const bool in_micro_batches_;
};

}  // namespace plimsoll::lower

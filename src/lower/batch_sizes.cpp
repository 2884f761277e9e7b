#include "lower/batch_sizes.h"

#include "graph/countable.h"
#include "graph/shape.h"

namespace plimsoll::lower {

BatchSizes::BatchSizes(const Draft& draft, int64_t batch, int64_t micro_batch)
    : draft_(draft),
      batch_(batch),
      samples_(micro_batch > 0 ? micro_batch : batch),
      last_samples_(batch % samples_),
      in_micro_batches_(micro_batch > 0) {
  for (const DraftNode& node : draft.nodes)
    for (const std::vector<ValueId>* values : {&node.in, &node.out})
      for (const ValueId value : *values) graph::expect_countable(draft.type(value).shape, batch);
}

bool BatchSizes::is_batched(ValueId value) const { return element_count(draft_.type(value).shape).is_batch(); }

bool BatchSizes::has_whole_samples(ValueId value) const {
  return !is_batched(value) || graph::elements_before_batch(draft_.type(value).shape) == 1;
}

kernels::ConcreteType BatchSizes::type_at(ValueId value, int64_t samples) const {
  const TensorType& type = draft_.type(value);
  return {type.dtype, at_batch(type.shape, samples), {}, false};
}

kernels::ConcreteType BatchSizes::in_last(ValueId value, kernels::ConcreteType type) const {
  type.dims = type_at(value, last_samples_).dims;
  type.layout = in_last(value, type.layout);
  return type;
}

kernels::Layout BatchSizes::in_last(ValueId value, const kernels::Layout& layout) const {
  return is_batched(value) ? layout.with_samples(type_at(value, last_samples_).dims[0]) : layout;
}

}  // namespace plimsoll::lower

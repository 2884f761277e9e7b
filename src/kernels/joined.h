// Parts that lie side by side along one axis of a whole: what concat, split and slice have in common.
#pragma once

#include <span>

#include "kernels/image_order.h"
#include "kernels/strided_copy.h"

namespace plimsoll::kernels {

// The order of whole and parts in which joining copies contiguous runs: blocked channels if every part is made of whole
// blocks and the axis is not a pixel axis, else the plain order.
ImageOrder joined_order(const ConcreteType& given, const Dims& whole, std::span<const ConcreteType> parts,
                        int64_t axis);

// Copies between the whole and a part that starts at `first` along `axis`, every `step`th element.
StridedCopy part_to_whole(Bytes element_bytes, const Dims& part, const Dims& whole, int64_t axis, int64_t first,
                          int64_t step = 1);
StridedCopy whole_to_part(Bytes element_bytes, const Dims& part, const Dims& whole, int64_t axis, int64_t first,
                          int64_t step = 1);

// An axis that may count from the end; throws Error.
int resolve_axis(std::string_view op, std::string_view name, int axis, const TensorType& type);

}  // namespace plimsoll::kernels

#include "kernels/joined.h"

#include <fmt/format.h>

namespace plimsoll::kernels {

ImageOrder joined_order(const ConcreteType& given, const Dims& whole, std::span<const ConcreteType> parts,
                        int64_t axis) {
  if (given.layout.is_plain() || given.dims.rank() < 2) return {};
  const ImageOrder order(given.layout, given.dims);
  if (!order.is_known() || axis > 1 || whole[1] % order.block() != 0) return {};
  for (const ConcreteType& part : parts)
    if (part.dims[1] % order.block() != 0) return {};
  return order;
}

namespace {

// Row-major strides serve blocked orders too: joined_order takes these only where parts are whole blocks of channels.
StridedCopy between(Bytes element_bytes, const Dims& part, const Dims& whole, int64_t axis, int64_t first, int64_t step,
                    bool into_whole) {
  const Dims part_strides = strides_of(part);
  const Dims whole_strides = strides_of(whole);
  StridedCopy copy(element_bytes);
  for (int i = 0; i < part.rank(); ++i) {
    const int64_t in_whole = whole_strides[i] * (i == axis ? step : 1);
    copy.add(part[i], into_whole ? part_strides[i] : in_whole, into_whole ? in_whole : part_strides[i]);
  }
  const int64_t start = first * whole_strides[static_cast<int>(axis)];
  copy.start_at(into_whole ? 0 : start, into_whole ? start : 0);
  copy.finish();
  return copy;
}

}  // namespace

StridedCopy part_to_whole(Bytes element_bytes, const Dims& part, const Dims& whole, int64_t axis, int64_t first,
                          int64_t step) {
  return between(element_bytes, part, whole, axis, first, step, true);
}

StridedCopy whole_to_part(Bytes element_bytes, const Dims& part, const Dims& whole, int64_t axis, int64_t first,
                          int64_t step) {
  return between(element_bytes, part, whole, axis, first, step, false);
}

int resolve_axis(std::string_view op, std::string_view name, int axis, const TensorType& type) {
  const int rank = type.shape.rank();
  if (axis < -rank || axis >= rank)
    throw Error(fmt::format("{} '{}': axis {} is outside {}", op, name, axis, to_string(type)));
  return axis < 0 ? axis + rank : axis;
}

}  // namespace plimsoll::kernels

// Pools over whole axes, and over as many windows as asked for.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"
#include "model/layers/parts.h"

namespace plimsoll::layers {
namespace {

Dims spatial_axes(int count) {
  Dims axes;
  for (int i = 0; i < count; ++i) axes.push_back(2 + i);
  return axes;
}

// Window i of n over a length L covers [floor(i L / n), ceil((i + 1) L / n)), as in PyTorch.
Tensor adapt_axis(Tensor x, int axis, int64_t outputs, Tensor (*join)(Tensor x, Dims axes, bool keep, Name name)) {
  const int64_t length = x.dim(axis).fixed();
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t first = i * length / outputs, last = ((i + 1) * length + outputs - 1) / outputs;
    parts.push_back(join(slice(x, axis, first, last - first), {axis}, true, {}));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, axis);
}

Tensor adapt_pool(Tensor x, const Dims& given, std::string_view kind, std::string_view name,
                  Tensor (*join)(Tensor x, Dims axes, bool keep, Name name)) {
  const int axes = model::expect_spatial(x, kind, name);
  const Dims size = model::numbers_for(given, axes, 1, "the sizes", kind, name);
  for (int i = 0; i < axes; ++i) {
    const int64_t length = x.dim(2 + i).fixed();
    model::expect_positive(size[i], "a size", kind, name);
    if (size[i] > length)
      model::fail_layer(kind, name,
                        fmt::format("axis {} of {} has fewer than {} elements", 2 + i, to_string(x.type()), size[i]));
    if (size[i] != length) x = adapt_axis(x, 2 + i, size[i], join);
  }
  return x;
}

}  // namespace

Tensor global_average_pool(Tensor x, Name name) {
  const graph::Caller caller(name.where());
  const int axes = model::expect_spatial(x, "global_average_pool", name);
  if (axes == 2) return plimsoll::flatten(plimsoll::global_average_pool(x, name));
  return reduce_mean(x, spatial_axes(axes), false, name);
}

Tensor global_max_pool(Tensor x, Name name) {
  const graph::Caller caller(name.where());
  const int axes = model::expect_spatial(x, "global_max_pool", name);
  if (axes == 2) return plimsoll::flatten(plimsoll::global_max_pool(x, name));
  return reduce_max(x, spatial_axes(axes), false, name);
}

Tensor adaptive_average_pool(Tensor x, Dims size, Name name) {
  const graph::Caller caller(name.where());
  return adapt_pool(x, size, "adaptive_average_pool", name, ops::reduce_mean);
}
Tensor adaptive_max_pool(Tensor x, Dims size, Name name) {
  const graph::Caller caller(name.where());
  return adapt_pool(x, size, "adaptive_max_pool", name, ops::reduce_max);
}

}  // namespace plimsoll::layers

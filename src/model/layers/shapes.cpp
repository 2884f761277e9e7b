// Layers that move elements, cut and enlarge.
#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"
#include "model/layers/parts.h"

namespace plimsoll::layers {
namespace {

// Behind batch and channels.
Dims behind_channels(const Dims& numbers) {
  Dims all{0, 0};
  for (const int64_t each : numbers) all.push_back(each);
  return all;
}

struct Borders {
  Dims before, after;
};

Borders borders_of(Tensor x, const Dims& before, const Dims& after, std::string_view kind, std::string_view name) {
  const int axes = model::expect_spatial(x, kind, name);
  Borders borders{model::numbers_for(before, axes, 0, "the numbers before", kind, name), {}};
  borders.after = after.empty() ? borders.before : model::numbers_for(after, axes, 0, "the numbers after", kind, name);
  for (const Dims& side : {borders.before, borders.after})
    for (const int64_t each : side)
      if (each < 0) model::fail_layer(kind, name, fmt::format("a border can't be {}", each));
  return borders;
}

}  // namespace

Tensor flatten(Tensor x, Name name) { return plimsoll::flatten(x, 1, name); }

Tensor reshape(Tensor x, Dims sizes, Name name) {
  const graph::Caller caller(name.where());
  Shape inside = x.shape();
  if (inside.rank() == 0) model::fail_layer("reshape", name, "a scalar has no batch");
  inside.erase(0);
  const int64_t all = element_count(inside).fixed();
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < sizes.rank(); ++i) {
    if (sizes[i] == -1 && open < 0) {
      open = i;
    } else {
      model::expect_positive(sizes[i], "a size", "reshape", name);
      known *= sizes[i];
    }
  }
  if (open >= 0) sizes[open] = all / known;
  Shape shape{x.dim(0)};
  for (const int64_t each : sizes) shape.push_back(each);
  if (open >= 0 ? all % known != 0 : all != known)
    model::fail_layer(
        "reshape", name,
        fmt::format("a sample of {} has {} elements, which is not {}", to_string(x.type()), all, to_string(sizes)));
  return plimsoll::reshape(x, shape, name);
}

Tensor permute(Tensor x, Dims order, Name name) {
  const graph::Caller caller(name.where());
  Dims all{0};
  for (const int64_t each : order) all.push_back(each);
  Dims sorted = all;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < sorted.rank(); ++i)
    if (sorted[i] != i || sorted.rank() != x.rank())
      model::fail_layer("permute", name,
                        fmt::format("{} is no order of the {} axes behind the batch of {}; count from 1",
                                    to_string(order), x.rank() - 1, to_string(x.type())));
  return transpose(x, all, name);
}

Tensor repeat_vector(Tensor x, int64_t times, Name name) {
  const graph::Caller caller(name.where());
  model::expect_positive(times, "the number of times", "repeat_vector", name);
  if (x.rank() != 2)
    model::fail_layer("repeat_vector", name,
                      fmt::format("input must be [batch, width] but is {}", to_string(x.type())));
  return broadcast_to(expand_dims(x, 1), {x.dim(0), times, x.dim(1)}, name);
}

Tensor up_sampling(Tensor x, Dims factors, std::string_view mode, Name name) {
  const graph::Caller caller(name.where());
  const int count = model::expect_spatial(x, "up_sampling", name);
  const Dims each = model::numbers_for(factors, count, 1, "the factors", "up_sampling", name);
  Dims axes, sizes;
  for (int i = 0; i < count; ++i) {
    model::expect_positive(each[i], "a factor", "up_sampling", name);
    axes.push_back(2 + i);
    sizes.push_back(each[i] * x.dim(2 + i).fixed());
  }
  if (mode != "nearest")
    return resample(x, axes, sizes, mode == "bilinear" ? "linear" : mode, "half_pixel", "round_prefer_floor", -0.75,
                    name);
  for (int i = 0; i < count; ++i)
    if (each[i] != 1) x = plimsoll::repeat(x, each[i], 2 + i);
  return x;
}

Tensor zero_padding(Tensor x, Dims before, Dims after, Name name) {
  const graph::Caller caller(name.where());
  const Borders borders = borders_of(x, before, after, "zero_padding", name);
  return pad(x, behind_channels(borders.before), behind_channels(borders.after), 0, name);
}

Tensor cropping(Tensor x, Dims before, Dims after, Name name) {
  const graph::Caller caller(name.where());
  const Borders borders = borders_of(x, before, after, "cropping", name);
  for (int i = 0; i < borders.before.rank(); ++i) {
    const int64_t size = x.dim(2 + i).fixed(), left = size - borders.before[i] - borders.after[i];
    if (left < 1)
      model::fail_layer("cropping", name, fmt::format("nothing is left of axis {} of {}", 2 + i, to_string(x.type())));
    if (left != size) x = slice(x, 2 + i, borders.before[i], left);
  }
  return x;
}

Tensor center_crop(Tensor x, Size size, Name name) {
  const graph::Caller caller(name.where());
  model::expect_axes(x, 2, "center_crop", name);
  const int64_t height = x.dim(2).fixed() - size.height, width = x.dim(3).fixed() - size.width;
  if (height < 0 || width < 0)
    model::fail_layer("center_crop", name,
                      fmt::format("{} has no middle of {} x {}", to_string(x.type()), size.height, size.width));
  return cropping(x, {height / 2, width / 2}, {height - height / 2, width - width / 2}, name);
}

Tensor resizing(Tensor x, Size size, std::string_view mode, Name name) {
  const graph::Caller caller(name.where());
  model::expect_axes(x, 2, "resizing", name);
  return resize(x, {size.height, size.width}, mode, name);
}

Tensor identity(Tensor x, Name) { return x; }

Layer time_distributed(Layer layer) {
  return [layer = std::move(layer)](Tensor x, bool training) {
    if (x.rank() < 3)
      throw Error(
          fmt::format("time_distributed: input must be [batch, positions, ...] but is {}", to_string(x.type())));
    const Dim batch = x.dim(0), positions = x.dim(1);
    const auto fold = [](Tensor of, std::initializer_list<Dim> first, int skipped) {
      Shape shape(first);
      const Shape was = of.shape();
      for (int i = skipped; i < was.rank(); ++i) shape.push_back(was[i]);
      return plimsoll::reshape(of, shape);
    };
    return fold(layer(fold(x, {batch * positions}, 2), training), {batch, positions}, 1);
  };
}

}  // namespace plimsoll::layers

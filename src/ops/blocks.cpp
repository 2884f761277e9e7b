// stack, unstack, depth_to_space, space_to_depth: composed of joins, cuts and transposes.
#include <fmt/format.h>

#include "kernels/joined.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

std::vector<Sample> samples_stack() {
  const auto along = [](const char* name, int axis) {
    return Sample{name, [=](SampleBuilder& s) {
                    return std::vector{stack({s.input({Dim::batch(), 5}), s.input({Dim::batch(), 5})}, axis)};
                  }};
  };
  return {along("middle", 1), along("last", -1)};
}

std::vector<Sample> samples_unstack() {
  return {{"middle",
           [](SampleBuilder& s) {
             return unstack(s.input({Dim::batch(), 3, 5}), 1);
           }},
          {"many", [](SampleBuilder& s) {
             return unstack(s.input({Dim::batch(), 10}), -1);
           }}};
}

template <Tensor (*function)(Tensor, int64_t, bool, Name), int channels, int height>
std::vector<Sample> samples_of_blocks() {
  return {{"depth first",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), channels, height, height + 2}), 2, false, {})};
           }},
          {"by columns", [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), channels, height, height + 2}), 2, true, {})};
           }}};
}

const Op kComposed[] = {{.name = "stack", .samples = samples_stack},
                        {.name = "unstack", .samples = samples_unstack},
                        {.name = "depth_to_space", .samples = samples_of_blocks<depth_to_space, 8, 2>},
                        {.name = "space_to_depth", .samples = samples_of_blocks<space_to_depth, 2, 4>}};

void expect_image(std::string_view function, Tensor x, int64_t block, bool fits, Name name) {
  if (x.rank() != 4 || block < 1 || !fits)
    throw Error(fmt::format("{} '{}': {} can't be divided into blocks of {} x {}", function, std::string_view(name),
                            to_string(x.type()), block, block));
}

bool divides(Tensor x, int axis, int64_t block) {
  return block > 0 && x.rank() == 4 && !x.dim(axis).is_batch() && x.dim(axis).fixed() % block == 0;
}

}  // namespace

Tensor stack(std::vector<Tensor> parts, int axis, Name name) {
  if (parts.empty()) throw Error(fmt::format("stack '{}': there are no tensors", std::string_view(name)));
  const int at = axis < 0 ? axis + parts[0].rank() + 1 : axis;
  for (Tensor& part : parts) part = expand_dims(part, at);
  return concat(parts, at, name);
}

std::vector<Tensor> unstack(Tensor x, int axis, Name name) {
  const int at = resolve_axis("unstack", name, axis, x.type());
  const int64_t count = x.dim(at).fixed();
  std::vector<Tensor> parts;
  if (count > 1 && count <= kMaxRank) {
    parts = split(x, Dims::filled(static_cast<int>(count), 1), at, name);
  } else {
    for (int64_t i = 0; i < count; ++i) parts.push_back(slice(x, at, i, 1));
  }
  for (Tensor& part : parts) part = squeeze(part, at);
  return parts;
}

Tensor depth_to_space(Tensor x, int64_t block, bool by_columns, Name name) {
  expect_image("depth_to_space", x, block, divides(x, 1, block * block), name);
  const Shape s = x.shape();
  const Dim depth = s[1] / (block * block);
  if (by_columns) {
    x = transpose(reshape(x, {s[0], depth, block, block, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  } else {
    x = transpose(reshape(x, {s[0], block, block, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  }
  return reshape(x, {s[0], depth, s[2] * block, s[3] * block}, name);
}

Tensor space_to_depth(Tensor x, int64_t block, bool by_columns, Name name) {
  expect_image("space_to_depth", x, block, divides(x, 2, block) && divides(x, 3, block), name);
  const Shape s = x.shape();
  const Dim height = s[2] / block, width = s[3] / block;
  x = reshape(x, {s[0], s[1], height, block, width, block});
  x = transpose(x, by_columns ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4});
  return reshape(x, {s[0], s[1] * block * block, height, width}, name);
}

OpList blocks_ops() {
  OpList all;
  for (const Op& op : kComposed) all.push_back(&op);
  return all;
}

}  // namespace plimsoll::ops

// Layers of elements: noise, masks, numbers into classes; and those of several tensors.
#include <cmath>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"
#include "model/layers/parts.h"

namespace plimsoll::layers {
namespace {

void expect_rate(double rate, std::string_view kind, std::string_view name) {
  if (!(rate >= 0 && rate < 1))
    model::fail_layer(kind, name, fmt::format("the rate must be at least 0 and below 1 but is {}", rate));
}

// Numbers as a constant that broadcasts over the last dimension.
Tensor as_constant(Graph& graph, const std::vector<double>& numbers) {
  const std::vector<float> floats(numbers.begin(), numbers.end());
  return graph.constant(DType::F32, {static_cast<int64_t>(floats.size())}, std::as_bytes(std::span(floats)));
}

void expect_parts(const std::vector<Tensor>& parts, size_t least, std::string_view kind, std::string_view name) {
  if (parts.size() < least)
    model::fail_layer(kind, name, fmt::format("it takes at least {} tensors but has {}", least, parts.size()));
}

Tensor join_pairs(const std::vector<Tensor>& parts, Tensor (*join)(Tensor a, Tensor b, Name name),
                  std::string_view kind, Name name) {
  expect_parts(parts, 1, kind, name);
  Tensor all = parts[0];
  for (size_t i = 1; i < parts.size(); ++i)
    all = i + 1 == parts.size() ? join(all, parts[i], name) : join(all, parts[i], {});
  return all;
}

}  // namespace

Tensor dropout(Tensor x, double rate, bool training, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "dropout");
  if (!(rate >= 0 && rate <= 1))
    throw Error(fmt::format("dropout '{}': the rate must be between 0 and 1 but is {}", full, rate));
  return training && rate > 0 ? plimsoll::dropout(x, rate, full) : x;
}

Tensor spatial_dropout(Tensor x, double rate, bool training, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "spatial_dropout");
  expect_rate(rate, "spatial_dropout", full);
  const int axes = model::expect_spatial(x, "spatial_dropout", full);
  if (!training || rate == 0) return x;
  Tensor like = x;  // one element of each channel: its shape alone counts
  for (int i = 0; i < axes; ++i) like = slice(like, 2 + i, 0, 1);
  return mul(x, scale(bernoulli(stop_gradient(like), 1 - rate, full), 1 / (1 - rate)));
}

Tensor alpha_dropout(Tensor x, double rate, bool training, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "alpha_dropout");
  expect_rate(rate, "alpha_dropout", full);
  if (!training || rate == 0) return x;
  constexpr double kLowest = -1.7580993408473766;  // what selu gives for -infinity
  const double a = 1 / std::sqrt((1 - rate) * (1 + rate * kLowest * kLowest));
  const Tensor keeps = bernoulli(stop_gradient(x), 1 - rate, full);
  const Tensor kept = plimsoll::add(mul(x, keeps), scale(keeps, -kLowest, kLowest));
  return scale(kept, a, -a * kLowest * rate);
}

Tensor gaussian_dropout(Tensor x, double rate, bool training, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "gaussian_dropout");
  expect_rate(rate, "gaussian_dropout", full);
  if (!training || rate == 0) return x;
  return mul(x, random_normal(stop_gradient(x), 1, std::sqrt(rate / (1 - rate)), full));
}

Tensor gaussian_noise(Tensor x, double deviation, bool training, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "gaussian_noise");
  if (!(deviation >= 0))
    model::fail_layer("gaussian_noise", full, fmt::format("the deviation must be 0 or more but is {}", deviation));
  return training && deviation > 0 ? plimsoll::add(x, random_normal(stop_gradient(x), 0, deviation, full)) : x;
}

Tensor prelu(Tensor x, Dims shared_axes, const Init& slope, Name name) {
  const graph::Caller caller(name.where());
  Shape shape = x.shape();
  shape.erase(0);
  for (const int64_t axis : shared_axes) {
    if (axis < 1 || axis >= x.rank())
      model::fail_layer("prelu", name,
                        fmt::format("there is no axis {} behind the batch of {}", axis, to_string(x.type())));
    shape[static_cast<int>(axis) - 1] = 1;
  }
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "prelu"));
  return plimsoll::prelu(x, x.graph().variable("slope", DType::F32, shape, slope));
}

Tensor rescaling(Tensor x, double factor, double offset, Name name) {
  return scale(is_float(x.dtype()) ? x : cast(x, DType::F32), factor, offset, name);
}

Tensor normalization(Tensor x, std::vector<double> mean, std::vector<double> deviation, Name name) {
  const graph::Caller caller(name.where());
  if (mean.size() != deviation.size() || mean.empty())
    model::fail_layer("normalization", name,
                      fmt::format("{} means and {} deviations were given; give as many, at least one", mean.size(),
                                  deviation.size()));
  std::vector<double> factors;
  for (const double each : deviation) {
    if (!(each > 0))
      model::fail_layer("normalization", name, fmt::format("a deviation must be positive but is {}", each));
    factors.push_back(1 / each);
  }
  Graph& graph = x.graph();
  return mul(sub(is_float(x.dtype()) ? x : cast(x, DType::F32), as_constant(graph, mean)), as_constant(graph, factors),
             name);
}

Tensor discretization(Tensor x, std::vector<double> limits, Name name) {
  const graph::Caller caller(name.where());
  for (size_t i = 1; i < limits.size(); ++i)
    if (!(limits[i - 1] < limits[i])) model::fail_layer("discretization", name, "the limits must rise");
  if (limits.empty()) model::fail_layer("discretization", name, "there are no limits; give at least one");
  const Tensor above = cast(greater_equal(expand_dims(is_float(x.dtype()) ? x : cast(x, DType::F32), x.rank()),
                                          as_constant(x.graph(), limits)),
                            DType::F32);
  return cast(reduce_sum(above, {above.rank() - 1}), DType::I32);
}

Tensor category_encoding(Tensor x, int64_t categories, std::string_view mode, Name name) {
  const graph::Caller caller(name.where());
  model::expect_positive(categories, "the number of categories", "category_encoding", name);
  if (mode != "one_hot" && mode != "multi_hot" && mode != "count")
    model::fail_layer("category_encoding", name,
                      fmt::format("mode can't be '{}'; write one_hot, multi_hot or count", mode));
  const Tensor each = one_hot(cast(x, DType::I32), categories);
  if (mode == "one_hot") return each;
  const Dims last{each.rank() - 2};
  return mode == "count" ? reduce_sum(each, last, false, name) : reduce_max(each, last, false, name);
}

Tensor mask_of(Tensor x, double padding, Name name) {
  const graph::Caller caller(name.where());
  if (!is_float(x.dtype())) return not_equal(x, cast(x.graph().scalar(static_cast<float>(padding)), x.dtype()), name);
  return reduce_any(not_equal(x, x.graph().scalar(static_cast<float>(padding))), {x.rank() - 1}, false, name);
}

Tensor masked(Tensor x, Tensor mask, Name name) {
  const graph::Caller caller(name.where());
  Tensor factor = cast(mask, DType::F32);
  while (factor.rank() < x.rank()) factor = expand_dims(factor, factor.rank());
  return mul(x, factor, name);
}

Tensor concatenate(const std::vector<Tensor>& parts, int axis, Name name) { return concat(parts, axis, name); }
Tensor add(Tensor a, Tensor b, Name name) { return plimsoll::add(a, b, name); }

Tensor add(const std::vector<Tensor>& parts, Name name) { return join_pairs(parts, ops::add, "add", name); }
Tensor multiply(const std::vector<Tensor>& parts, Name name) { return join_pairs(parts, ops::mul, "multiply", name); }
Tensor maximum(const std::vector<Tensor>& parts, Name name) { return join_pairs(parts, ops::maximum, "maximum", name); }
Tensor minimum(const std::vector<Tensor>& parts, Name name) { return join_pairs(parts, ops::minimum, "minimum", name); }

Tensor average(const std::vector<Tensor>& parts, Name name) {
  const Tensor sum = join_pairs(parts, ops::add, "average", {});
  return scale(sum, 1 / static_cast<double>(parts.size()), 0, name);
}

Tensor subtract(const std::vector<Tensor>& parts, Name name) {
  if (parts.size() != 2)
    model::fail_layer("subtract", name, fmt::format("it takes two tensors but has {}", parts.size()));
  return sub(parts[0], parts[1], name);
}

Tensor dot(const std::vector<Tensor>& parts, int axis, bool normalised, Name name) {
  const graph::Caller caller(name.where());
  if (parts.size() != 2) model::fail_layer("dot", name, fmt::format("it takes two tensors but has {}", parts.size()));
  Tensor a = parts[0], b = parts[1];
  if (a.rank() != b.rank() || (a.rank() != 2 && a.rank() != 3))
    model::fail_layer("dot", name,
                      fmt::format("both must be [batch, width] or [batch, positions, width] but are {} and {}",
                                  to_string(a.type()), to_string(b.type())));
  const int at = axis < 0 ? axis + a.rank() : axis;
  if (at < 1 || at >= a.rank())
    model::fail_layer("dot", name, fmt::format("there is no axis {} behind the batch", axis));
  if (normalised) {
    a = unit_norm(a, at);
    b = unit_norm(b, at);
  }
  if (a.rank() == 2) return reduce_sum(mul(a, b), {1}, true, name);
  return matmul(a, b, at == 1, at == 2, name);
}

}  // namespace plimsoll::layers

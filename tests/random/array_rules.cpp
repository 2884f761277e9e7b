// How functions over numbers, orders and places are called in a random graph; the others are in op_rules.cpp.
#include "random/op_rules.h"

namespace plimsoll::testing {
namespace {

// Whole numbers made of a value, and back.
Tensor whole(const Tensor& x) { return cast(x * 3, DType::I32); }

void call_asin(M& m) { m.keep(asin(tanh(m.any()) * 0.9)); }
void call_acos(M& m) { m.keep(acos(tanh(m.any()) * 0.9)); }
void call_atanh(M& m) { m.keep(atanh(tanh(m.any()) * 0.9)); }
void call_tan(M& m) { m.keep(tan(tanh(m.any()))); }
void call_sinh(M& m) { m.keep(sinh(tanh(m.any()))); }
void call_cosh(M& m) { m.keep(cosh(tanh(m.any()))); }
void call_acosh(M& m) { m.keep(acosh(positive(m.any()) + 1)); }
void call_expm1(M& m) { m.keep(expm1(tanh(m.any()))); }
void call_square(M& m) { m.keep(square(tanh(m.any()))); }
void call_reciprocal(M& m) { m.keep(2 / positive(m.any())); }
void call_mod(M& m) {
  const Tensor a = m.any();
  const Tensor i = whole(a);
  m.keep(mod(a, positive(m.like(a))) + cast(mod(i, abs(i) / 2 + 1) * 2 - i, DType::F32) * 0.1);
}
template <Tensor (*Function)(Tensor, Name)>
void check(M& m) {
  const Tensor a = m.any();
  m.keep(where(Function(a, {}), a, a * 0.5));
}
template <Tensor (*Function)(Tensor, Dims, bool, Name)>
void decide(M& m) {
  const Tensor x = m.any();
  const Tensor holds = Function(less(x, x * x), {axis_of(m, x)}, true, {});
  m.keep(where(holds, x, x * 0.5));
}
template <Tensor (*Function)(Tensor, Dims, bool, double, Name)>
void spread(M& m) {
  const Tensor x = m.any();
  m.keep(x - Function(x, {axis_of(m, x)}, true, 0, {}) * 0.25);
}
void call_prod(M& m) {
  const Tensor x = m.any();
  m.keep(reduce_prod(tanh(x), {axis_of(m, x)}, true) + x);
}
void call_norm(M& m) {
  const Tensor x = m.any();
  m.keep(x * 0.5 + norm(x * x + 0.5, m.c.pick({1.0, 2.0, 3.0}), {axis_of(m, x)}, true) * 0.1);
}
void call_argmin(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  m.keep(x + expand_dims(cast(argmin(x, axis), DType::F32) * 0.1, axis));
}
template <Tensor (*Function)(Tensor, int, bool, bool, Name)>
void scan(M& m) {
  const Tensor x = m.any();
  m.keep(Function(tanh(x), axis_of(m, x), m.c.chance(30), m.c.chance(50), {}));
}
void call_flip(M& m) {
  const Tensor x = m.any();
  m.keep(flip(x, {axis_of(m, x)}));
}
void call_roll(M& m) {
  const Tensor x = m.any();
  m.keep(roll(x, m.c.between(-2, 3), axis_of(m, x)));
}
void call_repeat(M& m) {
  const Tensor x = m.any();
  m.keep(repeat(x, m.c.between(1, 3), axis_of(m, x)));
}
void call_windows(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  m.keep(windows(x, axis, m.c.between(1, std::min<int64_t>(3, x.dim(axis).count())), m.c.between(1, 2)));
}
void call_pad_border(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  Dims before = Dims::filled(x.rank(), 0), after = before;
  before[axis] = m.c.between(0, std::min<int64_t>(2, x.dim(axis).count() - 1));
  after[axis] = m.c.between(0, std::min<int64_t>(2, x.dim(axis).count() - 1));
  m.keep(pad_border(x, before, after, m.c.pick({"reflect", "symmetric", "edge", "circular"})));
}
void call_unfold(M& m) {
  const Tensor x = m.image();
  m.keep(unfold(x, filter_within(m, x, 2), Window::strided(m.c.between(1, 2))));
}
void call_fold(M& m) {
  const Tensor x = m.image();
  const Size2d size = filter_within(m, x, 2);
  const Tensor columns = unfold(x, size);
  m.keep(fold(tanh(columns), {x.dim(2).count(), x.dim(3).count()}, size));
}
template <Tensor (*Function)(Tensor, int64_t, Name)>
void triangle(M& m) {
  m.keep(Function(m.sequence(), m.c.between(-2, 2), {}));
}
void call_stack(M& m) {
  const Tensor x = m.matrix();
  m.keep(stack({x, tanh(x)}, static_cast<int>(m.c.between(1, 2))));
}
void call_unstack(M& m) {
  const Tensor x = m.sequence();
  m.keep(unstack(x, 1).back());
}
void call_depth_to_space(M& m) {
  const Tensor x = m.image();
  m.keep(depth_to_space(tile(x, {1, 4, 1, 1}), 2, m.c.chance(50)));
}
void call_space_to_depth(M& m) {
  const Tensor x = m.image();
  m.keep(space_to_depth(tile(x, {1, 1, 2, 2}), 2, m.c.chance(50)));
}
void call_conv1d(M& m) {
  const Tensor x = m.sequence();
  const int64_t size = m.c.between(1, std::min<int64_t>(3, x.dim(2).count()));
  m.keep(conv1d(x, m.weight({m.size(), x.dim(1), size})));
}
void call_conv1d_transpose(M& m) {
  const Tensor x = m.sequence();
  m.keep(conv1d_transpose(x, m.weight({x.dim(1), m.c.between(1, 5), m.c.between(1, 3)}), {},
                          Window::strided(m.c.between(1, 2))));
}
void call_max_pool1d(M& m) { m.keep(max_pool1d(m.sequence(), 1, Window::strided(m.c.between(1, 2)))); }
void call_average_pool1d(M& m) { m.keep(average_pool1d(m.sequence(), 1, Window::strided(m.c.between(1, 2)))); }
Tensor volume(M& m) {
  const Tensor x = m.image();
  return stack({x, tanh(x)}, 2);
}
void call_conv3d(M& m) {
  const Tensor x = volume(m);
  m.keep(flatten(conv3d(x, m.weight({m.c.between(1, 4), x.dim(1), m.c.between(1, 2), 1, 1})), 3));
}
void call_conv3d_transpose(M& m) {
  const Tensor x = volume(m);
  m.keep(
      flatten(conv3d_transpose(x, m.weight({x.dim(1), m.c.between(1, 3), 2, 1, 1}), {}, {m.c.between(1, 2), 1, 1}), 3));
}
void call_max_pool3d(M& m) { m.keep(flatten(max_pool3d(volume(m), {2, 1, 1}, {1, 1, 1}), 3)); }
void call_average_pool3d(M& m) { m.keep(flatten(average_pool3d(volume(m), {2, 1, 1}, {1, 1, 1}), 3)); }
void call_rms_norm(M& m) {
  const Tensor x = m.any();
  m.keep(rms_norm(x, m.weight({x.dim(-1)}, 0.5, 1), 0.05));
}
void call_instance_norm(M& m) {
  const Tensor x = m.image();
  m.keep(instance_norm(x, m.weight({x.dim(1)}, 0.5, 1), m.weight({x.dim(1)}, 0.5), 0.05));
}
void call_local_response_norm(M& m) { m.keep(local_response_norm(m.image(), m.c.between(1, 3), 0.1)); }
void call_resample(M& m) {
  const Tensor x = m.any();
  m.keep(resample(x, {axis_of(m, x)}, {m.c.between(1, 9)}, m.c.pick({"linear", "cubic", "nearest"})));
}
void call_take_along_axis(M& m) {
  const Tensor x = m.any();
  m.keep(take_along_axis(x, argsort(x)));
}
void call_gather_nd(M& m) {
  const Tensor x = m.sequence();
  const Tensor rows = expand_dims(argmax(x, 2), 2);
  m.keep(gather_nd(m.weight({x.dim(2), m.size()}, 1), rows));
}
void call_scatter(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  const Tensor one = reshape(argmax(m.weight({2}, 1), 0), {1});
  if (x.dim(axis).count() < 2) return;
  m.keep(scatter(x, one, tanh(slice(x, axis, 0, 1)), axis, m.c.pick({"set", "add", "mul", "max"})));
}
void call_scatter_nd(M& m) {
  const Tensor table = m.weight({3, 4}, 1);
  const Tensor point = reshape(argmax(table, 1), {3, 1});
  const Tensor joined = scatter_nd(table, point / 2, table, "add");
  m.keep(m.matrix() + reduce_sum(joined) * 0.1);
}
template <Tensor (*Function)(Tensor, Tensor, int64_t, Name)>
void segments(M& m) {
  const Tensor x = m.matrix();
  const Tensor sums = Function(x, argmax(x, 1), x.dim(1).count(), {});
  m.keep(x + reduce_sum(tanh(sums)) * 0.1);
}
void call_bincount(M& m) {
  const Tensor x = m.matrix();
  m.keep(x + cast(bincount(argmax(x, 1), x.dim(1).count()), DType::F32) * 0.1);
}
void call_rope(M& m) {
  const Tensor x = m.image();
  if (x.dim(3).count() < 2) return;
  m.keep(rope(x, {}, 100, 2, m.c.chance(50), m.c.chance(50), m.c.between(0, 9)));
}
void call_einsum(M& m) {
  const Tensor x = m.sequence();
  m.keep(einsum("...x,xy->...y", {x, m.weight({x.dim(2), m.size()})}));
}
void call_sort(M& m) {
  const Tensor x = m.any();
  m.keep(sort(x, axis_of(m, x), m.c.chance(50)));
}
void call_argsort(M& m) {
  const Tensor x = m.any();
  m.keep(x + cast(argsort(x, axis_of(m, x)), DType::F32) * 0.1);
}
void call_top_k(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  m.keep(top_k(x, m.c.between(1, x.dim(axis).count()), axis, m.c.chance(50))[0]);
}
void call_sparsemax(M& m) { m.keep(sparsemax(m.matrix())); }
template <Tensor (*Function)(Tensor, double, Name)>
void with_number(M& m) {
  m.keep(Function(m.any(), 0.6, {}));
}
void call_hard_sigmoid(M& m) { m.keep(hard_sigmoid(m.any())); }
void call_threshold(M& m) { m.keep(threshold(m.any(), 0.1, -0.2)); }
void call_prelu(M& m) {
  const Tensor x = m.any();
  m.keep(prelu(x, m.weight({x.dim(-1)}, 0.5)));
}
void call_glu(M& m) {
  const Tensor x = m.matrix();
  m.keep(glu(concat({x, tanh(x)}, 1)));
}

constexpr OpRule kRules[] = {
    {"sin", Slope::Smooth, map<sin>},
    {"cos", Slope::Smooth, map<cos>},
    {"tan", Slope::Smooth, call_tan},
    {"asin", Slope::Smooth, call_asin},
    {"acos", Slope::Smooth, call_acos},
    {"atan", Slope::Smooth, map<atan>},
    {"sinh", Slope::Smooth, call_sinh},
    {"cosh", Slope::Smooth, call_cosh},
    {"asinh", Slope::Smooth, map<asinh>},
    {"acosh", Slope::Smooth, call_acosh},
    {"atanh", Slope::Smooth, call_atanh},
    {"expm1", Slope::Smooth, call_expm1},
    {"log1p", Slope::Smooth, map_positive<log1p>},
    {"square", Slope::Smooth, call_square},
    {"reciprocal", Slope::Smooth, call_reciprocal},
    {"floor", Slope::None, map<floor>},
    {"ceil", Slope::None, map<ceil>},
    {"round", Slope::None, map<round>},
    {"sign", Slope::None, map<sign>},
    {"mod", Slope::None, call_mod},
    {"logical_and", Slope::None, compare<logical_and>},
    {"logical_or", Slope::None, compare<logical_or>},
    {"logical_xor", Slope::None, compare<logical_xor>},
    {"logical_not", Slope::None, check<logical_not>},
    {"isnan", Slope::None, check<isnan>},
    {"isinf", Slope::None, check<isinf>},
    {"isfinite", Slope::None, check<isfinite>},
    {"reduce_prod", Slope::Smooth, call_prod},
    {"reduce_any", Slope::None, decide<reduce_any>},
    {"reduce_all", Slope::None, decide<reduce_all>},
    {"reduce_variance", Slope::Smooth, spread<reduce_variance>},
    {"reduce_std", Slope::Kinked, spread<reduce_std>},
    {"reduce_logsumexp", Slope::Smooth, reduce<reduce_logsumexp>},
    {"norm", Slope::Smooth, call_norm},
    {"argmin", Slope::None, call_argmin},
    {"cumsum", Slope::Smooth, scan<cumsum>},
    {"cumprod", Slope::Smooth, scan<cumprod>},
    {"flip", Slope::Smooth, call_flip},
    {"roll", Slope::Smooth, call_roll},
    {"repeat", Slope::Smooth, call_repeat},
    {"windows", Slope::Smooth, call_windows},
    {"pad_border", Slope::Smooth, call_pad_border},
    {"unfold", Slope::Smooth, call_unfold},
    {"fold", Slope::Smooth, call_fold},
    {"tril", Slope::Smooth, triangle<tril>},
    {"triu", Slope::Smooth, triangle<triu>},
    {"diagonal", Slope::Smooth, [](M& m) { m.keep(diagonal(m.sequence())); }},
    {"stack", Slope::Smooth, call_stack},
    {"unstack", Slope::Smooth, call_unstack},
    {"depth_to_space", Slope::Smooth, call_depth_to_space},
    {"space_to_depth", Slope::Smooth, call_space_to_depth},
    {"conv1d", Slope::Smooth, call_conv1d},
    {"conv1d_transpose", Slope::Smooth, call_conv1d_transpose},
    {"max_pool1d", Slope::Kinked, call_max_pool1d},
    {"average_pool1d", Slope::Smooth, call_average_pool1d},
    {"conv3d", Slope::Smooth, call_conv3d},
    {"conv3d_transpose", Slope::Smooth, call_conv3d_transpose},
    {"max_pool3d", Slope::Kinked, call_max_pool3d},
    {"average_pool3d", Slope::Smooth, call_average_pool3d},
    {"rms_norm", Slope::Smooth, call_rms_norm},
    {"instance_norm", Slope::Smooth, call_instance_norm},
    {"local_response_norm", Slope::Smooth, call_local_response_norm},
    {"resample", Slope::Smooth, call_resample},
    {"take_along_axis", Slope::Kinked, call_take_along_axis},
    {"gather_nd", Slope::None, call_gather_nd},
    {"scatter", Slope::None, call_scatter},
    {"scatter_nd", Slope::None, call_scatter_nd},
    {"segment_sum", Slope::None, segments<segment_sum>},
    {"segment_mean", Slope::None, segments<segment_mean>},
    {"segment_max", Slope::None, segments<segment_max>},
    {"segment_min", Slope::None, segments<segment_min>},
    {"bincount", Slope::None, call_bincount},
    {"rope", Slope::Smooth, call_rope},
    {"einsum", Slope::Smooth, call_einsum},
    {"sort", Slope::Kinked, call_sort},
    {"argsort", Slope::None, call_argsort},
    {"top_k", Slope::Kinked, call_top_k},
    {"sparsemax", Slope::Kinked, call_sparsemax},
    {"elu", Slope::Kinked, with_number<elu>},
    {"selu", Slope::Kinked, map<selu>},
    {"celu", Slope::Kinked, with_number<celu>},
    {"softplus", Slope::Smooth, map<softplus>},
    {"log_sigmoid", Slope::Smooth, map<log_sigmoid>},
    {"mish", Slope::Smooth, map<mish>},
    {"hard_sigmoid", Slope::Kinked, call_hard_sigmoid},
    {"hard_swish", Slope::Kinked, map<hard_swish>},
    {"hard_tanh", Slope::Kinked, map<hard_tanh>},
    {"softsign", Slope::Kinked, map<softsign>},
    {"soft_shrink", Slope::Kinked, with_number<soft_shrink>},
    {"hard_shrink", Slope::None, with_number<hard_shrink>},
    {"tanh_shrink", Slope::Smooth, map<tanh_shrink>},
    {"threshold", Slope::None, call_threshold},
    {"squareplus", Slope::Smooth, with_number<squareplus>},
    {"sparse_plus", Slope::Kinked, map<sparse_plus>},
    {"sparse_sigmoid", Slope::Kinked, map<sparse_sigmoid>},
    {"prelu", Slope::Kinked, call_prelu},
    {"glu", Slope::Smooth, call_glu},
};

}  // namespace

std::span<const OpRule> array_rules() { return kRules; }

}  // namespace plimsoll::testing

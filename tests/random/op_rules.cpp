// How each function over tensors is called in a random graph. A new function needs a line here: a test compares the
// table with ops::functions().
#include <fmt/format.h>

#include "random/op_rules.h"

namespace plimsoll::testing {
namespace {

Window window(M& m, const Tensor& x, Size2d filter, bool may_pad) {
  Window w;
  for (const int i : {0, 1}) {
    const int64_t room = x.dim(2 + i).count();
    w.strides[static_cast<size_t>(i)] = m.c.between(1, 2);
    const int64_t least = std::max<int64_t>(0, (filter[static_cast<size_t>(i)] - room + 1) / 2);
    const int64_t pad = may_pad ? std::max(least, m.c.between(0, filter[static_cast<size_t>(i)] / 2)) : 0;
    w.pads[static_cast<size_t>(i)] = w.pads[static_cast<size_t>(i) + 2] = pad;
  }
  return w;
}

void call_matmul(M& m) {
  switch (m.c.below(4)) {
    case 0: {
      const Tensor x = m.c.chance(30) ? m.sequence() : m.matrix();
      m.keep(matmul(x, m.weight({x.dim(-1), m.size()})));
      return;
    }
    case 1: {
      const Tensor x = m.matrix();
      m.keep(matmul(x, m.weight({m.size(), x.dim(-1)}, 0.3), false, true));
      return;
    }
    case 2: {
      const Tensor x = m.sequence();
      m.keep(matmul(x, x * m.weight({x.dim(-1)}, 0.5), false, true));
      return;
    }
    default: {  // over the batch
      const Tensor a = m.matrix(), b = m.matrix();
      m.keep(matmul(a, matmul(tanh(a), tanh(b), true) * 0.1));
    }
  }
}

void call_dense(M& m) {
  const Tensor x = m.matrix();
  const Dim out = m.size();
  m.keep(dense(x, m.weight({x.dim(1), out}), m.c.chance(50) ? m.weight({out}, 0.5) : Tensor()));
}

void call_conv2d(M& m) {
  const Tensor x = m.image();
  const Size2d size{m.c.between(1, 3), m.c.between(1, 3)};
  Window w = window(m, x, size, true);
  const int64_t in = x.dim(1).count();
  int64_t out = m.size();
  if (m.c.chance(25)) {
    w.groups = in;
    out = in * m.c.between(1, 2);
  }
  m.keep(
      conv2d(x, m.weight({out, in / w.groups, size[0], size[1]}), m.c.chance(50) ? m.weight({out}, 0.5) : Tensor(), w));
}

void call_conv2d_transpose(M& m) {
  const Tensor x = m.image();
  const Size2d size{m.c.between(1, 3), m.c.between(1, 3)};
  const int64_t out = m.c.between(1, 9);
  Window w;
  w.strides = {m.c.between(1, 2), m.c.between(1, 2)};
  m.keep(conv2d_transpose(x, m.weight({x.dim(1), out, size[0], size[1]}),
                          m.c.chance(50) ? m.weight({out}, 0.5) : Tensor(), w));
}

void call_max_pool(M& m) {
  const Tensor x = m.image();
  const Size2d size = filter_within(m, x, 3);
  m.keep(max_pool(x, size, window(m, x, size, true)));
}

void call_average_pool(M& m) {
  const Tensor x = m.image();
  const Size2d size = filter_within(m, x, 3);
  m.keep(average_pool(x, size, window(m, x, size, true), m.c.chance(50)));
}

template <Tensor (*Function)(Tensor, Name)>
void map_image(M& m) {
  m.keep(Function(m.image(), {}));
}

void call_batch_norm(M& m) {
  const Tensor x = m.image();
  const Shape channels{x.dim(1)};
  m.keep(batch_norm(x, m.weight(channels, 0.5, 1), m.weight(channels, 0.5), m.statistic(channels, 0),
                    m.statistic(channels, 1), m.c.chance(80), 0.9, 0.05));
}

void call_layer_norm(M& m) {
  const Tensor x = m.any();
  m.keep(layer_norm(x, m.weight({x.dim(-1)}, 0.5, 1), m.weight({x.dim(-1)}, 0.5), 0.05));
}

void call_group_norm(M& m) {
  const Tensor x = m.image();
  const int64_t channels = x.dim(1).count(), groups = channels % 3 == 0 ? 3 : channels % 2 == 0 ? 2 : 1;
  m.keep(group_norm(x, m.weight({channels}, 0.5, 1), m.weight({channels}, 0.5), m.c.chance(50) ? groups : 1, 0.05));
}

void call_resize(M& m) {
  const Tensor x = m.image();
  m.keep(resize(x, {m.c.between(1, 9), m.c.between(1, 9)}, m.c.pick({"nearest", "bilinear"})));
}

void call_gather(M& m) {
  const int64_t words = m.size(), width = m.size();
  const Tensor table = m.weight({words, width}, 1);
  Shape shape{Dim::batch()};
  if (m.c.chance(50)) shape.push_back(m.c.between(1, 6));
  m.keep(gather(table, m.input(DType::I32, shape, words)));
}

void call_attention(M& m) {
  const Tensor x = m.image();
  const Tensor q = x * m.weight({x.dim(-1)}, 1), k = x * m.weight({x.dim(-1)}, 1);
  const bool positions_first = m.c.chance(50), caps = m.c.chance(20), falls = m.c.chance(20);
  const Dim positions = x.dim(positions_first ? 1 : 2), heads = x.dim(positions_first ? 2 : 1);
  const Tensor mask = m.c.chance(30) ? m.input(DType::Bool, {Dim::batch(), 1, positions, positions}, 2) : Tensor();
  const Tensor bias = m.c.chance(20) ? m.weight({heads, positions, positions}) : Tensor();
  const Tensor sequences = m.c.chance(20) ? m.input(DType::I32, {Dim::batch(), positions}, 2) : Tensor();
  const int64_t window = m.c.chance(30) ? m.c.between(1, 4) : 0;
  // One head of keys for all.
  const int axis = positions_first ? 2 : 1;
  const bool shares = m.c.chance(30);
  const Tensor keys = shares ? slice(k, axis, 0, 1) : k, values = shares ? slice(x, axis, 0, 1) : x;
  m.keep(attention(q, keys, values, mask, m.c.chance(40), 0, positions_first, bias, window, caps ? 1.5 : 0, falls,
                   sequences));
}

Tensor recurrent_mask(M& m, const Tensor& x) {
  return m.c.chance(40) ? m.input(DType::Bool, {x.dim(0), x.dim(1)}, 2) : Tensor();
}
void call_simple_rnn(M& m) {
  const Tensor x = m.sequence();
  const Dim units = m.size();
  const Tensor kernel = m.weight({x.dim(2), units}, 0.5), recurrent = m.weight({units, units}, 0.5);
  m.keep(simple_rnn(x, kernel, recurrent, m.weight({units}, 0.5), {}, recurrent_mask(m, x), m.c.chance(40))[0]);
}
void call_lstm(M& m) {
  const Tensor x = m.sequence();
  const int64_t units = m.size();
  const Tensor kernel = m.weight({x.dim(2), 4 * units}, 0.5), recurrent = m.weight({units, 4 * units}, 0.5);
  const std::vector<Tensor> out = lstm(x, kernel, recurrent, m.weight({4 * units}, 0.5), {}, {}, recurrent_mask(m, x),
                                       m.c.chance(40), m.c.chance(50) ? "ifgo" : "iofg");
  m.keep(out[0] + expand_dims(out[2], 1) * 0.5);
}
void call_gru(M& m) {
  const Tensor x = m.sequence();
  const int64_t units = m.size();
  const Tensor kernel = m.weight({x.dim(2), 3 * units}, 0.5), recurrent = m.weight({units, 3 * units}, 0.5);
  const std::vector<Tensor> out = gru(x, kernel, recurrent, {}, m.weight({3 * units}, 0.5), {}, recurrent_mask(m, x),
                                      m.c.chance(40), m.c.chance(50) ? "zrn" : "rzn");
  m.keep(out[0] + expand_dims(out[1], 1) * 0.5);
}
void call_range_like(M& m) {
  const Tensor x = m.any();
  m.keep(x + range_like(x, DType::F32, axis_of(m, x), 0.5, 0.1));
}
void call_eye_like(M& m) {
  const Tensor x = m.image();
  m.keep(x + eye_like(x, m.c.between(-1, 1)) * 0.5);
}

void call_clip(M& m) { m.keep(clip(m.any(), -0.7, 0.4)); }
void call_leaky_relu(M& m) { m.keep(leaky_relu(m.any(), 0.2)); }
void call_gelu(M& m) { m.keep(gelu(m.any(), m.c.chance(50))); }
void call_dropout(M& m) { m.keep(dropout(m.any(), 0.3)); }
void call_random_normal(M& m) {
  const Tensor x = m.any();
  m.keep(x * random_normal(x, 1, 0.25));
}
void call_random_uniform(M& m) {
  const Tensor x = m.any();
  m.keep(x + random_uniform(x, -0.5, 0.5));
}
void call_random_integers(M& m) {
  const Tensor x = m.any();
  m.keep(x + cast(random_integers(x, -2, 3, m.c.pick({DType::I32, DType::I64})), DType::F32));
}
void call_bernoulli(M& m) {
  const Tensor x = m.any();
  m.keep(x * bernoulli(x, 0.7));
}
void call_scale(M& m) { m.keep(scale(m.any(), m.c.pick({-0.5, 2.0, 0.0}), 0.25)); }
void call_exp(M& m) { m.keep(exp(tanh(m.any()))); }
void call_mul(M& m) {
  const Tensor a = m.any();
  m.keep(mul(a, m.like(a) * 0.7));
}
void call_div(M& m) {
  const Tensor a = m.any();
  m.keep(div(a, positive(m.like(a))));
}
void call_pow(M& m) {
  const Tensor a = m.any();
  m.keep(pow(positive(tanh(a)), tanh(m.like(a)) * 2));
}
void call_where(M& m) {
  const Tensor a = m.any();
  m.keep(where(m.input(m.c.pick({DType::Bool, DType::I32}), a.shape(), 2), a, m.like(a)));
}
void call_cast(M& m) {
  m.keep(cast(cast(m.any(), m.c.pick({DType::BF16, DType::F16, DType::I32, DType::U8, DType::I64})), DType::F32));
}
void call_quantise(M& m) { m.keep(dequantise(quantise(m.any(), 0.03, 96, DType::U8), 0.03, 96)); }
void call_dequantise(M& m) { m.keep(dequantise(quantise(m.any(), 0.03, -5, DType::I8), 0.03, -5)); }

void call_softmax(M& m) {
  const Tensor x = m.any();
  m.keep(softmax(x, axis_of(m, x)));
}
void call_log_softmax(M& m) {
  const Tensor x = m.any();
  m.keep(log_softmax(x, axis_of(m, x)));
}

void call_sum_to(M& m) {
  const Tensor x = m.any();
  Shape shape = x.shape();
  shape[axis_of(m, x)] = 1;
  m.keep(sum_to(x, shape) * 0.3);
}
void call_argmax(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  const Tensor rows = argmax(x, axis);
  m.keep(x + expand_dims(cast(rows, DType::F32) * 0.1, axis));
}
void call_categorical(M& m) {
  const Tensor x = m.matrix();
  m.keep(x + expand_dims(cast(categorical(x), DType::F32) * 0.1, 1));
}
void call_one_hot(M& m) {
  const Tensor x = m.matrix();
  m.keep(x - one_hot(argmax(x, 1), x.dim(1).count()));
}

void call_reshape(M& m) {
  const Tensor x = m.any();
  const int64_t n = elements_of(x);
  int64_t part = 1;
  for (const int64_t factor : {2, 3, 5})
    if (n % factor == 0 && m.c.chance(50)) part *= factor;
  if (n % part != 0) part = 1;
  m.keep(m.c.chance(50) ? reshape(x, {Dim::batch(), part, n / part}) : reshape(x, {Dim::batch(), n / part, part}));
}
void call_flatten(M& m) {
  const Tensor x = m.any();
  m.keep(flatten(x, axis_of(m, x)));
}
void call_squeeze(M& m) { m.keep(squeeze(expand_dims(relu(m.any()), 1), 1)); }
void call_expand_dims(M& m) {
  const Tensor x = m.any();
  m.keep(expand_dims(x, axis_of(m, x)));
}
void call_broadcast_to(M& m) {
  const Tensor x = m.matrix();
  m.keep(broadcast_to(expand_dims(x, 1), {Dim::batch(), m.c.between(1, 5), x.dim(1)}));
}
void call_transpose(M& m) {
  const Tensor x = m.any();
  Dims order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  for (int i = 1; i + 1 < x.rank(); ++i) std::swap(order[i], order[static_cast<int>(m.c.between(i, x.rank() - 1))]);
  m.keep(transpose(x, order));
}
void call_concat(M& m) {
  const Tensor a = m.any();
  const int axis = axis_of(m, a);
  Tensor b = m.any();
  for (int i = 0; i < a.rank(); ++i)
    if (b.rank() != a.rank() || (i != axis && !(b.dim(i) == a.dim(i)))) b = tanh(a);
  m.keep(m.c.chance(30) ? concat({a, b, a}, axis) : concat({a, b}, axis));
}
void call_split(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  const int64_t all = x.dim(axis).count(), first = m.c.between(1, std::max<int64_t>(1, all - 1));
  if (first == all) return;
  for (const Tensor& part : split(x, {first, all - first}, axis)) m.keep(part);
}
void call_slice(M& m) {
  const Tensor x = m.any();
  const int axis = axis_of(m, x);
  const int64_t all = x.dim(axis).count(), first = m.c.between(0, all - 1), step = m.c.between(1, 2);
  m.keep(slice(x, axis, first, m.c.between(1, (all - first + step - 1) / step), step));
}
void call_pad(M& m) {
  const Tensor x = m.any();
  Dims before = Dims::filled(x.rank(), 0), after = before;
  const int axis = axis_of(m, x);
  before[axis] = m.c.between(0, 2);
  after[axis] = m.c.between(0, 2);
  m.keep(pad(x, before, after, m.c.pick({0.0, 0.5})));
}
void call_tile(M& m) {
  const Tensor x = m.any();
  Dims times = Dims::filled(x.rank(), 1);
  times[axis_of(m, x)] = m.c.between(1, 3);
  m.keep(tile(x, times));
}

void call_sparse_cross_entropy(M& m) {
  const Tensor x = m.matrix();
  m.minimise(sparse_cross_entropy(x, m.input(DType::I32, {Dim::batch()}, x.dim(1).count())));
}
void call_cross_entropy(M& m) {
  const Tensor x = m.matrix();
  m.minimise(cross_entropy(x, softmax(m.input(DType::F32, x.shape(), 0))));
}
template <Tensor (*Function)(Tensor, Tensor, Name)>
void lose(M& m) {
  const Tensor x = m.any();
  m.minimise(Function(x, sigmoid(m.input(DType::F32, x.shape(), 0)), {}));
}
void call_huber(M& m) {
  const Tensor x = m.any();
  m.minimise(huber(x, m.input(DType::F32, x.shape(), 0), 0.5));
}
void call_linear_cross_entropy(M& m) {
  const Tensor x = m.matrix();
  const int64_t classes = m.size();
  const bool transposed = m.c.chance(50);
  const Tensor kernel = m.weight(transposed ? Shape{classes, x.dim(1)} : Shape{x.dim(1), classes}, 0.3);
  m.minimise(linear_cross_entropy(x, kernel, m.input(DType::I32, {Dim::batch()}, classes), transposed));
}

constexpr OpRule kRules[] = {
    {"dense", Slope::Smooth, call_dense},
    {"matmul", Slope::Smooth, call_matmul},
    {"conv2d", Slope::Smooth, call_conv2d},
    {"conv2d_transpose", Slope::Smooth, call_conv2d_transpose},
    {"max_pool", Slope::Kinked, call_max_pool},
    {"average_pool", Slope::Smooth, call_average_pool},
    {"global_average_pool", Slope::Smooth, map_image<global_average_pool>},
    {"global_max_pool", Slope::Kinked, map_image<global_max_pool>},
    {"batch_norm", Slope::Smooth, call_batch_norm},
    {"layer_norm", Slope::Smooth, call_layer_norm},
    {"group_norm", Slope::Smooth, call_group_norm},
    {"resize", Slope::Smooth, call_resize},
    {"gather", Slope::Smooth, call_gather},
    {"attention", Slope::Smooth, call_attention},
    {"simple_rnn", Slope::Smooth, call_simple_rnn},
    {"lstm", Slope::Smooth, call_lstm},
    {"gru", Slope::Smooth, call_gru},
    {"range_like", Slope::Smooth, call_range_like},
    {"eye_like", Slope::Smooth, call_eye_like},
    {"relu", Slope::Kinked, map<relu>},
    {"clip", Slope::Kinked, call_clip},
    {"relu6", Slope::Kinked, map<relu6>},
    {"leaky_relu", Slope::Kinked, call_leaky_relu},
    {"sigmoid", Slope::Smooth, map<sigmoid>},
    {"tanh", Slope::Smooth, map<tanh>},
    {"gelu", Slope::Smooth, call_gelu},
    {"silu", Slope::Smooth, map<silu>},
    {"dropout", Slope::Smooth, call_dropout},
    {"random_normal", Slope::Smooth, call_random_normal},
    {"random_uniform", Slope::Smooth, call_random_uniform},
    {"random_integers", Slope::Smooth, call_random_integers},
    {"bernoulli", Slope::Smooth, call_bernoulli},
    {"add", Slope::Smooth, pair<add>},
    {"sub", Slope::Smooth, pair<sub>},
    {"mul", Slope::Smooth, call_mul},
    {"div", Slope::Smooth, call_div},
    {"pow", Slope::Smooth, call_pow},
    {"minimum", Slope::Kinked, pair<minimum>},
    {"maximum", Slope::Kinked, pair<maximum>},
    {"scale", Slope::Smooth, call_scale},
    {"exp", Slope::Smooth, call_exp},
    {"log", Slope::Smooth, map_positive<log>},
    {"sqrt", Slope::Smooth, map_positive<sqrt>},
    {"rsqrt", Slope::Smooth, map_positive<rsqrt>},
    {"neg", Slope::Smooth, map<neg>},
    {"abs", Slope::Kinked, map<abs>},
    {"erf", Slope::Smooth, map<erf>},
    {"where", Slope::Smooth, call_where},
    {"equal", Slope::None, compare<equal>},
    {"not_equal", Slope::None, compare<not_equal>},
    {"less", Slope::None, compare<less>},
    {"less_equal", Slope::None, compare<less_equal>},
    {"greater", Slope::None, compare<greater>},
    {"greater_equal", Slope::None, compare<greater_equal>},
    {"cast", Slope::None, call_cast},
    {"quantise", Slope::None, call_quantise},
    {"dequantise", Slope::None, call_dequantise},
    {"softmax", Slope::Smooth, call_softmax},
    {"log_softmax", Slope::Smooth, call_log_softmax},
    {"reduce_sum", Slope::Smooth, reduce<reduce_sum>},
    {"sum_to", Slope::Smooth, call_sum_to},
    {"reduce_mean", Slope::Smooth, reduce<reduce_mean>},
    {"reduce_max", Slope::Kinked, reduce<reduce_max>},
    {"reduce_min", Slope::Kinked, reduce<reduce_min>},
    {"argmax", Slope::None, call_argmax},
    {"categorical", Slope::None, call_categorical},
    {"reshape", Slope::Smooth, call_reshape},
    {"flatten", Slope::Smooth, call_flatten},
    {"squeeze", Slope::Kinked, call_squeeze},
    {"expand_dims", Slope::Smooth, call_expand_dims},
    {"stop_gradient", Slope::None, map<stop_gradient>},
    {"broadcast_to", Slope::Smooth, call_broadcast_to},
    {"transpose", Slope::Smooth, call_transpose},
    {"concat", Slope::Smooth, call_concat},
    {"split", Slope::Smooth, call_split},
    {"slice", Slope::Smooth, call_slice},
    {"pad", Slope::Smooth, call_pad},
    {"tile", Slope::Smooth, call_tile},
    {"one_hot", Slope::None, call_one_hot},
    {"sparse_cross_entropy", Slope::Smooth, call_sparse_cross_entropy},
    {"cross_entropy", Slope::Smooth, call_cross_entropy},
    {"binary_cross_entropy", Slope::Smooth, lose<binary_cross_entropy>},
    {"mean_squared_error", Slope::Smooth, lose<mean_squared_error>},
    {"mean_absolute_error", Slope::Kinked, lose<mean_absolute_error>},
    {"huber", Slope::Smooth, call_huber},
    {"linear_cross_entropy", Slope::Smooth, call_linear_cross_entropy},
};

}  // namespace

std::span<const OpRule> op_rules() {
  static const std::vector<OpRule> all = [] {
    std::vector<OpRule> rules(std::begin(kRules), std::end(kRules));
    rules.insert(rules.end(), array_rules().begin(), array_rules().end());
    return rules;
  }();
  return all;
}

}  // namespace plimsoll::testing

// Activations that one kernel computes: elu with its kin selu and celu, softplus, log_sigmoid, mish, hard_swish,
// softsign, shrinks, squareplus, sparse_plus; and those composed of others.
#include <cmath>

#include <fmt/format.h>

#include "ops/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activations.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

HWY_INLINE Floats param(const Tile& t, int i) { return hn::Set(FloatTag(), t.params[i]); }
HWY_INLINE auto is_above_zero(Floats x) { return hn::Gt(x, hn::Zero(FloatTag())); }
HWY_INLINE Floats negative_part(Floats x) { return at_least(number(-88), at_most(number(0), x)); }

// scale (x > 0 ? x : alpha (exp(x inner) - 1)); params: alpha, scale, inner
void elu_tile(const Tile& t) {
  const Floats alpha = param(t, 0), scale = param(t, 1), inner = param(t, 2);
  map<1, Fetch::Ahead>(t, [=](Floats x) HWY_ATTR {
    const Floats below = hn::Mul(alpha, exp_within<true>(FloatTag(), negative_part(hn::Mul(x, inner))));
    return hn::Mul(scale, hn::IfThenElse(is_above_zero(x), x, below));
  });
}
// dy, x
void elu_grad_tile(const Tile& t) {
  const Floats alpha = param(t, 0), scale = param(t, 1), inner = param(t, 2);
  map<2, Fetch::Ahead>(t, [=](Floats dy, Floats x) HWY_ATTR {
    const Floats e = exp_within<false>(FloatTag(), negative_part(hn::Mul(x, inner)));
    const Floats below = hn::Mul(hn::Mul(alpha, inner), e);
    return hn::Mul(hn::Mul(dy, scale), hn::IfThenElse(is_above_zero(x), number(1), below));
  });
}

// log(1 + exp(-|x|)), which can't overflow
HWY_INLINE Floats log_of_tail(Floats x) { return hn::Log1p(FloatTag(), fast_exp(FloatTag(), hn::Neg(hn::Abs(x)))); }
void softplus_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t,
                       [](Floats x) HWY_ATTR { return keep_nan(x, hn::Add(at_least(number(0), x), log_of_tail(x))); });
}
void log_sigmoid_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t,
                       [](Floats x) HWY_ATTR { return keep_nan(x, hn::Sub(at_most(number(0), x), log_of_tail(x))); });
}

// tanh(softplus(x)) = n / (n + 2) with n = e (e + 2), e = exp(x); beyond 20 it is 1.
HWY_INLINE Floats tanh_softplus(Floats x, Floats* e) {
  *e = exp_within<false>(FloatTag(), at_least(number(-88), at_most(number(20), x)));
  const Floats n = hn::Mul(*e, hn::Add(*e, number(2)));
  return hn::Div(n, hn::Add(n, number(2)));
}
void mish_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR {
    Floats e;
    return hn::Mul(x, tanh_softplus(x, &e));
  });
}
void mish_grad_tile(const Tile& t) {
  map<2, Fetch::Ahead>(t, [](Floats dy, Floats x) HWY_ATTR {
    Floats e;
    const Floats y = tanh_softplus(x, &e);
    const Floats sigmoid = hn::Div(e, hn::Add(e, number(1)));
    const Floats rest = hn::Mul(hn::Mul(x, sigmoid), hn::NegMulAdd(y, y, number(1)));
    return hn::Mul(dy, hn::Add(y, rest));
  });
}

// x clip(x / 6 + 1/2, 0, 1)
void hard_swish_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR {
    const Floats gate = hn::MulAdd(x, number(1.0F / 6), number(0.5F));
    return hn::Mul(x, at_most(number(1), at_least(number(0), gate)));
  });
}
void hard_swish_grad_tile(const Tile& t) {
  map<2>(t, [](Floats dy, Floats x) HWY_ATTR {
    const Floats inside = hn::MulAdd(x, number(1.0F / 3), number(0.5F));
    const Floats above = hn::IfThenElse(hn::Ge(x, number(3)), number(1), inside);
    return hn::Mul(dy, hn::IfThenZeroElse(hn::Le(x, number(-3)), above));
  });
}

void softsign_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Div(x, hn::Add(number(1), hn::Abs(x))); });
}

// Zero where |x| <= limit; outside x, moved by `shift` towards zero. Params: limit, shift
void shrink_tile(const Tile& t) {
  const Floats limit = param(t, 0), shift = param(t, 1);
  map<1>(t, [=](Floats x)
                HWY_ATTR { return hn::IfThenZeroElse(hn::Le(hn::Abs(x), limit), hn::Sub(x, hn::CopySign(shift, x))); });
}
void shrink_grad_tile(const Tile& t) {
  const Floats limit = param(t, 0);
  map<2>(t, [=](Floats dy, Floats x) HWY_ATTR { return hn::IfThenZeroElse(hn::Le(hn::Abs(x), limit), dy); });
}

void tanh_shrink_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return hn::Sub(x, tanh_of(x)); });
}
void squareplus_tile(const Tile& t) {
  const Floats b = param(t, 0);
  map<1>(t, [=](Floats x) HWY_ATTR { return hn::Mul(number(0.5F), hn::Add(x, hn::Sqrt(hn::MulAdd(x, x, b)))); });
}
void sparse_plus_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR {
    const Floats half = hn::MulAdd(x, number(0.5F), number(0.5F));
    const Floats inside = hn::IfThenZeroElse(hn::Le(x, number(-1)), hn::Mul(half, half));
    return hn::IfThenElse(hn::Ge(x, number(1)), x, inside);
  });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

void fill_elu(const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("alpha", 1));
  params[1] = static_cast<float>(attrs.f("scale", 1));
  params[2] = static_cast<float>(attrs.f("inner", 1));
}
void fill_shrink(const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("limit"));
  params[1] = static_cast<float>(attrs.f("shift"));
}
void fill_squareplus(const Attrs& attrs, float* params) { params[0] = static_cast<float>(attrs.f("b")); }

PLIMSOLL_TILE(elu, 3, fill_elu)
PLIMSOLL_TILE(elu_grad, 3, fill_elu)
PLIMSOLL_TILE(softplus)
PLIMSOLL_TILE(log_sigmoid)
PLIMSOLL_TILE(mish)
PLIMSOLL_TILE(mish_grad)
PLIMSOLL_TILE(hard_swish)
PLIMSOLL_TILE(hard_swish_grad)
PLIMSOLL_TILE(softsign)
PLIMSOLL_TILE(shrink, 2, fill_shrink)
PLIMSOLL_TILE(shrink_grad, 2, fill_shrink)
PLIMSOLL_TILE(tanh_shrink)
PLIMSOLL_TILE(squareplus, 1, fill_squareplus)
PLIMSOLL_TILE(sparse_plus)

void infer_elu(Infer& n) {
  for (const char* key : {"alpha", "scale", "inner"}) n.expect_finite(key, 1);
  infer_map(n);
}
void infer_shrink(Infer& n) {
  n.expect_between("limit", 0, 1e30, 0);
  n.expect_finite("shift");
  infer_map(n);
}
void infer_squareplus(Infer& n) {
  n.expect_between("b", 0, 1e30, 0);
  infer_map(n);
}

constexpr Op make_gradient(std::string_view name, Prepared (*prepare)(const Facts&), const TileOp* (*tile)(),
                           void (*grad)(Backward&) = nullptr) {
  return {.name = name,
          .infer = infer_same,
          .types = {kFloats},
          .grad = grad,
          .prepare = prepare,
          .traits = map_traits(0b11),
          .tile = tile};
}

extern const Op kShrinkGrad;
void grad_shrink_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, apply(kShrinkGrad, {b.dy[0], b.x[1]}, b.attrs));
}
const Op kEluGrad = make_gradient("elu_grad", prepare_tile<tile_of_elu_grad>, tile_of_elu_grad);
const Op kMishGrad = make_gradient("mish_grad", prepare_tile<tile_of_mish_grad>, tile_of_mish_grad);
const Op kHardSwishGrad =
    make_gradient("hard_swish_grad", prepare_tile<tile_of_hard_swish_grad>, tile_of_hard_swish_grad);
const Op kShrinkGrad =
    make_gradient("shrink_grad", prepare_tile<tile_of_shrink_grad>, tile_of_shrink_grad, grad_shrink_grad);

template <const Op& op>
void grad_by(Backward& b) {
  b.give(0, apply(op, {b.dy[0], b.x[0]}, b.attrs));
}
void grad_softplus(Backward& b) { b.give(0, mul(b.dy[0], sigmoid(b.x[0]))); }
void grad_log_sigmoid(Backward& b) { b.give(0, mul(b.dy[0], sigmoid(scale(b.x[0], -1)))); }
void grad_softsign(Backward& b) { b.give(0, mul(b.dy[0], square(scale(abs(b.y[0]), -1, 1)))); }
void grad_tanh_shrink(Backward& b) { b.give(0, mul(b.dy[0], square(sub(b.x[0], b.y[0])))); }
// (1 + x / root) / 2, and y is (x + root) / 2.
void grad_squareplus(Backward& b) {
  const Tensor root = sub(scale(b.y[0], 2), b.x[0]);
  b.give(0, mul(scale(b.dy[0], 0.5), scale(div(b.x[0], root), 1, 1)));
}
void grad_sparse_plus(Backward& b) { b.give(0, mul(b.dy[0], sparse_sigmoid(b.x[0]))); }

// Away from points without a slope, and over a wide range.
template <Tensor (*function)(Tensor)>
std::vector<Sample> samples() {
  const auto within = [](const char* name, double low, double high, bool has_gradient) {
    return Sample{name,
                  [=](SampleBuilder& s) {
                    return std::vector{function(s.input({Dim::batch(), 3, 5}, low, high))};
                  },
                  1e-4, has_gradient};
  };
  return {within("positive", 0.6, 0.9, true), within("negative", -0.9, -0.6, true), within("large", 3.5, 6, true),
          within("wide", -100, 100, false)};
}
#define SAMPLED(name, ...) \
  Tensor sampled_##name(Tensor x) { return name(x __VA_OPT__(, ) __VA_ARGS__); }
SAMPLED(elu, 0.7)
SAMPLED(softplus)
SAMPLED(log_sigmoid)
SAMPLED(mish)
SAMPLED(hard_swish)
SAMPLED(softsign)
SAMPLED(soft_shrink, 0.5)
SAMPLED(tanh_shrink)
SAMPLED(squareplus)
SAMPLED(sparse_plus)
SAMPLED(selu)
SAMPLED(celu, 1.5)
SAMPLED(hard_shrink, 0.5)
SAMPLED(hard_sigmoid)
SAMPLED(hard_tanh)
SAMPLED(sparse_sigmoid)
SAMPLED(threshold, 0.5, 0.25)
#undef SAMPLED

#define UNARY(constant, name, grad, onnx) \
  const Op constant =                     \
      make_unary(#name, grad, prepare_tile<tile_of_##name>, samples<sampled_##name>, tile_of_##name, onnx);
UNARY(kSoftplus, softplus, grad_softplus, "Softplus")
UNARY(kLogSigmoid, log_sigmoid, grad_log_sigmoid, "")
UNARY(kMish, mish, grad_by<kMishGrad>, "Mish")
UNARY(kHardSwish, hard_swish, grad_by<kHardSwishGrad>, "HardSwish")
UNARY(kSoftsign, softsign, grad_softsign, "Softsign")
UNARY(kTanhShrink, tanh_shrink, grad_tanh_shrink, "")
UNARY(kSparsePlus, sparse_plus, grad_sparse_plus, "")
#undef UNARY

constexpr Op with_settings(Op op, void (*infer)(Infer&)) {
  op.infer = infer;
  return op;
}
const Op kElu = with_settings(
    make_unary("elu", grad_by<kEluGrad>, prepare_tile<tile_of_elu>, samples<sampled_elu>, tile_of_elu, "Elu"),
    infer_elu);
const Op kShrink = with_settings(make_unary("shrink", grad_by<kShrinkGrad>, prepare_tile<tile_of_shrink>,
                                            samples<sampled_soft_shrink>, tile_of_shrink, "Shrink"),
                                 infer_shrink);
const Op kSquareplus = with_settings(make_unary("squareplus", grad_squareplus, prepare_tile<tile_of_squareplus>,
                                                samples<sampled_squareplus>, tile_of_squareplus, ""),
                                     infer_squareplus);

std::vector<Sample> samples_glu() {
  return {{"last axis",
           [](SampleBuilder& s) {
             return std::vector{glu(s.input({Dim::batch(), 3, 6}))};
           }},
          {"channels", [](SampleBuilder& s) {
             return std::vector{glu(s.input({Dim::batch(), 4, 3}), 1)};
           }}};
}
std::vector<Sample> samples_prelu() {
  return {{"channels",
           [](SampleBuilder& s) {
             return std::vector{prelu(s.input({Dim::batch(), 3, 5}, -1, -0.1), s.input({3, 1}, 0, 1)),
                                prelu(s.input({Dim::batch(), 5}, 0.1, 1), s.input({}))};
           }},
          {"mixed",
           [](SampleBuilder& s) {
             return std::vector{prelu(s.input({Dim::batch(), 3, 5}), s.input({5}, 0, 1))};
           },
           1e-4, false}};
}
const Op kComposed[] = {{.name = "selu", .samples = samples<sampled_selu>},
                        {.name = "celu", .samples = samples<sampled_celu>},
                        {.name = "hard_shrink", .samples = samples<sampled_hard_shrink>},
                        {.name = "hard_sigmoid", .samples = samples<sampled_hard_sigmoid>},
                        {.name = "hard_tanh", .samples = samples<sampled_hard_tanh>},
                        {.name = "sparse_sigmoid", .samples = samples<sampled_sparse_sigmoid>},
                        {.name = "threshold", .samples = samples<sampled_threshold>},
                        {.name = "glu", .samples = samples_glu},
                        {.name = "prelu", .samples = samples_prelu}};

Tensor shrink(Tensor x, double limit, double shift, Name name) {
  return apply(kShrink, {x}, {{"limit", limit}, {"shift", shift}}, name);
}

}  // namespace

Tensor softplus(Tensor x, Name name) { return apply(kSoftplus, {x}, {}, name); }
Tensor log_sigmoid(Tensor x, Name name) { return apply(kLogSigmoid, {x}, {}, name); }
Tensor mish(Tensor x, Name name) { return apply(kMish, {x}, {}, name); }
Tensor hard_swish(Tensor x, Name name) { return apply(kHardSwish, {x}, {}, name); }
Tensor softsign(Tensor x, Name name) { return apply(kSoftsign, {x}, {}, name); }
Tensor tanh_shrink(Tensor x, Name name) { return apply(kTanhShrink, {x}, {}, name); }
Tensor sparse_plus(Tensor x, Name name) { return apply(kSparsePlus, {x}, {}, name); }
Tensor squareplus(Tensor x, double b, Name name) { return apply(kSquareplus, {x}, {{"b", b}}, name); }
Tensor soft_shrink(Tensor x, double limit, Name name) { return shrink(x, limit, limit, name); }
Tensor hard_shrink(Tensor x, double limit, Name name) { return shrink(x, limit, 0, name); }
Tensor elu(Tensor x, double alpha, Name name) { return apply(kElu, {x}, {{"alpha", alpha}}, name); }
Tensor selu(Tensor x, Name name) {
  return apply(kElu, {x}, {{"alpha", 1.6732632423543772}, {"scale", 1.0507009873554805}}, name);
}
Tensor celu(Tensor x, double alpha, Name name) {
  if (!(alpha > 0))
    throw Error(fmt::format("celu '{}': alpha must be positive but is {}", std::string_view(name), alpha));
  return apply(kElu, {x}, {{"alpha", alpha}, {"inner", 1 / alpha}}, name);
}
Tensor hard_sigmoid(Tensor x, double slope, double offset, Name name) {
  return clip(scale(x, slope, offset), 0, 1, name);
}
Tensor hard_tanh(Tensor x, Name name) { return clip(x, -1, 1, name); }
Tensor sparse_sigmoid(Tensor x, Name name) { return clip(scale(x, 0.5, 0.5), 0, 1, name); }
Tensor threshold(Tensor x, double limit, double value, Name name) {
  Graph& graph = x.graph();
  const Tensor is_above = greater(x, graph.scalar(static_cast<float>(limit)));
  return where(is_above, x, graph.scalar(static_cast<float>(value)), name);
}
Tensor prelu(Tensor x, Tensor slope, Name name) {
  return where(greater(x, x.graph().scalar(0)), x, mul(x, slope), name);
}
Tensor glu(Tensor x, int axis, Name name) {
  const Dim size = x.rank() == 0 ? Dim(0) : x.dim(axis);
  if (size.is_batch() || size.fixed() % 2 != 0 || size.fixed() == 0)
    throw Error(
        fmt::format("glu '{}': axis {} of {} can't be halved", std::string_view(name), axis, to_string(x.type())));
  const std::vector<Tensor> halves = split(x, {size.fixed() / 2, size.fixed() / 2}, axis);
  return mul(halves[0], sigmoid(halves[1]), name);
}

OpList activations_ops() {
  OpList all{&kElu,           &kEluGrad,  &kSoftplus, &kLogSigmoid, &kMish,       &kMishGrad,   &kHardSwish,
             &kHardSwishGrad, &kSoftsign, &kShrink,   &kShrinkGrad, &kTanhShrink, &kSquareplus, &kSparsePlus};
  for (const Op& op : kComposed) all.push_back(&op);
  return all;
}

}  // namespace plimsoll::ops
#endif

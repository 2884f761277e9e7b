// attention: softmax(scale q k^T + biases) v for each head, tile by tile, so that positions x positions are never held.
// The second output is the log-sum-exp of each query; from it the backward pass recomputes the tiles. Where a query may
// attend to nothing the result is zero.
#include "kernels/attention.h"

#include <cmath>

#include <fmt/format.h>

#include "graph/shape.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// The order of heads and positions: [B,H,T,D], or [B,T,H,D] as projections make them (layout "bthd").
struct Axes {
  int heads, rows;
};
Axes axes_of(const Attrs& attrs) { return attrs.s("layout") == "bthd" ? Axes{2, 1} : Axes{1, 2}; }

// What may follow the first inputs, in this order: a mask, then what the settings name. 0: not there.
struct Extras {
  Extras(const Attrs& attrs, size_t first, size_t count) {
    const std::pair<const char*, size_t*> settings[] = {{"bias", &bias}, {"sequences", &sequences}, {"past", &past}};
    for (const auto& setting : settings)
      if (attrs.i(setting.first) != 0) ++named;
    const bool has_mask = count == first + named + 1;
    is_right = has_mask || count == first + named;
    if (!is_right) return;
    if (has_mask) mask = first++;
    for (const auto& [name, at] : settings)
      if (attrs.i(name) != 0) *at = first++;
  }
  size_t mask = 0, bias = 0, sequences = 0, past = 0, named = 0;
  bool is_right = false;
};

constexpr int64_t kWidestWindow = int64_t{1} << 40;

void expect_type(const Infer& n, size_t input, DType dtype, std::string_view what) {
  if (n.in[input].dtype != dtype)
    n.fail(fmt::format("{} is {} but must be {}", what, to_string(n.in[input]), name_of(dtype)));
}

void expect_scores(const Infer& n, size_t input, const Shape& scores, std::string_view what) {
  if (!(broadcast(n.in[input].shape, scores) == scores))
    n.fail(fmt::format("{} is {} but must broadcast to {}", what, to_string(n.in[input]), to_string(scores)));
}

void infer(Infer& n) {
  n.expect_inputs(3, 7);
  n.expect_finite("scale");
  n.expect_between("cap", 0, 1e30, 0);
  if (n.attrs.i("window") < 0) n.fail(fmt::format("the window of {} keys must be positive", n.attrs.i("window")));
  for (const size_t i : {0, 1, 2}) n.expect_rank(i, 4);
  const Shape& q = n.in[0].shape;
  const Shape& k = n.in[1].shape;
  const Shape& v = n.in[2].shape;
  const Axes axes = axes_of(n.attrs);
  Shape like_q = k, like_k = v;
  like_q[axes.rows] = q[axes.rows];
  like_q[axes.heads] = q[axes.heads];
  like_k[3] = k[3];
  if (!(like_q == q) || !(like_k == k))
    n.fail(
        fmt::format("q {}, k {} and v {} must agree in all but the numbers of queries and of heads of q, and the "
                    "width of v",
                    to_string(q), to_string(k), to_string(v)));
  const Dim heads = q[axes.heads], key_heads = k[axes.heads];
  const bool are_grouped =
      !heads.is_batch() && !key_heads.is_batch() && key_heads.fixed() > 0 && heads.fixed() % key_heads.fixed() == 0;
  if (!(heads == key_heads) && !are_grouped)
    n.fail(fmt::format("{} heads of queries can't share {} heads of keys", to_string(heads), to_string(key_heads)));
  const Shape scores{q[0], heads, q[axes.rows], k[axes.rows]};
  const Extras more(n.attrs, 3, n.in.size());
  if (!more.is_right) n.fail(fmt::format("{} inputs are given, but settings name {}", n.in.size(), 3 + more.named));
  if (more.mask != 0) {
    expect_type(n, more.mask, DType::Bool, "the mask");
    expect_scores(n, more.mask, scores, "the mask");
  }
  if (more.bias != 0) {
    expect_type(n, more.bias, DType::F32, "the bias");
    expect_scores(n, more.bias, scores, "the bias");
  }
  if (more.sequences != 0) {
    expect_type(n, more.sequences, DType::I32, "the tensor of sequences");
    if (!(q[axes.rows] == k[axes.rows]) || more.past != 0 || !(n.in[more.sequences].shape == Shape{q[0], k[axes.rows]}))
      n.fail(fmt::format("the tensor of sequences is {} but must be [{},{}], and queries must be the keys' positions",
                         to_string(n.in[more.sequences]), to_string(q[0]), to_string(k[axes.rows])));
  }
  if (more.past != 0) {
    expect_type(n, more.past, DType::I32, "the number of past keys");
    const Shape& past = n.in[more.past].shape;
    if (!(past == Shape{q[0]}) && !(past == Shape{1}))
      n.fail(fmt::format("the number of past keys is {} but must be [1] or [{}]", to_string(n.in[more.past]),
                         to_string(q[0])));
  }
  Shape y = q;
  y[3] = v[3];
  n.out = {{DType::F32, y}, {DType::F32, {q[0], heads, q[axes.rows]}}};
}

// Strides of a tensor that broadcasts to scores.
ScoreOrder order_of(Dims dims) {
  while (dims.rank() < 4) dims.insert(0, 1);
  ScoreOrder order;
  int64_t stride = 1;
  int64_t* const strides[] = {&order.sample, &order.head, &order.query, &order.key};
  for (int i = 3; i >= 0; --i) {
    *strides[i] = dims[i] == 1 ? 0 : stride;
    stride *= dims[i];
  }
  return order;
}

AttentionSizes sizes_of(const Facts& facts, const Extras& more) {
  const Axes axes = axes_of(facts.attrs);
  const Dims& q = facts.in[0].dims;
  const Dims& k = facts.in[1].dims;
  AttentionSizes n;
  n.batch = q[0];
  n.heads = q[axes.heads];
  n.key_heads = k[axes.heads];
  n.queries = q[axes.rows];
  n.keys = k[axes.rows];
  n.width = q[3];
  n.value_width = facts.in[2].dims[3];
  const auto heads_in = [&](int64_t heads, int64_t rows, int64_t width) {
    return axes.heads == 1 ? HeadOrder{heads * rows * width, rows * width, width}
                           : HeadOrder{heads * rows * width, width, heads * width};
  };
  n.q = heads_in(n.heads, n.queries, n.width);
  n.y = heads_in(n.heads, n.queries, n.value_width);
  n.k = heads_in(n.key_heads, n.keys, n.width);
  n.v = heads_in(n.key_heads, n.keys, n.value_width);
  n.causal = facts.attrs.i("causal") != 0;
  n.alibi = facts.attrs.i("alibi") != 0;
  n.window = std::min(facts.attrs.i("window"), kWidestWindow);
  n.cap = static_cast<float>(facts.attrs.f("cap"));
  const double scale = facts.attrs.f("scale");
  n.scale = static_cast<float>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(n.width)));
  if (more.mask != 0) n.mask = order_of(facts.in[more.mask].dims);
  if (more.bias != 0) n.bias = order_of(facts.in[more.bias].dims);
  if (more.past != 0) n.past = facts.in[more.past].dims[0] == 1 ? 0 : 1;
  return n;
}

AttentionArrays arrays_of(const Args& args, const Extras& more) {
  AttentionArrays in{args.input<float>(0), args.input<float>(1), args.input<float>(2)};
  if (more.mask != 0) in.mask = args.input<uint8_t>(more.mask);
  if (more.bias != 0) in.bias = args.input<float>(more.bias);
  if (more.sequences != 0) in.sequences = args.input<int32_t>(more.sequences);
  if (more.past != 0) in.past = args.input<int32_t>(more.past);
  return in;
}

Bytes workspace_of(int slots, int64_t floats) { return slots * floats * static_cast<Bytes>(sizeof(float)); }

Prepared prepare(const Facts& facts) {
  const Extras more(facts.attrs, 3, facts.in.size());
  const AttentionSizes n = sizes_of(facts, more);
  const int slots = thread_slots();
  return {.kernel = make_kernel([=](const Args& args) {
            attend(n, arrays_of(args, more), args.output<float>(0), args.output<float>(1),
                   static_cast<float*>(args.workspace), slots);
          }),
          .workspace_bytes = workspace_of(slots, n.forward_floats())};
}

// Gradients. Inputs: q, k, v, y, log-sum-exp, dy, then what the operator had beside q, k and v.
constexpr size_t kGradInputs = 6;

void infer_grad(Infer& n) {
  n.expect_inputs(kGradInputs, kGradInputs + 4);
  n.out = {n.in[0], n.in[1], n.in[2]};
}

void infer_bias_grad(Infer& n) {
  n.expect_inputs(kGradInputs + 1, kGradInputs + 4);
  n.out = {n.in[Extras(n.attrs, kGradInputs, n.in.size()).bias]};
}

AttentionArrays arrays_of_grad(const Args& args, const Extras& more) {
  AttentionArrays in = arrays_of(args, more);
  in.y = args.input<float>(3);
  in.sums = args.input<float>(4);
  in.dy = args.input<float>(5);
  return in;
}

Prepared prepare_grad(const Facts& facts) {
  const Extras more(facts.attrs, kGradInputs, facts.in.size());
  const AttentionSizes n = sizes_of(facts, more);
  const int slots = thread_slots();
  return {.kernel = make_kernel([=](const Args& args) {
            attend_back(n, arrays_of_grad(args, more), args.output<float>(0), args.output<float>(1),
                        args.output<float>(2), static_cast<float*>(args.workspace), slots);
          }),
          .workspace_bytes = workspace_of(slots, n.backward_floats())};
}

bool has_samples(std::span<const TensorType> in, const Extras& more) {
  return element_count(in[more.bias].shape).is_batch();
}

BatchRule batch_rule_of_bias(const Attrs& attrs, std::span<const TensorType> in) {
  return has_samples(in, Extras(attrs, kGradInputs, in.size())) ? BatchRule::Rows : BatchRule::Sums;
}

Prepared prepare_bias_grad(const Facts& facts) {
  const Extras more(facts.attrs, kGradInputs, facts.in.size());
  const AttentionSizes n = sizes_of(facts, more);
  const int slots = thread_slots();
  const bool adds = facts.accumulate;
  const int64_t count = facts.out[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            auto* dbias = args.output<float>(0);
            if (!adds) std::fill_n(dbias, count, 0.0F);
            bias_back(n, arrays_of_grad(args, more), dbias, static_cast<float*>(args.workspace), slots);
          }),
          .workspace_bytes = workspace_of(slots, n.backward_floats())};
}

// Scores that are made: those in sight, in whole tiles. Sequences are known to the kernel alone.
double pairs(const AttentionSizes& n) {
  const auto queries = static_cast<double>(n.queries), keys = static_cast<double>(n.keys);
  double seen = n.causal ? keys / 2 : keys;
  if (n.window > 0) seen = std::min(seen, static_cast<double>((n.causal ? 1 : 2) * n.window + AttentionSizes::kKeys));
  return static_cast<double>(n.batch * n.heads) * queries * seen;
}

Cost cost(const Facts& facts) {
  const AttentionSizes n = sizes_of(facts, Extras(facts.attrs, 3, facts.in.size()));
  return {2 * pairs(n) * static_cast<double>(n.width + n.value_width), 0.65};
}
Cost cost_grad(const Facts& facts) {
  const AttentionSizes n = sizes_of(facts, Extras(facts.attrs, kGradInputs, facts.in.size()));
  return {pairs(n) * static_cast<double>(6 * n.width + 4 * n.value_width), 0.8};
}
Cost cost_bias_grad(const Facts& facts) {
  const AttentionSizes n = sizes_of(facts, Extras(facts.attrs, kGradInputs, facts.in.size()));
  return {2 * pairs(n) * static_cast<double>(n.width + n.value_width), 0.5};
}

constexpr DTypes kExtraTypes{DType::Bool, DType::F32, DType::I32};
constexpr InputTypes kGradTypes{DType::F32, DType::F32, DType::F32, DType::F32, DType::F32, DType::F32, kExtraTypes};

const Op kAttentionGrad{.name = "attention_grad",
                        .infer = infer_grad,
                        .types = kGradTypes,
                        .prepare = prepare_grad,
                        .cost = cost_grad,
                        .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1 << 3}};

const Op kBiasGrad{.name = "attention_bias_grad",
                   .infer = infer_bias_grad,
                   .types = kGradTypes,
                   .prepare = prepare_bias_grad,
                   .cost = cost_bias_grad,
                   .traits = {.batch = BatchRule::Sums, .recomputable = true},
                   .batch_rule = batch_rule_of_bias};

void grad(Backward& b) {
  if (!b.dy[0].is_set()) return;
  std::vector<Tensor> inputs{b.x[0], b.x[1], b.x[2], b.y[0], b.y[1], b.dy[0]};
  inputs.insert(inputs.end(), b.x.begin() + 3, b.x.end());
  if (b.wanted[0] || b.wanted[1] || b.wanted[2]) {
    const Outputs dx = apply(kAttentionGrad, inputs, b.attrs);
    for (int i = 0; i < 3; ++i)
      if (b.wanted[static_cast<size_t>(i)]) b.give(static_cast<size_t>(i), dx[i]);
  }
  const size_t bias = Extras(b.attrs, 3, b.x.size()).bias;
  if (bias != 0 && b.wanted[bias]) b.give(bias, apply(kBiasGrad, inputs, b.attrs)[0]);
}

extern const Op kAttention;

Sample sample(std::string name, Shape q, Shape k, const Shape& mask, const Attrs& attrs) {
  return {std::move(name), [=](SampleBuilder& s) {
            std::vector<Tensor> inputs{s.input(q), s.input(k), s.input(k)};
            if (!mask.empty()) inputs.push_back(s.integers(mask, 0, 2, DType::Bool));
            return std::vector<Tensor>{apply(kAttention, inputs, attrs)};
          }};
}

std::vector<Sample> samples() {
  const Dim b = Dim::batch();
  const Attrs causal{{"causal", int64_t{1}}};
  return {
      {"plain",
       [=](SampleBuilder& s) {
         return std::vector{attention(s.input({b, 2, 5, 4}), s.input({b, 2, 5, 4}), s.input({b, 2, 5, 4}))};
       }},
      sample("wide", {b, 1, 3, 19}, {b, 1, 2, 19}, {}, {}),
      sample("causal", {b, 2, 7, 3}, {b, 2, 7, 3}, {}, causal),
      sample("causal, other keys", {b, 1, 4, 3}, {b, 1, 6, 3}, {}, causal),
      sample("padding mask", {b, 2, 3, 4}, {b, 2, 5, 4}, {b, 1, 1, 5}, {{"scale", 0.7}}),
      sample("full mask", {b, 2, 3, 4}, {b, 2, 5, 4}, {b, 1, 3, 5}, {}),
      sample("shared mask, causal", {b, 2, 5, 2}, {b, 2, 5, 2}, {5, 5}, causal),
      sample("several tiles", {b, 1, 70, 1}, {b, 1, 67, 1}, {}, causal),
      sample("positions before heads", {b, 5, 2, 3}, {b, 4, 2, 3}, {b, 1, 1, 4}, {{"layout", "bthd"}}),
      sample("grouped queries", {b, 4, 5, 3}, {b, 2, 6, 3}, {}, {}),
      sample("one head of keys, positions first", {b, 5, 3, 2}, {b, 5, 1, 2}, {},
             {{"layout", "bthd"}, {"causal", int64_t{1}}}),
      sample("window, causal", {b, 1, 9, 2}, {b, 1, 9, 2}, {}, {{"causal", int64_t{1}}, {"window", int64_t{3}}}),
      sample("window on both sides, several tiles", {b, 1, 150, 1}, {b, 1, 140, 1}, {}, {{"window", int64_t{5}}}),
      sample("slopes of six heads", {b, 6, 4, 2}, {b, 3, 5, 2}, {}, {{"alibi", int64_t{1}}}),
      sample("cap", {b, 2, 4, 3}, {b, 2, 5, 3}, {b, 1, 4, 5}, {{"cap", 0.8}, {"scale", 2.0}}),
      {"another width of values",
       [=](SampleBuilder& s) {
         return std::vector{attention(s.input({b, 2, 5, 4}), s.input({b, 1, 5, 4}), s.input({b, 1, 5, 6}), {}, true)};
       }},
      {"bias of heads, cap",
       [=](SampleBuilder& s) {
         return std::vector{attention(s.input({b, 4, 5, 2}), s.input({b, 2, 4, 2}), s.input({b, 2, 4, 2}), {}, true, 0,
                                      false, s.input({4, 5, 4}), 0, 1.5)};
       }},
      {"bias of samples and keys, mask",
       [=](SampleBuilder& s) {
         const Tensor q = s.input({b, 3, 2, 2}), k = s.input({b, 70, 2, 2});
         return std::vector{
             attention(q, k, k, s.integers({b, 1, 1, 70}, 0, 2, DType::Bool), false, 0, true, s.input({b, 1, 1, 70}))};
       }},
      {"bias of queries",
       [=](SampleBuilder& s) {
         const Tensor q = s.input({b, 2, 67, 2}), k = s.input({b, 2, 3, 2});
         return std::vector{attention(q, k, k, {}, false, 0, false, s.input({67, 1}))};
       }},
      {"sequences",
       [=](SampleBuilder& s) {
         const Tensor x = s.input({b, 2, 7, 3});
         return std::vector{attention(x, x, x, {}, true, 0, false, {}, 0, 0, false, s.integers({b, 7}, 0, 3))};
       }},
      {"past keys", [=](SampleBuilder& s) {
         const Tensor q = s.input({b, 2, 2, 3}), k = s.input({b, 1, 9, 3});
         return std::vector{attention(q, k, k, {}, true, 0, false, {}, 4, 0, true, {}, s.integers({b}, -1, 9)),
                            attention(q, k, k, {}, true, 0, false, {}, 0, 0, false, {}, s.integers({1}, 0, 9))};
       }}};
}

const Op kAttention{.name = "attention",
                    .storable = true,
                    .infer = infer,
                    .types = {DType::F32, DType::F32, DType::F32, kExtraTypes},
                    .grad = grad,
                    .prepare = prepare,
                    .cost = cost,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true}};

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, Tensor mask, bool causal, double scale, bool positions_first,
                 Tensor bias, int64_t window, double cap, bool alibi, Tensor sequences, Tensor past, Name name) {
  Attrs attrs;
  if (causal) attrs.set("causal", int64_t{1});
  if (scale != 0) attrs.set("scale", scale);
  if (positions_first) attrs.set("layout", "bthd");
  if (window != 0) attrs.set("window", window);
  if (cap != 0) attrs.set("cap", cap);
  if (alibi) attrs.set("alibi", int64_t{1});
  std::vector<Tensor> inputs{q, k, v};
  if (mask.is_set()) inputs.push_back(mask);
  const auto add = [&](const char* what, const Tensor& extra) {
    if (!extra.is_set()) return;
    attrs.set(what, int64_t{1});
    inputs.push_back(extra);
  };
  add("bias", bias);
  add("sequences", sequences);
  add("past", past);
  return apply(kAttention, inputs, attrs, name);
}

OpList attention_ops() { return {&kAttention, &kAttentionGrad, &kBiasGrad}; }

}  // namespace plimsoll::ops

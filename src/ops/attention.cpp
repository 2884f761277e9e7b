// attention: softmax(scale q k^T + mask) v for each head, tile by tile, so that T x T is never held. The second output
// is the log-sum-exp of each query; from it the backward pass recomputes the tiles. Where a query may attend to
// nothing the result is zero.
//
// Scores are kept transposed (a row for each key, queries in the lanes): softmax runs down the rows without crossing
// lanes, and of all five products only q and dy have to be packed.
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "graph/shape.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/tile_gemm-inl.h"

#ifndef PLIMSOLL_OPS_ATTENTION_ONCE
#define PLIMSOLL_OPS_ATTENTION_ONCE
namespace plimsoll::ops {
namespace {

constexpr int64_t kQueries = 64;  // of a tile
constexpr int64_t kKeys = 64;

struct AttentionSizes {
  int64_t batch, heads, queries, keys, width;
  int64_t sample_stride_q, sample_stride_k, head_stride_q, head_stride_k, row_stride;
  int64_t mask_sample = 0, mask_head = 0, mask_query = 0, mask_key = 0;  // strides
  bool causal = false;
  float scale = 1;

  int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
  // Keys that the queries before `last_query` may see.
  int64_t visible(int64_t last_query) const { return causal ? std::min(keys, last_query) : keys; }
  int64_t at_q(int64_t head) const { return head / heads * sample_stride_q + head % heads * head_stride_q; }
  int64_t at_k(int64_t head) const { return head / heads * sample_stride_k + head % heads * head_stride_k; }
  int64_t at_mask(int64_t head) const { return head / heads * mask_sample + head % heads * mask_head; }

  // Floats of one slot of workspace.
  int64_t forward_floats() const { return width * kQueries + kKeys * kQueries + 3 * kQueries; }
  int64_t backward_floats() const { return 3 * width * kQueries + 2 * kKeys * kQueries + 2 * kQueries; }
};

struct AttentionArrays {
  const float *q, *k, *v;
  const uint8_t* mask;
  const float *y, *sums, *dy;  // backward
};

}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// to[j][i] = factor * from[i][j], rows of kQueries; the lanes beyond `rows` become zero.
void pack_transposed(const float* from, int64_t row_stride, int64_t rows, int64_t width, float factor, float* to) {
  for (int64_t j = 0; j < width; ++j) {
    float* row = to + j * kQueries;
    for (int64_t i = 0; i < rows; ++i) row[i] = factor * from[i * row_stride + j];
    for (int64_t i = rows; i < kQueries; ++i) row[i] = 0;
  }
}

// Sets masked scores of a tile to minus infinity.
void apply_mask(const AttentionSizes& n, const uint8_t* mask, int64_t query, int64_t queries, int64_t key, int64_t keys,
                float* scores) {
  for (int64_t j = 0; j < keys; ++j) {
    float* row = scores + j * kQueries;
    if (n.causal)
      for (int64_t i = 0; i < std::min(queries, key + j - query); ++i) row[i] = -INFINITY;
    if (mask == nullptr) continue;
    const uint8_t* at = mask + (key + j) * n.mask_key + query * n.mask_query;
    if (n.mask_query == 0) {
      if (*at == 0) std::fill_n(row, queries, -INFINITY);
    } else {
      for (int64_t i = 0; i < queries; ++i)
        if (at[i * n.mask_query] == 0) row[i] = -INFINITY;
    }
  }
}

// Turns scores into exp(score - top) under the new top; `factor` is what earlier sums shrink by.
void soften(int64_t lanes_used, int64_t keys, float* scores, float* top, float* total, float* factor) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < lanes_used; c += lanes) {
    const Floats before = hn::LoadU(d, top + c);
    Floats next = before;
    for (int64_t j = 0; j < keys; ++j) next = hn::Max(next, hn::LoadU(d, scores + j * kQueries + c));
    const Floats shift = hn::IfThenZeroElse(hn::Eq(next, hn::Set(d, -INFINITY)), next);
    Floats sum = hn::Zero(d);
    for (int64_t j = 0; j < keys; ++j) {
      float* at = scores + j * kQueries + c;
      const Floats e = fast_exp(d, hn::Sub(hn::LoadU(d, at), shift));
      hn::StoreU(e, d, at);
      sum = hn::Add(sum, e);
    }
    const Floats shrink = fast_exp(d, hn::Sub(before, shift));
    hn::StoreU(shrink, d, factor + c);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, total + c), shrink, sum), d, total + c);
    hn::StoreU(next, d, top + c);
  }
}

void scale_row(float* row, int64_t count, float factor) {
  const FloatTag d;
  const Floats f = hn::Set(d, factor);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR { part.store(d, hn::Mul(part.load(d, row + i), f), row + i); });
}

// Queries [first, first + kQueries) of one head.
void forward_block(const AttentionSizes& n, const AttentionArrays& in, int64_t head, int64_t first, float* y,
                   float* sums, float* workspace) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  const int64_t queries = std::min(kQueries, n.queries - first);
  const int64_t lanes_used = (queries + lanes - 1) / lanes * lanes;
  float* packed_q = workspace;
  float* scores = packed_q + n.width * kQueries;
  float* top = scores + kKeys * kQueries;
  float* total = top + kQueries;
  float* factor = total + kQueries;
  const float* k = in.k + n.at_k(head);
  const float* v = in.v + n.at_k(head);
  const uint8_t* mask = in.mask != nullptr ? in.mask + n.at_mask(head) : nullptr;
  y += n.at_q(head) + first * n.row_stride;
  pack_transposed(in.q + n.at_q(head) + first * n.row_stride, n.row_stride, queries, n.width, n.scale, packed_q);
  std::fill_n(top, kQueries, -INFINITY);
  std::fill_n(total, kQueries, 0.0F);

  const int64_t visible = n.visible(first + queries);
  for (int64_t key = 0; key < visible; key += kKeys) {
    const int64_t keys = std::min(kKeys, visible - key);
    multiply_tiles(keys, lanes_used, n.width, {k + key * n.row_stride, n.row_stride, 1}, packed_q, kQueries, scores,
                   kQueries, false);
    apply_mask(n, mask, first, queries, key, keys, scores);
    soften(lanes_used, keys, scores, top, total, factor);
    for (int64_t i = 0; i < queries && key > 0; ++i)
      if (factor[i] != 1) scale_row(y + i * n.row_stride, n.width, factor[i]);
    multiply_tiles(queries, n.width, keys, {scores, 1, kQueries}, v + key * n.row_stride, n.row_stride, y, n.row_stride,
                   key > 0);
  }
  for (int64_t i = 0; i < queries; ++i) {
    // Nothing to attend to: zero, and a log-sum-exp under which every probability is zero again.
    scale_row(y + i * n.row_stride, n.width, total[i] == 0 ? 0 : 1 / total[i]);
    sums[head * n.queries + first + i] = total[i] == 0 ? INFINITY : top[i] + std::log(total[i]);
  }
}

// In place: the probabilities p of scores.
void probabilities(int64_t lanes_used, int64_t keys, const float* sums, float* scores) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t c = 0; c < lanes_used; c += lanes) {
      float* at = scores + j * kQueries + c;
      hn::StoreU(fast_exp(d, hn::Sub(hn::LoadU(d, at), hn::LoadU(d, sums + c))), d, at);
    }
}

// In place: p (dp - delta) scale from dp, the gradients of scores; `scores` holds p.
void score_slopes(int64_t lanes_used, int64_t keys, const float* scores, const float* delta, float scale,
                  float* slopes) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Floats factor = hn::Set(d, scale);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t c = 0; c < lanes_used; c += lanes) {
      float* at = slopes + j * kQueries + c;
      const Floats p = hn::Mul(hn::LoadU(d, scores + j * kQueries + c), factor);
      hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, at), hn::LoadU(d, delta + c))), d, at);
    }
}

float dot(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  Floats sum = hn::Zero(d);
  for_vectors(count,
              [&](int64_t i, auto part) HWY_ATTR { sum = hn::MulAdd(part.load(d, a + i), part.load(d, b + i), sum); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The gradients of one head. Rows of dq are written after the last read of the same rows of y.
void backward_head(const AttentionSizes& n, const AttentionArrays& in, int64_t head, float* dq, float* dk, float* dv,
                   float* workspace) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  const int64_t row = n.row_stride;
  float* packed_q = workspace;
  float* packed_dy = packed_q + n.width * kQueries;
  float* dq_sum = packed_dy + n.width * kQueries;
  float* scores = dq_sum + n.width * kQueries;
  float* slopes = scores + kKeys * kQueries;
  float* delta = slopes + kKeys * kQueries;
  float* sums = delta + kQueries;
  const float* k = in.k + n.at_k(head);
  const float* v = in.v + n.at_k(head);
  const uint8_t* mask = in.mask != nullptr ? in.mask + n.at_mask(head) : nullptr;
  dk += n.at_k(head);
  dv += n.at_k(head);
  for (int64_t j = 0; j < n.keys; ++j) {
    std::fill_n(dk + j * row, n.width, 0.0F);
    std::fill_n(dv + j * row, n.width, 0.0F);
  }
  for (int64_t first = 0; first < n.queries; first += kQueries) {
    const int64_t queries = std::min(kQueries, n.queries - first);
    const int64_t lanes_used = (queries + lanes - 1) / lanes * lanes;
    const int64_t at_q = n.at_q(head) + first * row;
    const float* q = in.q + at_q;
    const float* dy = in.dy + at_q;
    pack_transposed(q, row, queries, n.width, n.scale, packed_q);
    pack_transposed(dy, row, queries, n.width, 1, packed_dy);
    for (int64_t i = 0; i < kQueries; ++i) {
      delta[i] = i < queries ? dot(dy + i * row, in.y + at_q + i * row, n.width) : 0;
      sums[i] = i < queries ? in.sums[head * n.queries + first + i] : INFINITY;
    }
    const int64_t visible = n.visible(first + queries);
    for (int64_t key = 0; key < visible; key += kKeys) {
      const int64_t keys = std::min(kKeys, visible - key);
      multiply_tiles(keys, lanes_used, n.width, {k + key * row, row, 1}, packed_q, kQueries, scores, kQueries, false);
      apply_mask(n, mask, first, queries, key, keys, scores);
      probabilities(lanes_used, keys, sums, scores);
      multiply_tiles(keys, n.width, queries, {scores, kQueries, 1}, dy, row, dv + key * row, row, true);
      multiply_tiles(keys, lanes_used, n.width, {v + key * row, row, 1}, packed_dy, kQueries, slopes, kQueries, false);
      score_slopes(lanes_used, keys, scores, delta, n.scale, slopes);
      multiply_tiles(keys, n.width, queries, {slopes, kQueries, 1}, q, row, dk + key * row, row, true);
      multiply_tiles(queries, n.width, keys, {slopes, 1, kQueries}, k + key * row, row, dq_sum, n.width, key > 0);
    }
    for (int64_t i = 0; i < queries; ++i)
      std::memcpy(dq + at_q + i * row, dq_sum + i * n.width, static_cast<size_t>(n.width) * sizeof(float));
  }
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(forward_block);
HWY_EXPORT(backward_head);

// The order of heads and positions: [B,H,T,D], or [B,T,H,D] as projections make them (layout "bthd").
struct Axes {
  int heads, rows;
};
Axes axes_of(const Attrs& attrs) { return attrs.s("layout") == "bthd" ? Axes{2, 1} : Axes{1, 2}; }

void infer(Infer& n) {
  n.expect_inputs(3, 4);
  n.expect_finite("scale");
  for (const size_t i : {0, 1, 2}) n.expect_rank(i, 4);
  const Shape& q = n.in[0].shape;
  const Shape& k = n.in[1].shape;
  const Axes axes = axes_of(n.attrs);
  Shape like_q = k;
  like_q[axes.rows] = q[axes.rows];
  if (!(like_q == q) || !(n.in[2].shape == k))
    n.fail(fmt::format("q {}, k {} and v {} must agree in all but the number of queries", to_string(q), to_string(k),
                       to_string(n.in[2].shape)));
  const Shape scores{q[0], q[axes.heads], q[axes.rows], k[axes.rows]};
  if (n.in.size() == 4 && !(broadcast(n.in[3].shape, scores) == scores))
    n.fail(fmt::format("the mask is {} but must broadcast to {}", to_string(n.in[3]), to_string(scores)));
  n.out = {{DType::F32, q}, {DType::F32, {q[0], q[axes.heads], q[axes.rows]}}};
}

AttentionSizes sizes_of(const Facts& facts, int mask_input) {
  const Axes axes = axes_of(facts.attrs);
  const Dims& q = facts.in[0].dims;
  const Dims& k = facts.in[1].dims;
  AttentionSizes n{};
  n.batch = q[0];
  n.heads = q[axes.heads];
  n.queries = q[axes.rows];
  n.keys = k[axes.rows];
  n.width = q[3];
  n.sample_stride_q = n.heads * n.queries * n.width;
  n.sample_stride_k = n.heads * n.keys * n.width;
  const bool heads_first = axes.heads == 1;
  n.head_stride_q = heads_first ? n.queries * n.width : n.width;
  n.head_stride_k = heads_first ? n.keys * n.width : n.width;
  n.row_stride = heads_first ? n.width : n.heads * n.width;
  n.causal = facts.attrs.i("causal") != 0;
  const double scale = facts.attrs.f("scale");
  n.scale = static_cast<float>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(n.width)));
  if (mask_input < static_cast<int>(facts.in.size())) {
    Dims mask = facts.in[static_cast<size_t>(mask_input)].dims;
    while (mask.rank() < 4) mask.insert(0, 1);
    int64_t stride = 1;
    int64_t* const strides[] = {&n.mask_sample, &n.mask_head, &n.mask_query, &n.mask_key};
    for (int i = 3; i >= 0; --i) {
      *strides[i] = mask[i] == 1 ? 0 : stride;
      stride *= mask[i];
    }
  }
  return n;
}

Prepared prepare(const Facts& facts) {
  const AttentionSizes n = sizes_of(facts, 3);
  const bool masked = facts.in.size() == 4;
  const int slots = thread_slots();
  return {.kernel = make_kernel([=](const Args& args) {
            const AttentionArrays in{args.input<float>(0),
                                     args.input<float>(1),
                                     args.input<float>(2),
                                     masked ? args.input<uint8_t>(3) : nullptr,
                                     nullptr,
                                     nullptr,
                                     nullptr};
            auto* workspace = static_cast<float*>(args.workspace);
            parallel_items(n.batch * n.heads * n.query_blocks(), slots, [&](int64_t item, int slot) {
              HWY_DYNAMIC_DISPATCH(forward_block)
              (n, in, item / n.query_blocks(), item % n.query_blocks() * kQueries, args.output<float>(0),
               args.output<float>(1), workspace + slot * n.forward_floats());
            });
          }),
          .workspace_bytes = slots * n.forward_floats() * static_cast<Bytes>(sizeof(float))};
}

// Inputs: q, k, v, y, log-sum-exp, dy, [mask].
void infer_grad(Infer& n) {
  n.expect_inputs(6, 7);
  n.out = {n.in[0], n.in[1], n.in[2]};
}

Prepared prepare_grad(const Facts& facts) {
  const AttentionSizes n = sizes_of(facts, 6);
  const bool masked = facts.in.size() == 7;
  const int slots = thread_slots();
  return {.kernel = make_kernel([=](const Args& args) {
            const AttentionArrays in{args.input<float>(0), args.input<float>(1),
                                     args.input<float>(2), masked ? args.input<uint8_t>(6) : nullptr,
                                     args.input<float>(3), args.input<float>(4),
                                     args.input<float>(5)};
            auto* workspace = static_cast<float*>(args.workspace);
            parallel_items(n.batch * n.heads, slots, [&](int64_t head, int slot) {
              HWY_DYNAMIC_DISPATCH(backward_head)
              (n, in, head, args.output<float>(0), args.output<float>(1), args.output<float>(2),
               workspace + slot * n.backward_floats());
            });
          }),
          .workspace_bytes = slots * n.backward_floats() * static_cast<Bytes>(sizeof(float))};
}

double pairs(const Facts& facts, int mask_input) {
  const AttentionSizes n = sizes_of(facts, mask_input);
  return static_cast<double>(n.batch * n.heads * n.queries * n.keys) * (n.causal ? 0.5 : 1.0);
}

Cost cost(const Facts& facts) { return {4.0 * pairs(facts, 3) * static_cast<double>(facts.in[0].dims[3]), 0.65}; }
Cost cost_grad(const Facts& facts) { return {10.0 * pairs(facts, 6) * static_cast<double>(facts.in[0].dims[3]), 0.8}; }

const Op kAttentionGrad{.name = "attention_grad",
                        .infer = infer_grad,
                        .types = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32, DType::F32, DType::Bool},
                        .prepare = prepare_grad,
                        .cost = cost_grad,
                        .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1 << 3}};

void grad(Backward& b) {
  if (!b.dy[0].is_set()) return;
  std::vector<Tensor> inputs{b.x[0], b.x[1], b.x[2], b.y[0], b.y[1], b.dy[0]};
  if (b.x.size() == 4) inputs.push_back(b.x[3]);
  const Outputs dx = apply(kAttentionGrad, inputs, b.attrs);
  for (int i = 0; i < 3; ++i)
    if (b.wanted[static_cast<size_t>(i)]) b.give(static_cast<size_t>(i), dx[i]);
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
  return {{"plain",
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
          sample("positions before heads", {b, 5, 2, 3}, {b, 4, 2, 3}, {b, 1, 1, 4}, {{"layout", "bthd"}})};
}

const Op kAttention{.name = "attention",
                    .storable = true,
                    .infer = infer,
                    .types = {DType::F32, DType::F32, DType::F32, DType::Bool},
                    .grad = grad,
                    .prepare = prepare,
                    .cost = cost,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true}};

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, Tensor mask, bool causal, double scale, bool positions_first,
                 Name name) {
  Attrs attrs;
  if (causal) attrs.set("causal", int64_t{1});
  if (scale != 0) attrs.set("scale", scale);
  if (positions_first) attrs.set("layout", "bthd");
  std::vector<Tensor> inputs{q, k, v};
  if (mask.is_set()) inputs.push_back(mask);
  return apply(kAttention, inputs, attrs, name);
}

OpList attention_ops() { return {&kAttention, &kAttentionGrad}; }

}  // namespace plimsoll::ops
#endif

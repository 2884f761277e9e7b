// Scores are kept transposed (a row for each key, queries in the lanes): softmax runs down the rows without crossing
// lanes, and of all five products only q and dy have to be packed.
#include "kernels/attention.h"

#include <cmath>
#include <cstring>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/tile_gemm-inl.h"
#include "kernels/tile_math-inl.h"

#ifndef PLIMSOLL_KERNELS_ATTENTION_ONCE
#define PLIMSOLL_KERNELS_ATTENTION_ONCE
namespace plimsoll::kernels {
namespace {

constexpr int64_t kQueries = AttentionSizes::kQueries;
constexpr int64_t kKeys = AttentionSizes::kKeys;

// One head of one sample.
struct Head {
  Head(const AttentionSizes& n, const AttentionArrays& in, int64_t sample, int64_t head)
      : n(n),
        in(in),
        number(sample * n.heads + head),
        q(sample * n.q.sample + head * n.q.head),
        k(sample * n.k.sample + head / n.group() * n.k.head),
        v(sample * n.v.sample + head / n.group() * n.v.head),
        y(sample * n.y.sample + head * n.y.head),
        mask(sample * n.mask.sample + head * n.mask.head),
        bias(sample * n.bias.sample + head * n.bias.head),
        sequences(in.sequences != nullptr ? in.sequences + sample * n.keys : nullptr),
        past(in.past != nullptr ? std::clamp<int64_t>(in.past[sample * n.past], -n.queries, n.keys) : 0) {
    // As its authors have it: for 8 heads 1/2, 1/4 ... 1/256; other numbers take those of the next lower power of two,
    // then every second of the next higher one.
    if (!n.alibi) return;
    int64_t whole = 1;
    while (2 * whole <= n.heads) whole *= 2;
    const double at = head < whole ? static_cast<double>(head + 1) : static_cast<double>(head - whole) + 0.5;
    slope = static_cast<float>(std::exp2(-8.0 * at / static_cast<double>(whole)));
  }

  const AttentionSizes& n;
  const AttentionArrays& in;
  int64_t number, q, k, v, y, mask, bias;
  const int32_t* sequences;
  int64_t past;
  float slope = 0;
};

struct Range {
  int64_t first, last;
  bool is_empty() const { return first >= last; }
};

// Keys that any of these queries may see by their position; whole tiles at the front.
Range visible(const Head& head, int64_t query, int64_t queries) {
  const AttentionSizes& n = head.n;
  const int64_t first = query + head.past, last = first + queries - 1;
  Range keys{0, n.keys};
  if (n.causal) keys.last = std::min(n.keys, last + 1);
  if (n.window > 0) {
    keys.first = std::max<int64_t>(0, first - n.window + 1) / kKeys * kKeys;
    if (!n.causal) keys.last = std::min(n.keys, last + n.window);
  }
  return keys;
}

// Whether no key of the tile is of a sequence of these queries, as far as the least and greatest numbers tell.
bool is_apart(const Head& head, int64_t query, int64_t queries, int64_t key, int64_t keys) {
  if (head.sequences == nullptr) return false;
  const auto [least, most] = std::minmax_element(head.sequences + query, head.sequences + query + queries);
  const auto [low, high] = std::minmax_element(head.sequences + key, head.sequences + key + keys);
  return *high < *least || *low > *most;
}

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

int64_t whole_lanes(int64_t queries) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  return (queries + lanes - 1) / lanes * lanes;
}

// to[j][i] = factor * from[i][j], rows of kQueries; the lanes beyond `rows` become zero.
void pack_transposed(const float* from, int64_t row_stride, int64_t rows, int64_t width, float factor, float* to) {
  for (int64_t j = 0; j < width; ++j) {
    float* row = to + j * kQueries;
    for (int64_t i = 0; i < rows; ++i) row[i] = factor * from[i * row_stride + j];
    for (int64_t i = rows; i < kQueries; ++i) row[i] = 0;
  }
}

// In place: cap tanh(score / cap); `slopes`, where they are wanted, become its derivative.
void cap_scores(float cap, int64_t lanes_used, int64_t keys, float* scores, float* slopes) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Floats high = hn::Set(d, cap), shrink = hn::Set(d, 1 / cap);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t c = j * kQueries; c < j * kQueries + lanes_used; c += lanes) {
      const Floats t = tanh_of(hn::Mul(hn::LoadU(d, scores + c), shrink));
      hn::StoreU(hn::Mul(high, t), d, scores + c);
      if (slopes != nullptr) hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0F)), d, slopes + c);
    }
}

// row[i] -= slope |i - nearest|.
void fall_with_distance(float slope, int64_t nearest, int64_t lanes_used, float* row) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Floats by = hn::Set(d, slope), from = hn::Set(d, static_cast<float>(nearest));
  for (int64_t c = 0; c < lanes_used; c += lanes) {
    const Floats distance = hn::Abs(hn::Sub(hn::Iota(d, static_cast<float>(c)), from));
    hn::StoreU(hn::NegMulAdd(by, distance, hn::LoadU(d, row + c)), d, row + c);
  }
}

// Biases of a tile, then minus infinity where a key must not be seen.
void add_biases(const Head& head, int64_t query, int64_t queries, int64_t key, int64_t keys, float* scores) {
  const AttentionSizes& n = head.n;
  const int64_t position = query + head.past;  // of the tile's first query
  for (int64_t j = 0; j < keys; ++j) {
    float* row = scores + j * kQueries;
    const int64_t nearest = key + j - position;  // the query at this key's position
    if (n.alibi) fall_with_distance(head.slope, nearest, whole_lanes(queries), row);
    if (head.in.bias != nullptr) {
      const float* at = head.in.bias + head.bias + (key + j) * n.bias.key + query * n.bias.query;
      for (int64_t i = 0; i < queries; ++i) row[i] += at[i * n.bias.query];
    }
    if (n.causal && nearest > 0) std::fill_n(row, std::min(queries, nearest), -INFINITY);
    if (n.window > 0) {
      const int64_t before = nearest - n.window;  // the last query that is too early, and the first too late
      if (!n.causal && before >= 0) std::fill_n(row, std::min(queries, before + 1), -INFINITY);
      const int64_t late = std::max<int64_t>(0, nearest + n.window);
      if (late < queries) std::fill(row + late, row + queries, -INFINITY);
    }
    if (head.sequences != nullptr) {
      const int32_t own = head.sequences[key + j];
      for (int64_t i = 0; i < queries; ++i)
        if (head.sequences[query + i] != own) row[i] = -INFINITY;
    }
    if (head.in.mask != nullptr) {
      const uint8_t* at = head.in.mask + head.mask + (key + j) * n.mask.key + query * n.mask.query;
      if (n.mask.query == 0) {
        if (*at == 0) std::fill_n(row, queries, -INFINITY);
      } else {
        for (int64_t i = 0; i < queries; ++i)
          if (at[i * n.mask.query] == 0) row[i] = -INFINITY;
      }
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

// Queries from `first` on, one block.
void attend_block(const Head& head, int64_t first, float* y, float* sums, float* workspace) {
  const AttentionSizes& n = head.n;
  const int64_t queries = std::min(kQueries, n.queries - first);
  const int64_t lanes_used = whole_lanes(queries);
  float* packed_q = workspace;
  float* scores = packed_q + n.width * kQueries;
  float* top = scores + kKeys * kQueries;
  float* total = top + kQueries;
  float* factor = total + kQueries;
  const float* k = head.in.k + head.k;
  const float* v = head.in.v + head.v;
  y += head.y + first * n.y.row;
  pack_transposed(head.in.q + head.q + first * n.q.row, n.q.row, queries, n.width, n.scale, packed_q);
  std::fill_n(top, kQueries, -INFINITY);
  std::fill_n(total, kQueries, 0.0F);

  const Range seen = visible(head, first, queries);
  bool has_begun = false;
  for (int64_t key = seen.first; key < seen.last; key += kKeys) {
    const int64_t keys = std::min(kKeys, seen.last - key);
    if (is_apart(head, first, queries, key, keys)) continue;
    multiply_tiles(keys, lanes_used, n.width, {k + key * n.k.row, n.k.row, 1}, packed_q, kQueries, scores, kQueries,
                   false);
    if (n.cap != 0) cap_scores(n.cap, lanes_used, keys, scores, nullptr);
    add_biases(head, first, queries, key, keys, scores);
    soften(lanes_used, keys, scores, top, total, factor);
    for (int64_t i = 0; i < queries && has_begun; ++i)
      if (factor[i] != 1) scale_row(y + i * n.y.row, n.value_width, factor[i]);
    multiply_tiles(queries, n.value_width, keys, {scores, 1, kQueries}, v + key * n.v.row, n.v.row, y, n.y.row,
                   has_begun);
    has_begun = true;
  }
  for (int64_t i = 0; i < queries; ++i) {
    // Nothing to attend to: zero, and a log-sum-exp under which every probability is zero again.
    if (total[i] == 0)
      std::fill_n(y + i * n.y.row, n.value_width, 0.0F);
    else
      scale_row(y + i * n.y.row, n.value_width, 1 / total[i]);
    sums[head.number * n.queries + first + i] = total[i] == 0 ? INFINITY : top[i] + std::log(total[i]);
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

void multiply_in_place(int64_t lanes_used, int64_t keys, const float* by, float* x) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t c = j * kQueries; c < j * kQueries + lanes_used; c += lanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, x + c), hn::LoadU(d, by + c)), d, x + c);
}

float dot(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  Floats sum = hn::Zero(d);
  for_vectors(count,
              [&](int64_t i, auto part) HWY_ATTR { sum = hn::MulAdd(part.load(d, a + i), part.load(d, b + i), sum); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// One block of queries of one head in a backward pass, and the tiles of keys that it meets.
class BackwardBlock {
 public:
  BackwardBlock(const Head& head, int64_t first, float* workspace)
      : head_(head),
        n_(head.n),
        first_(first),
        queries_(std::min(kQueries, head.n.queries - first)),
        lanes_used_(whole_lanes(queries_)),
        packed_q_(workspace),
        packed_dy_(packed_q_ + n_.width * kQueries),
        dq_sum_(packed_dy_ + n_.value_width * kQueries),
        scores_(dq_sum_ + n_.width * kQueries),
        slopes_(scores_ + kKeys * kQueries),
        delta_(slopes_ + kKeys * kQueries),
        sums_(delta_ + kQueries),
        capped_(n_.cap != 0 ? sums_ + kQueries : nullptr),
        q_(head.in.q + head.q + first * n_.q.row),
        dy_(head.in.dy + head.y + first * n_.y.row) {
    pack_transposed(q_, n_.q.row, queries_, n_.width, n_.scale, packed_q_);
    pack_transposed(dy_, n_.y.row, queries_, n_.value_width, 1, packed_dy_);
    const float* y = head.in.y + head.y + first * n_.y.row;
    for (int64_t i = 0; i < kQueries; ++i) {
      delta_[i] = i < queries_ ? dot(dy_ + i * n_.y.row, y + i * n_.y.row, n_.value_width) : 0;
      sums_[i] = i < queries_ ? head.in.sums[head.number * n_.queries + first + i] : INFINITY;
    }
  }

  // Tiles of the keys in `keys` that the block sees; each body(key, how many) finds p and p (dp - delta) factor.
  template <class Body>
  void for_tiles(Range keys, float factor, const Body& body) {
    const Range seen = visible(head_, first_, queries_);
    keys = {std::max(keys.first, seen.first), std::min(keys.last, seen.last)};
    for (int64_t key = keys.first; key < keys.last; key += kKeys) {
      const int64_t count = std::min(kKeys, keys.last - key);
      if (is_apart(head_, first_, queries_, key, count)) continue;
      const float* k = head_.in.k + head_.k + key * n_.k.row;
      const float* v = head_.in.v + head_.v + key * n_.v.row;
      multiply_tiles(count, lanes_used_, n_.width, {k, n_.k.row, 1}, packed_q_, kQueries, scores_, kQueries, false);
      if (capped_ != nullptr) cap_scores(n_.cap, lanes_used_, count, scores_, capped_);
      add_biases(head_, first_, queries_, key, count, scores_);
      probabilities(lanes_used_, count, sums_, scores_);
      multiply_tiles(count, lanes_used_, n_.value_width, {v, n_.v.row, 1}, packed_dy_, kQueries, slopes_, kQueries,
                     false);
      score_slopes(lanes_used_, count, scores_, delta_, factor, slopes_);
      body(key, count);
    }
  }

  // dk and dv, where they are wanted, grow by what this block adds to the rows `keys`; dq is written.
  void run(Range keys, float* dq, float* dk, float* dv) {
    bool has_begun = false;
    for_tiles(keys, n_.scale, [&](int64_t key, int64_t count) {
      if (capped_ != nullptr) multiply_in_place(lanes_used_, count, capped_, slopes_);
      if (dk != nullptr) {
        multiply_tiles(count, n_.value_width, queries_, {scores_, kQueries, 1}, dy_, n_.y.row,
                       dv + head_.v + key * n_.v.row, n_.v.row, true);
        multiply_tiles(count, n_.width, queries_, {slopes_, kQueries, 1}, q_, n_.q.row, dk + head_.k + key * n_.k.row,
                       n_.k.row, true);
      }
      if (dq != nullptr)
        multiply_tiles(queries_, n_.width, count, {slopes_, 1, kQueries}, head_.in.k + head_.k + key * n_.k.row,
                       n_.k.row, dq_sum_, n_.width, has_begun);
      has_begun = true;
    });
    if (dq == nullptr) return;
    dq += head_.q + first_ * n_.q.row;
    for (int64_t i = 0; i < queries_; ++i) {
      if (has_begun)
        std::memcpy(dq + i * n_.q.row, dq_sum_ + i * n_.width, static_cast<size_t>(n_.width) * sizeof(float));
      else
        std::fill_n(dq + i * n_.q.row, n_.width, 0.0F);
    }
  }

  void add_bias_slopes(Range keys, float* dbias) {
    const ScoreOrder& order = n_.bias;
    dbias += head_.bias + first_ * order.query;
    for_tiles(keys, 1, [&](int64_t key, int64_t count) {
      for (int64_t j = 0; j < count; ++j)
        for (int64_t i = 0; i < queries_; ++i)
          dbias[(key + j) * order.key + i * order.query] += slopes_[j * kQueries + i];
    });
  }

 private:
  const Head& head_;
  const AttentionSizes& n_;
  int64_t first_, queries_, lanes_used_;
  float *packed_q_, *packed_dy_, *dq_sum_, *scores_, *slopes_, *delta_, *sums_;
  float* capped_;  // the derivative of the cap
  const float *q_, *dy_;
};

// All that the heads of queries which share keys add to the rows `keys` of their gradients, in a fixed order; and their
// dq, where that is wanted. Rows of dq are written after the last read of the same rows of y.
void back_of_keys(const AttentionSizes& n, const AttentionArrays& in, int64_t item, Range keys, float* dq, float* dk,
                  float* dv, float* workspace) {
  const int64_t sample = item / n.key_heads, key_head = item % n.key_heads;
  for (int64_t j = keys.first; j < keys.last; ++j) {
    std::fill_n(dk + sample * n.k.sample + key_head * n.k.head + j * n.k.row, n.width, 0.0F);
    std::fill_n(dv + sample * n.v.sample + key_head * n.v.head + j * n.v.row, n.value_width, 0.0F);
  }
  for (int64_t i = 0; i < n.group(); ++i) {
    const Head head(n, in, sample, key_head * n.group() + i);
    for (int64_t first = 0; first < n.queries; first += kQueries)
      BackwardBlock(head, first, workspace).run(keys, dq, dk, dv);
  }
}

void back_of_queries(const Head& head, int64_t first, float* dq, float* workspace) {
  BackwardBlock(head, first, workspace).run({0, head.n.keys}, dq, nullptr, nullptr);
}

void back_of_bias(const Head& head, int64_t first, Range keys, float* dbias, float* workspace) {
  BackwardBlock(head, first, workspace).add_bias_slopes(keys, dbias);
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(attend_block);
HWY_EXPORT(back_of_keys);
HWY_EXPORT(back_of_queries);
HWY_EXPORT(back_of_bias);

}  // namespace

void attend(const AttentionSizes& n, const AttentionArrays& in, float* y, float* sums, float* workspace, int slots) {
  const int64_t blocks = n.query_blocks();
  parallel_items(n.batch * n.heads * blocks, slots, [&](int64_t item, int slot) {
    const int64_t number = item / blocks;
    HWY_DYNAMIC_DISPATCH(attend_block)
    (Head(n, in, number / n.heads, number % n.heads), item % blocks * kQueries, y, sums,
     workspace + slot * n.forward_floats());
  });
}

void attend_back(const AttentionSizes& n, const AttentionArrays& in, float* dq, float* dk, float* dv, float* workspace,
                 int slots) {
  const int64_t items = n.batch * n.key_heads;
  const auto slot_of = [&](int slot) { return workspace + slot * n.backward_floats(); };
  if (items >= slots || n.query_blocks() * n.group() == 1) {
    parallel_items(items, slots, [&](int64_t item, int slot) {
      HWY_DYNAMIC_DISPATCH(back_of_keys)(n, in, item, {0, n.keys}, dq, dk, dv, slot_of(slot));
    });
    return;
  }
  // Too few heads for all threads: tiles of keys, then blocks of queries, whose scores are made once more. Sums run in
  // the same order.
  const int64_t tiles = n.key_blocks();
  parallel_items(items * tiles, slots, [&](int64_t item, int slot) {
    const int64_t key = item % tiles * kKeys;
    HWY_DYNAMIC_DISPATCH(back_of_keys)
    (n, in, item / tiles, {key, std::min(n.keys, key + kKeys)}, nullptr, dk, dv, slot_of(slot));
  });
  const int64_t blocks = n.query_blocks();
  parallel_items(n.batch * n.heads * blocks, slots, [&](int64_t item, int slot) {
    const int64_t number = item / blocks;
    HWY_DYNAMIC_DISPATCH(back_of_queries)
    (Head(n, in, number / n.heads, number % n.heads), item % blocks * kQueries, dq, slot_of(slot));
  });
}

void bias_back(const AttentionSizes& n, const AttentionArrays& in, float* dbias, float* workspace, int slots) {
  if (n.bias.key == 0) return;  // scores of a query that move alike change nothing
  parallel_items(n.key_blocks(), slots, [&](int64_t item, int slot) {
    const Range keys{item * kKeys, std::min(n.keys, (item + 1) * kKeys)};
    for (int64_t number = 0; number < n.batch * n.heads; ++number) {
      const Head head(n, in, number / n.heads, number % n.heads);
      for (int64_t first = 0; first < n.queries; first += kQueries)
        HWY_DYNAMIC_DISPATCH(back_of_bias)(head, first, keys, dbias, workspace + slot * n.backward_floats());
    }
  });
}

}  // namespace plimsoll::kernels
#endif

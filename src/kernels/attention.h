// softmax(scale q k^T + ...) v for each head, tile by tile, so that positions x positions are never held; its
// gradients, from the log-sum-exp of each query.
#pragma once

#include <algorithm>
#include <cstdint>

#include <plimsoll/types.h>

namespace plimsoll::kernels {

// Elements from one to the next.
struct HeadOrder {
  int64_t sample = 0, head = 0, row = 0;
};
struct ScoreOrder {
  int64_t sample = 0, head = 0, query = 0, key = 0;
};

struct AttentionSizes {
  static constexpr int64_t kQueries = 64;  // of a tile
  static constexpr int64_t kKeys = 64;

  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  int64_t key_heads = 0;  // divides `heads`: so many neighbouring heads of queries share keys and values
  HeadOrder q, k, v, y;
  ScoreOrder mask, bias;
  int64_t past = 0;  // from one sample's to the next
  bool causal = false;
  bool alibi = false;  // scores fall with the distance, by another slope in each head
  int64_t window = 0;  // keys are seen that are fewer positions away; 0: all
  float scale = 1;
  float cap = 0;  // scores become cap tanh(score / cap) before biases and masks; 0: they stay

  int64_t group() const { return heads / std::max<int64_t>(1, key_heads); }
  int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
  int64_t key_blocks() const { return (keys + kKeys - 1) / kKeys; }

  // Floats of one slot of workspace.
  int64_t forward_floats() const { return width * kQueries + kKeys * kQueries + 3 * kQueries; }
  int64_t backward_floats() const {
    return (2 * width + value_width) * kQueries + (cap != 0 ? 3 : 2) * kKeys * kQueries + 2 * kQueries;
  }
};

struct AttentionArrays {
  const float *q, *k, *v;
  const uint8_t* mask = nullptr;       // 0 where a key must not be seen
  const float* bias = nullptr;         // added to scores
  const int32_t* sequences = nullptr;  // [samples, keys]: a query sees the keys of its own sequence
  const int32_t* past = nullptr;       // keys that come before the first query
  const float *y = nullptr, *sums = nullptr, *dy = nullptr;  // gradients alone
};

// `sums` becomes the log-sum-exp of each query. A query that may see nothing gives zeros, and infinity as its sum.
void attend(const AttentionSizes& n, const AttentionArrays& in, float* y, float* sums, float* workspace, int slots);
// dq may be y. The same bits for any number of slots.
void attend_back(const AttentionSizes& n, const AttentionArrays& in, float* dq, float* dk, float* dv, float* workspace,
                 int slots);
// Adds the gradient of the bias to `dbias`, which has its order.
void bias_back(const AttentionSizes& n, const AttentionArrays& in, float* dbias, float* workspace, int slots);

}  // namespace plimsoll::kernels

// A training step whose batch is cut into shards: gradients of each shard, added up in a fixed tree, then one update.
#pragma once

#include <span>
#include <vector>

#include <plimsoll/optimiser.h>
#include "autodiff/sharding.h"

namespace plimsoll::autodiff {

// The steps of a rank for one batch, with `levels` = log2 of the shards that the rank takes one after another:
//   add        the gradients of one shard, times its samples
//   merges[t]  after shard i that is not the last, t being the number of trailing ones of i: its sum joins those of
//              the shards before it, as a binary counter carries
//   apply      joins the last shard, adds up over all ranks, and updates the weights from the mean over all samples
// So the tree of additions depends on the number of shards in all, not on how many ranks share them. A weight takes
// levels + 1 more f32 for each element. Statistics of layers are added up like gradients: their means over all samples
// move the running ones, once for each batch.
//
// Where ranks share gradients, sums over ranks are taken in `add` instead: a rank keeps its slice of each sum, and the
// gradient of a shard dies as soon as it was sent. The tree stays the same when rank r of n takes the shards r, n + r,
// 2n + r and so on. Where they share state, each rank updates its slice of a weight, and all gather the weight.
struct ShardedUpdates {
  Updates add, apply;
  std::vector<Updates> merges;
  std::vector<SharedVariable> shared;  // the optimiser's
};
// `only`: the weights to train; none: all.
ShardedUpdates update_in_shards(Tensor loss, const Optimiser& optimiser, int levels, std::span<const Tensor> only = {},
                                const SharedTensors& shared = {});

// The number of trailing ones: which merge follows a shard.
int trailing_ones(int64_t shard);

}  // namespace plimsoll::autodiff

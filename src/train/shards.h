// How the batch of a training is cut into shards, and which of them this rank takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include <plimsoll/session.h>
#include "ranks/communicator.h"
#include "train/epoch_sums.h"

namespace plimsoll::train {

struct Spec;

struct Shards {
  int64_t total = 1;      // in a batch; the leaves of the tree that sums are taken in
  int64_t own = 1;        // of this rank, one after another
  int64_t first = 0;      // the first of this rank's shards
  int64_t stride = 1;     // from one of those to the next
  int64_t samples = 0;    // of the largest shard of a full batch
  bool is_cut = false;    // false: the batch is one step
  bool is_fixed = false;  // their number was given: it does not follow that of the ranks
  int levels() const;     // of sums that a rank keeps; -1 where nothing is cut
  // The sample of a batch at which shard `shard` of all begins. Where the batch does not divide evenly, the first
  // shards have one sample more; the last ones may have none.
  int64_t begin_of(int64_t shard, int64_t batch) const {
    return shard * (batch / total) + std::min(shard, batch % total);
  }
  int64_t size_of(int64_t shard, int64_t batch) const { return begin_of(shard + 1, batch) - begin_of(shard, batch); }
  // The number among all shards of one of this rank's.
  int64_t number_of(int64_t own_shard) const { return first + own_shard * stride; }
  int64_t own_size(int64_t batch) const { return place_of(own, batch); }
  // Where one of its shards begins among its own samples.
  int64_t place_of(int64_t own_shard, int64_t batch) const {
    int64_t place = 0;
    for (int64_t i = 0; i < own_shard; ++i) place += size_of(number_of(i), batch);
    return place;
  }
};

// Sizes of shards of batches of so many samples, the largest first; 0 where a shard has no sample.
std::vector<int64_t> list_shard_sizes(const Shards& shards, std::initializer_list<int64_t> batches);

// Throws Error(Usage) where a batch has fewer samples.
void expect_a_sample_for_each(int64_t shards, int64_t batch);

// Throws Error(Usage) for numbers that can't be: shards must be a power of two and a multiple of the ranks, and the
// batch must have a sample for each.
Shards cut_into_shards(const Spec& spec, int64_t batch);

// What the steps of all shards of a batch fetched, on all ranks. Summed in the order of shards, so that metrics have
// the same bits for any number of ranks. Allocates nothing after construction.
class ShardRecords {
 public:
  ShardRecords(const Shards& shards, ranks::Communicator* communicator, size_t width);

  // The numbers of a shard of this rank, zeros until they are set.
  std::span<double> own(int64_t shard) {
    return std::span(mine_).subspan(1 + static_cast<size_t>(shard) * width_, width_);
  }
  void set_stop_asked() { mine_[0] = 1; }
  // Gathers the records of all ranks; throws Error when a rank does not answer.
  void exchange();
  void add_to(EpochSums& sums) const;
  bool is_stop_asked() const;  // on any rank, after exchange
  double samples() const;      // of all shards
  double loss() const;         // mean over those
  void clear() { std::fill(mine_.begin(), mine_.end(), 0.0); }

 private:
  std::span<const double> shard(int64_t number) const;

  const Shards shards_;
  ranks::Communicator* const communicator_;
  const size_t width_;
  std::vector<double> mine_, all_;
};

}  // namespace plimsoll::train

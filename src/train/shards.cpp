#include "train/shards.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "train/spec.h"

namespace plimsoll::train {

int Shards::levels() const { return is_cut ? std::countr_zero(static_cast<uint64_t>(own)) : -1; }

std::vector<int64_t> list_shard_sizes(const Shards& shards, std::initializer_list<int64_t> batches) {
  std::vector<int64_t> sizes;
  for (const int64_t batch : batches)
    if (batch > 0)
      for (int64_t shard = 0; shard < shards.total; ++shard) sizes.push_back(shards.size_of(shard, batch));
  std::ranges::sort(sizes, std::greater());
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  return sizes;
}

void expect_a_sample_for_each(int64_t shards, int64_t batch) {
  if (batch < shards)
    throw Error(fmt::format("a batch of {0} can't be cut into {1} shards; try a batch of {1}", batch, shards),
                ErrorKind::Usage);
}

Shards cut_into_shards(const Spec& spec, int64_t batch) {
  const int ranks = spec.communicator ? spec.communicator->size() : 1;
  const auto refuse = [](const std::string& why) { throw Error(why, ErrorKind::Usage); };
  if (spec.shards == 0 && ranks == 1) return {.samples = batch};
  Shards shards{.total = spec.shards > 0 ? spec.shards : ranks, .is_cut = true, .is_fixed = spec.shards > 0};
  if (spec.shards > 0 && !std::has_single_bit(static_cast<uint64_t>(spec.shards)))
    refuse(fmt::format("{} shards make no tree; give a power of two: {} or {}", spec.shards,
                       std::bit_floor(static_cast<uint64_t>(spec.shards)),
                       std::bit_ceil(static_cast<uint64_t>(spec.shards))));
  if (shards.total % ranks != 0)
    refuse(fmt::format("{} shards can't be shared by {} ranks; give a number of ranks that divides them", shards.total,
                       ranks));
  expect_a_sample_for_each(shards.total, batch);
  if (spec.accumulate > 1)
    refuse(fmt::format("{} batches for each update can't be combined with shards; give a batch of {} instead",
                       spec.accumulate, batch * spec.accumulate));
  if (spec.pipeline.most_corrupt > 0)
    refuse("samples can't be passed over while ranks or shards divide them; correct the data, or train alone");
  shards.own = shards.total / ranks;
  shards.first = spec.communicator ? spec.communicator->rank() * shards.own : 0;
  // Gradients that ranks share are summed over ranks first, then over the shards of a rank: neighbouring leaves of the
  // tree are then on different ranks.
  if (ranks > 1 && spec.sharding >= Sharding::Gradients) {
    shards.first = spec.communicator->rank();
    shards.stride = ranks;
  }
  shards.samples = shards.size_of(0, batch);
  return shards;
}

ShardRecords::ShardRecords(const Shards& shards, ranks::Communicator* communicator, size_t width)
    : shards_(shards),
      communicator_(communicator),
      width_(width),
      mine_(1 + static_cast<size_t>(shards.own) * width),
      all_(mine_.size() * static_cast<size_t>(shards.total / shards.own)) {}

void ShardRecords::exchange() {
  if (communicator_ == nullptr)
    std::ranges::copy(mine_, all_.begin());
  else
    communicator_->gather(std::as_bytes(std::span(mine_)), std::as_writable_bytes(std::span(all_)));
}

std::span<const double> ShardRecords::shard(int64_t number) const {
  const bool is_spread = shards_.stride > 1;
  const auto rank = static_cast<size_t>(is_spread ? number % shards_.stride : number / shards_.own);
  const auto own = static_cast<size_t>(is_spread ? number / shards_.stride : number % shards_.own);
  return std::span(all_).subspan(rank * mine_.size() + 1 + own * width_, width_);
}

void ShardRecords::add_to(EpochSums& sums) const {
  for (int64_t i = 0; i < shards_.total; ++i) sums.add(shard(i));
}

bool ShardRecords::is_stop_asked() const {
  for (size_t at = 0; at < all_.size(); at += mine_.size())
    if (all_[at] != 0) return true;
  return false;
}

double ShardRecords::samples() const {
  double samples = 0;
  for (int64_t i = 0; i < shards_.total; ++i) samples += shard(i)[0];
  return samples;
}

double ShardRecords::loss() const {
  double loss = 0;
  for (int64_t i = 0; i < shards_.total; ++i) loss += shard(i)[1];
  return loss / samples();
}

}  // namespace plimsoll::train

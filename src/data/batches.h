// Batches of samples from several files of equal length, in file order or shuffled, into the caller's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <plimsoll/bytes.h>
#include <plimsoll/memory_line.h>
#include "data/convert.h"
#include "data/permutation.h"
#include "data/source.h"

namespace plimsoll::data {

struct BatchOptions {
  int64_t batch = 1;
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_remainder = false;                              // leave out a last batch that is not full
  std::vector<std::optional<Conversion>> conversions = {};  // one for each source, or none at all
};

// All that is needed to go on later: the same files, seed, epoch and position give the same batches.
struct BatchState {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  // samples of this epoch already given out
  bool operator==(const BatchState&) const = default;
};

// The sources must outlive it. Starts at epoch 0.
class Batches {
 public:
  // What converting takes at least, in a piece; a sample that is longer is read whole.
  static constexpr Bytes kStagingBytes = 64 * KiB;

  // Reserves its staging buffer, if a conversion needs one, under Tag::Data. Throws Error(BadData) when the sources
  // differ in length, Error(Usage) for options that make no sense.
  Batches(std::vector<const Source*> sources, BatchOptions options, MemoryLine& line);

  int64_t batch() const { return options_.batch; }
  int64_t samples() const { return samples_; }  // of an epoch, before a remainder is dropped
  int64_t batches_per_epoch() const;
  int sources() const { return static_cast<int>(sources_.size()); }
  DType dtype(int source) const;  // after conversion
  const std::vector<int64_t>& sample_shape(int source) const { return sources_[source]->sample_shape(); }
  Bytes row_bytes(int source) const;  // after conversion

  void start_epoch(int64_t epoch) { seek({options_.seed, epoch, 0}); }

  // Fills row i of each target with sample i of the next batch; a target holds batch() rows. Returns the number of
  // rows, 0 when the epoch is over. After an Error the position is what it was before.
  int64_t next(std::span<void* const> into);

  BatchState state() const { return {options_.seed, epoch_, position_}; }
  void seek(const BatchState& state);  // throws Error(Usage) for a position that does not exist

 private:
  void read_rows(int source, int64_t first, int64_t count, std::byte* into);
  int64_t sample_at(int64_t position) const { return options_.shuffle ? order_(position) : position; }

  const std::vector<const Source*> sources_;
  BatchOptions options_;
  const int64_t samples_;
  Permutation order_;
  int64_t epoch_ = 0;
  int64_t position_ = 0;
  Reservation staging_held_;
  Bytes staging_bytes_ = 0;
  std::unique_ptr<std::byte[]> staging_;
};

}  // namespace plimsoll::data

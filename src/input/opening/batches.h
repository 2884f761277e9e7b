// Batches that a dataset of the user makes, and how a batch feeds the tensors of a step.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/dataset.h>

namespace plimsoll::input {

// Datasets whose elements are batches.
struct BatchedData {
  std::optional<Dataset> train, test;
  bool is_empty() const { return !train && !test; }
};

struct BatchCount {
  int64_t batch = 0;                 // samples of a batch, but the last of an epoch
  int64_t batches = 0;               // of an epoch, Dataset::kInfinite or kUnknown
  std::optional<int64_t> rest = {};  // samples of a last batch that is not full; 0: there is none; unset: not known
  int64_t samples() const;           // of an epoch, Dataset::kInfinite or kUnknown
};
// Throws Error(Usage) for elements that are no batches, or batches of different shapes.
BatchCount count_batches(const Dataset& dataset);

// Whether the elements of a dataset are what its stage `batch` makes, as far as that is known.
bool holds_batches(const Dataset& dataset);

// Whether a step may read the batches where they lie: slots of a few bytes are not aligned.
bool lie_aligned(const Dataset& dataset);

// A tensor that a step is fed, and the component of a batch that holds its numbers.
struct FedTensor {
  Tensor placeholder;
  std::string component;
};

// Batches of one dataset as feeds, without memory of their own. Components that a batch does not have are left out.
class BatchFeeds {
 public:
  BatchFeeds(const std::vector<FedTensor>& fed, const ElementSpec& batches);
  // Valid until the next call.
  std::span<const Feed> of(const ElementView& batch);
  // Some of its samples.
  std::span<const Feed> of(const ElementView& batch, int64_t first, int64_t count);

 private:
  std::vector<size_t> components_;
  std::vector<Feed> feeds_;
};
int64_t samples_of(const ElementView& batch);

}  // namespace plimsoll::input

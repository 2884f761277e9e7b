// A training whose layers are shared by ranks: where this rank stands, and how it runs a batch.
#pragma once

#include <string>
#include <vector>

#include "train/evaluate.h"
#include "train/shards.h"
#include "train/training.h"

namespace plimsoll::train {

// Not set where there is no pipeline. Throws Error(Usage) for a number of ranks or micro-batches that can't be, and for
// what a pipeline can't be combined with.
model::StagePlace place_in_pipeline(const Spec& spec, int64_t batch);

// The steps of a stage: training first, then evaluation, also of a last batch of so many samples.
std::vector<session::Request> list_stage_requests(Training& training, int64_t last_batch);

// Whether each micro-batch begins, in the slot of its batch, where a step may read it; true without a pipeline.
bool micro_batches_lie_aligned(const Training& training);

// Shards for the records of so many micro-batches: every rank has as many, and only those of the last rank hold
// numbers.
Shards shards_of_stages(const Training& training, int64_t micro_batches);

// Runs batches of one dataset on the stage of this rank. Allocates nothing after construction.
class StageRunner {
 public:
  StageRunner(Training& training, const ElementSpec& batches);

  // One step; the last rank writes what each micro-batch fetched. Throws Error when a rank does not answer, and when a
  // loss is not finite.
  void train(const ElementView& batch, const EpochSums& sums, ShardRecords& records, const std::string& advice);
  // A micro-batch that begins with that sample of the batch; `samples` of them at most.
  void evaluate(const ElementView& batch, int64_t first, int64_t samples, const EpochSums& sums, ShardRecords& records);

 private:
  void set_feeds(const ElementView& batch, std::span<Feed> feeds, int64_t first, int64_t samples) const;

  Training& training_;
  std::vector<size_t> components_;  // by fed tensor
  std::vector<Feed> feeds_;         // by micro-batch, then by fed tensor
};

// All batches, each by all ranks together.
void evaluate_stages(Training& training, Inputs& inputs, const EvaluateOptions& options, EpochSums& sums, Score& score);

}  // namespace plimsoll::train

// How a training runs its batches: whole, in shards, or as a stage of a pipeline.
#pragma once

#include <memory>
#include <string>

#include "train/evaluate.h"
#include "train/training.h"

namespace plimsoll::train {

struct BatchOutcome {
  int64_t samples = 0;         // with a loss that is finite
  bool is_finite = true;       // the loss of all samples
  double loss = 0;             // the mean over these
  bool is_stop_asked = false;  // on any rank
};

// Steps allocate nothing after construction.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;
  // Takes the next batch of the data; false: the epoch is over.
  virtual bool take(Inputs& inputs) = 0;
  // Trains on the batch that was taken, and adds what it fetched to the sums. Throws Error(BadData or BadNumbers) for a
  // loss that is not finite where no step may be skipped, and Error when a rank does not answer.
  virtual BatchOutcome train(EpochSums& sums, bool is_stop_asked, bool may_skip) = 0;
  // All batches of the data.
  virtual void evaluate(Inputs& inputs, const EvaluateOptions& options, EpochSums& sums, Score& score) = 0;
};

// The one that the training asks for. `batches` is what the data hands out, `width` that of the sums; `advice` ends the
// error message for a loss that is not finite though the data is.
std::unique_ptr<BatchRunner> make_batch_runner(Training& training, const ElementSpec& batches, size_t width,
                                               std::string advice = "");
// One for each of the three.
std::unique_ptr<BatchRunner> make_single_runner(Training& training, const ElementSpec& batches, std::string advice);
std::unique_ptr<BatchRunner> make_shard_runner(Training& training, const ElementSpec& batches, size_t width,
                                               std::string advice);
std::unique_ptr<BatchRunner> make_stage_runner(Training& training, const ElementSpec& batches, size_t width,
                                               std::string advice);

// The loss and the sums of a batch that is scored; throws Error(BadData or BadNumbers) when the loss is not finite.
// `first`: the number of its first sample.
std::span<const View> evaluate_batch(Training& training, std::span<const Feed> feeds, int64_t first, int64_t samples);

}  // namespace plimsoll::train

// Steps of whole batches, by this process alone.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "session/bad_data.h"
#include "train/batch_runner.h"

namespace plimsoll::train {
namespace {

class SingleRunner final : public BatchRunner {
 public:
  SingleRunner(Training& training, const ElementSpec& batches, std::string advice)
      : training_(training), advice_(std::move(advice)), feeds_(training.fed, batches) {}

  bool take(Inputs& inputs) override {
    batch_ = inputs.next();
    return batch_ != nullptr;
  }

  BatchOutcome train(EpochSums& sums, bool /*is_stop_asked*/, bool may_skip) override {
    const auto feeds = feeds_.of(*batch_);
    const auto views = training_.session->run_like(Training::kTrain, feeds);
    const auto loss = static_cast<double>(views[0].floats()[0]);
    const BatchOutcome outcome{.samples = input::samples_of(*batch_), .is_finite = std::isfinite(loss), .loss = loss};
    if (outcome.is_finite)
      sums.add(views, outcome.samples);
    else if (!training_.passes.updates.loss_scale.is_set() || !may_skip)
      session::throw_bad_loss(loss, feeds, fmt::format("at step {}", training_.session->step_count()), advice_);
    return outcome;
  }

  void evaluate(Inputs& inputs, const EvaluateOptions& options, EpochSums& sums, Score& score) override {
    int64_t steps = 0;
    while (take(inputs)) {
      score.stopped = options.is_stop_asked();
      if (score.stopped) break;
      const int64_t samples = input::samples_of(*batch_);
      sums.add(evaluate_batch(training_, feeds_.of(*batch_), score.samples, samples), samples);
      score.samples += samples;
      if (options.most_steps > 0 && ++steps >= options.most_steps) break;
    }
  }

 private:
  Training& training_;
  const std::string advice_;
  input::BatchFeeds feeds_;
  const ElementView* batch_ = nullptr;
};

}  // namespace

std::unique_ptr<BatchRunner> make_single_runner(Training& training, const ElementSpec& batches, std::string advice) {
  return std::make_unique<SingleRunner>(training, batches, std::move(advice));
}

std::unique_ptr<BatchRunner> make_batch_runner(Training& training, const ElementSpec& batches, size_t width,
                                               std::string advice) {
  if (training.shards.is_cut) return make_shard_runner(training, batches, width, std::move(advice));
  if (training.place.is_set()) return make_stage_runner(training, batches, width, std::move(advice));
  return make_single_runner(training, batches, std::move(advice));
}

std::span<const View> evaluate_batch(Training& training, std::span<const Feed> feeds, int64_t first, int64_t samples) {
  const auto views = training.session->run_like(training.evaluate_step, feeds);
  const auto loss = static_cast<double>(views[0].floats()[0]);
  if (!std::isfinite(loss))
    session::throw_bad_loss(loss, feeds,
                            fmt::format("while samples {} to {} were evaluated", first, first + samples - 1),
                            "the weights are not finite, or as large as from training that diverged");
  return views;
}

}  // namespace plimsoll::train

// Steps of batches that are cut into shards, which ranks take in turn.
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "autodiff/shards.h"
#include "session/bad_data.h"
#include "train/batch_runner.h"
#include "train/no_samples.h"

namespace plimsoll::train {
namespace {

class ShardRunner final : public BatchRunner {
 public:
  ShardRunner(Training& training, const ElementSpec& batches, size_t width, std::string advice)
      : training_(training),
        shards_(training.shards),
        advice_(std::move(advice)),
        feeds_(training.fed, batches),
        records_(training.shards, training.spec.communicator.get(), width) {}

  bool take(Inputs& inputs) override {
    batch_ = inputs.next_part();
    return batch_.samples > 0;
  }

  BatchOutcome train(EpochSums& sums, bool is_stop_asked, bool /*may_skip*/) override {
    session::Engine& session = *training_.session;
    const int64_t steps = session.step_count();
    records_.clear();
    for (int64_t i = 0; i < shards_.own; ++i) {
      run_shard(i, sums);
      if (i + 1 == shards_.own) break;
      session.run_step(training_.first_merge_step + static_cast<size_t>(autodiff::trailing_ones(i)), {});
      session.set_step_count(steps);
    }
    if (is_stop_asked) records_.set_stop_asked();
    records_.exchange();
    session.set_step_count(steps + 1);
    BatchOutcome outcome{.samples = static_cast<int64_t>(records_.samples())};
    outcome.is_finite = outcome.samples == batch_.samples;
    outcome.loss = records_.loss();
    outcome.is_stop_asked = records_.is_stop_asked();
    records_.add_to(sums);
    return outcome;
  }

  // Each batch by all ranks together: every rank runs its shards.
  void evaluate(Inputs& inputs, const EvaluateOptions& options, EpochSums& sums, Score& score) override {
    for (int64_t step = 0; (options.most_steps == 0 || step < options.most_steps) && !score.stopped; ++step) {
      if (!take(inputs)) break;
      records_.clear();
      if (options.is_stop_asked()) records_.set_stop_asked();
      for (int64_t i = 0; i < shards_.own; ++i) {
        const int64_t first = first_of(i), count = size_of(i);
        if (count > 0)
          sums.write(evaluate_batch(training_, feeds_of(i), step * training_.spec.batch + first, count), count,
                     records_.own(i));
        else if (training_.shared.weights)
          training_.session->run_like(training_.evaluate_step, zeros());
      }
      records_.exchange();
      score.stopped = records_.is_stop_asked();
      records_.add_to(sums);
      score.samples += static_cast<int64_t>(records_.samples());
    }
  }

 private:
  // Of one of this rank's shards: its samples within the batch.
  int64_t first_of(int64_t shard) const { return shards_.begin_of(shards_.number_of(shard), batch_.samples); }
  int64_t size_of(int64_t shard) const { return shards_.size_of(shards_.number_of(shard), batch_.samples); }
  std::span<const Feed> feeds_of(int64_t shard) {
    const int64_t place = batch_.is_whole ? first_of(shard) : shards_.place_of(shard, batch_.samples);
    return feeds_.of(*batch_.view, place, size_of(shard));
  }
  std::span<const Feed> zeros() { return (zeros_ ? *zeros_ : zeros_.emplace(training_)).feeds(); }
  size_t step_of(bool is_last) const { return is_last ? Training::kTrain : training_.shard_step; }

  void run_shard(int64_t shard, const EpochSums& sums) {
    session::Engine& session = *training_.session;
    const bool is_last = shard + 1 == shards_.own;
    const int64_t steps = session.step_count();
    const int64_t samples = size_of(shard);
    if (samples == 0) return run_empty_shard(is_last);
    session.set_first_sample(first_of(shard));
    const auto feeds = feeds_of(shard);
    const auto views = session.run_like(step_of(is_last), feeds);
    if (is_last && training_.spec.communicator) training_.spec.communicator->expect_good();
    const auto loss = static_cast<double>(views[0].floats()[0]);
    session.set_first_sample(0);
    session.set_step_count(steps);
    if (std::isfinite(loss))
      sums.write(views, samples, records_.own(shard));
    else if (!training_.passes.updates.loss_scale.is_set())
      session::throw_bad_loss(loss, feeds, fmt::format("at step {}", steps + 1), advice_);
  }

  // A shard without samples adds nothing; the last one of a rank updates the weights all the same.
  void run_empty_shard(bool is_last) {
    session::Engine& session = *training_.session;
    const int64_t steps = session.step_count();
    if (training_.needs_all_ranks()) {
      session.set_counts_samples(false);
      session.run_like(step_of(is_last), zeros());
      session.set_counts_samples(true);
    } else if (is_last) {
      session.run_step(training_.apply_step, {});
    }
    session.set_step_count(steps);
    if (is_last && training_.spec.communicator) training_.spec.communicator->expect_good();
  }

  Training& training_;
  const Shards& shards_;
  const std::string advice_;
  input::BatchFeeds feeds_;
  ShardRecords records_;
  std::optional<ZeroSample> zeros_;
  BatchPart batch_;
};

}  // namespace

std::unique_ptr<BatchRunner> make_shard_runner(Training& training, const ElementSpec& batches, size_t width,
                                               std::string advice) {
  return std::make_unique<ShardRunner>(training, batches, width, std::move(advice));
}

}  // namespace plimsoll::train

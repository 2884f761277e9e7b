// Steps of a pipeline: every rank reads each batch, and stages with inputs or targets use it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "session/bad_data.h"
#include "train/batch_runner.h"

namespace plimsoll::train {
namespace {

// Shards for the records of so many micro-batches: every rank has as many, and only those of the last rank hold
// numbers.
Shards shards_of_stages(const Training& training, int64_t micro_batches) {
  return {.total = micro_batches * training.place.stages, .own = micro_batches, .samples = training.place.samples};
}

class StageRunner final : public BatchRunner {
 public:
  StageRunner(Training& training, const ElementSpec& batches, size_t width, std::string advice)
      : training_(training),
        advice_(std::move(advice)),
        records_(shards_of_stages(training, training.place.micro_batches), training.spec.communicator.get(), width) {
    for (const input::FedTensor& fed : training.fed) {
      const auto at = std::ranges::find_if(batches, [&](const Component& one) { return one.name == fed.component; });
      if (at == batches.end()) throw Error(fmt::format("the data has no '{}'", fed.component), ErrorKind::BadData);
      components_.push_back(static_cast<size_t>(at - batches.begin()));
    }
    for (const std::vector<Tensor>& tensors : training.stage.fed)
      for (size_t i = 0; i < tensors.size(); ++i)
        feeds_.emplace_back(tensors[i], batches[components_[i]].dtype, nullptr, 0);
  }

  // All ranks read the same data, so that none waits for one whose epoch has ended. A batch that is not full is
  // dropped: it is the last of an epoch.
  bool take(Inputs& inputs) override {
    batch_ = inputs.next();
    return batch_ != nullptr && input::samples_of(*batch_) == training_.spec.batch;
  }

  BatchOutcome train(EpochSums& sums, bool is_stop_asked, bool /*may_skip*/) override {
    const int64_t steps = training_.session->step_count();
    records_.clear();
    run_step(sums);
    if (is_stop_asked) records_.set_stop_asked();
    records_.exchange();
    training_.session->set_step_count(steps + 1);
    records_.add_to(sums);
    return {.samples = training_.spec.batch, .loss = records_.loss(), .is_stop_asked = records_.is_stop_asked()};
  }

  void evaluate(Inputs& inputs, const EvaluateOptions& options, EpochSums& sums, Score& score) override {
    ShardRecords records(shards_of_stages(training_, 1), training_.spec.communicator.get(), sums.width());
    const int64_t all = inputs.steps_per_epoch();  // negative: not known
    const int64_t most = options.most_steps > 0 ? options.most_steps : std::numeric_limits<int64_t>::max();
    for (int64_t step = 0; step < most && step != all && !score.stopped; ++step) {
      batch_ = inputs.next();
      if (batch_ == nullptr && all < 0) break;
      if (batch_ == nullptr) throw Error("the data ended before its last batch", ErrorKind::BadData);
      const int64_t count = input::samples_of(*batch_);
      for (int64_t first = 0; first < count && !score.stopped; first += training_.place.samples) {
        records.clear();
        if (options.is_stop_asked()) records.set_stop_asked();
        evaluate_micro_batch(first, std::min(training_.place.samples, count - first), sums, records);
        records.exchange();
        score.stopped = records.is_stop_asked();
        records.add_to(sums);
        score.samples += static_cast<int64_t>(records.samples());
      }
    }
  }

 private:
  void set_feeds(std::span<Feed> feeds, int64_t first, int64_t samples) const {
    for (size_t i = 0; i < components_.size(); ++i) {
      const Bytes sample_bytes = batch_->bytes(components_[i]) / input::samples_of(*batch_);
      feeds[i].data = static_cast<const std::byte*>(batch_->data(components_[i])) + first * sample_bytes;
      feeds[i].bytes = samples * sample_bytes;
    }
  }

  // All micro-batches are one step; the last rank writes what each of them fetched.
  void run_step(const EpochSums& sums) {
    const model::StagePlace& place = training_.place;
    session::Engine& session = *training_.session;
    for (int64_t i = 0; i < place.micro_batches; ++i)
      set_feeds(std::span(feeds_).subspan(static_cast<size_t>(i) * components_.size()), i * place.samples,
                place.samples);
    const int64_t steps = session.step_count();
    const std::span<const View> views = session.run_step(Training::kTrain, feeds_);
    if (training_.spec.communicator) training_.spec.communicator->expect_good();
    if (!place.is_last()) return;
    const size_t width = views.size() / static_cast<size_t>(place.micro_batches);
    for (int64_t i = 0; i < place.micro_batches; ++i) {
      const auto number = static_cast<size_t>(i);
      const std::span<const View> own = views.subspan(number * width, width);
      const auto loss = static_cast<double>(own[0].floats()[0]);
      if (!std::isfinite(loss))
        session::throw_bad_loss(loss, std::span(feeds_).subspan(number * components_.size(), components_.size()),
                                fmt::format("at step {}", steps + 1), advice_);
      sums.write(own, place.samples, records_.own(i));
    }
  }

  // One that begins with that sample of the batch; `samples` of them at most.
  void evaluate_micro_batch(int64_t first, int64_t samples, const EpochSums& sums, ShardRecords& records) {
    session::Engine& session = *training_.session;
    const std::span<Feed> feeds = std::span(feeds_).first(components_.size());
    set_feeds(feeds, first, samples);
    const int64_t steps = session.step_count();
    const std::span<const View> views = session.run_like(training_.evaluate_step, feeds);
    session.set_step_count(steps);
    if (training_.spec.communicator) training_.spec.communicator->expect_good();
    if (!training_.place.is_last()) return;
    const auto loss = static_cast<double>(views[0].floats()[0]);
    if (!std::isfinite(loss))
      session::throw_bad_loss(loss, feeds, "during evaluation",
                              "the weights are not finite, or as large as from training that diverged");
    sums.write(views, samples, records.own(0));
  }

  Training& training_;
  const std::string advice_;
  ShardRecords records_;
  std::vector<size_t> components_;  // by fed tensor
  std::vector<Feed> feeds_;         // by micro-batch, then by fed tensor
  const ElementView* batch_ = nullptr;
};

}  // namespace

std::unique_ptr<BatchRunner> make_stage_runner(Training& training, const ElementSpec& batches, size_t width,
                                               std::string advice) {
  return std::make_unique<StageRunner>(training, batches, width, std::move(advice));
}

}  // namespace plimsoll::train

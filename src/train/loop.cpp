#include "train/loop.h"

#include <cmath>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "session/bad_data.h"

namespace plimsoll::train {
namespace {

const Samples& expect_training_data(const Training& training) {
  if (!training.data.train) throw Error("there is no training data", ErrorKind::Usage);
  return *training.data.train;
}

}  // namespace

TrainingLoop::TrainingLoop(Training& training, const LoopOptions& options)
    : training_(training),
      options_(options),
      train_(training, expect_training_data(training), {.trains = true, .seed = options.seed}) {
  if (training.data.test) test_ = std::make_unique<Inputs>(training, *training.data.test);
}

void TrainingLoop::open() {
  if (test_) plan_last_batch(training_, *test_);
  training_.session->open();
}

History TrainingLoop::run(Watcher& watcher) {
  int64_t steps = 0;
  bool is_cut = false;  // by LoopOptions::steps
  if (training_.accumulate > 1) training_.session->get(training_.passes.accumulated_batches, &group_, sizeof group_);
  for (int64_t epoch = 1; epoch <= options_.epochs && !is_cut && !watcher.is_stop_asked(); ++epoch) {
    EpochSums sums;
    train_.start_epoch(epoch);
    while (const ElementView* batch = is_cut || watcher.is_stop_asked() ? nullptr : train_.next()) {
      take_step(*batch, sums);
      if (training_.accumulate > 1 && ++group_ >= training_.accumulate) apply_group();
      watcher.after_step(means_of(epoch, sums), samples_of(*batch));
      is_cut = options_.steps > 0 && ++steps >= options_.steps;
    }
    train_.stop();
    // One that was stopped goes on with its group when it is resumed.
    if (group_ > 0 && !is_cut && !watcher.is_stop_asked()) apply_group();
    // An epoch that was cut short is reported too, and has no score.
    const bool is_scored = !is_cut && test_ && !watcher.is_stop_asked();
    if (is_scored) score_test_data(watcher);
    if (sums.steps == 0) continue;
    EpochMeans means = means_of(epoch, sums);
    if (is_scored && history_.score) {
      means.test_loss = history_.score->loss;
      means.test_accuracy = history_.score->accuracy;
    }
    history_.epochs.push_back(means);
    watcher.after_epoch(means);
  }
  history_.skipped = train_.skipped() + (test_ ? test_->skipped() : 0);
  history_.was_stopped = !is_cut && watcher.is_stop_asked();
  return history_;
}

void TrainingLoop::apply_group() {
  const int64_t steps = training_.session->step_count();
  training_.session->run_step(Training::Apply, {});
  training_.session->set_step_count(steps);  // of batches: random operators go on as without accumulation
  group_ = 0;
}

void TrainingLoop::score_test_data(Watcher& watcher) {
  history_.score = evaluate(training_, *test_, [&] { return watcher.is_stop_asked(); });
  if (history_.score->stopped || history_.score->samples == 0) history_.score.reset();
}

EpochMeans TrainingLoop::means_of(int64_t epoch, const EpochSums& sums) const {
  EpochMeans means;
  means.epoch = epoch;
  means.steps = sums.steps;
  means.loss = sums.losses > 0 ? sums.loss / static_cast<double>(sums.losses) : kNoNumber;
  if (training_.passes.correct.is_set()) means.accuracy = sums.correct / static_cast<double>(sums.samples);
  return means;
}

void TrainingLoop::take_step(const ElementView& batch, EpochSums& sums) {
  const auto feeds = feeds_of(training_, batch);
  const auto views = training_.session->run_step(Training::Train, feeds);
  const auto loss = static_cast<double>(views[0].floats()[0]);
  if (!std::isfinite(loss)) {
    // Loss scaling leaves such a step out, as often as lowering the scale may help.
    if (!training_.passes.updates.loss_scale.is_set() || ++skipped_in_a_row_ > kMostSkippedSteps)
      session::throw_bad_loss(loss, feeds, fmt::format("at step {}", training_.session->step_count()), options_.advice);
  } else {
    skipped_in_a_row_ = 0;
    history_.last_loss = loss;
    sums.loss += loss;
    ++sums.losses;
  }
  if (views.size() > 1) sums.correct += static_cast<double>(views[1].floats()[0]);
  sums.samples += samples_of(batch);
  ++sums.steps;
}

StartingPoint load_start(Training& training, const std::string& path, const std::optional<double>& learning_rate) {
  session::Engine& session = *training.session;
  StartingPoint start;
  start.loaded = session::load_weights(session, training.graph, path);
  const Tensor rate = training.passes.learning_rate;
  if (learning_rate) {
    start.learning_rate = static_cast<float>(*learning_rate);
    start.rate_origin = StartingPoint::RateOrigin::Given;
    session.set(rate, &start.learning_rate, sizeof start.learning_rate);
  } else {
    session.get(rate, &start.learning_rate, sizeof start.learning_rate);
    if (start.loaded.state > 0) start.rate_origin = StartingPoint::RateOrigin::File;
  }
  start.steps = session.step_count();
  return start;
}

}  // namespace plimsoll::train

// Steps of a pipeline: every rank reads each batch, and stages with inputs or targets use it.
#include "train/loop.h"

namespace plimsoll::train {

// A batch that is not full is dropped: it is the last of an epoch.
const ElementView* TrainingLoop::next_whole_batch() {
  const auto next = [&] {
    const ElementView* const batch = train_.next();
    return batch != nullptr && input::samples_of(*batch) == training_.batch ? batch : nullptr;
  };
  const ElementView* const batch = next();
  if (batch != nullptr || options_.steps_per_epoch == 0) return batch;
  train_.start_epoch(static_cast<int64_t>(train_.state().epoch) + 1);
  return next();
}

// All ranks read the same data, so that none waits for one whose epoch has ended.
bool TrainingLoop::take_stages() {
  const ElementView* const batch = next_whole_batch();
  if (batch == nullptr) return false;
  if (options_.schedule) follow_schedule();
  const int64_t steps = training_.session->step_count();
  records_->clear();
  stages_->train(*batch, sums_, *records_, options_.advice);
  if (!asked_to_stop_.empty()) records_->set_stop_asked();
  records_->exchange();
  training_.session->set_step_count(steps + 1);
  step_samples_ = training_.batch;
  records_->add_to(sums_);
  history_.last_loss = records_->loss();
  ++epoch_steps_;
  ++run_steps_;
  update_means();
  if (records_->is_stop_asked()) settle_stop();
  return true;
}

}  // namespace plimsoll::train

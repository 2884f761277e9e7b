#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "train/data_names.h"

namespace plimsoll::train {
namespace {

Inputs training_inputs(const Training& training, uint64_t seed) {
  if (training.spec.batches.train) return {training, *training.spec.batches.train};
  if (!training.spec.data.train) throw Error("there is no training data", ErrorKind::Usage);
  return {training, *training.spec.data.train, {.trains = true, .seed = seed}};
}

std::unique_ptr<Inputs> test_inputs(const Training& training) {
  if (training.spec.batches.test) return std::make_unique<Inputs>(training, *training.spec.batches.test);
  return training.spec.data.test ? std::make_unique<Inputs>(training, *training.spec.data.test) : nullptr;
}

// A checkpoint holds the state of the other callbacks, so it is written after they have handled the same event.
Callbacks in_order(Callbacks callbacks) {
  std::stable_partition(callbacks.begin(), callbacks.end(),
                        [](const auto& callback) { return !callback->runs_last(); });
  return callbacks;
}

}  // namespace

TrainingLoop::TrainingLoop(Training& training, const LoopOptions& options, Callbacks callbacks)
    : training_(training),
      options_(options),
      callbacks_(in_order(std::move(callbacks))),
      train_(training_inputs(training, options.seed)),
      test_(test_inputs(training)),
      sums_(training.model, training.passes.sums),
      runner_(make_batch_runner(training, train_.element(), sums_.width(), options.advice)) {
  if (train_.steps_per_epoch() == Dataset::kInfinite && options.steps_per_epoch == 0)
    throw Error("the training data has no end; say how many steps make an epoch, or leave out repeat()",
                ErrorKind::Usage);
  training.first_rank_saves = options.follows_first_rank;
  for (const std::string& name : sums_.names()) logs_.push_back({name});
  logs_.push_back({"learning_rate"});
  if (test_)
    for (const std::string& name : sums_.names()) logs_.push_back({"val_" + name});
  expect_watched();
}

void TrainingLoop::expect_watched() const {
  const bool validates =
      test_ && options_.epochs / options_.validation_frequency > options_.initial_epoch / options_.validation_frequency;
  std::vector<std::string> known;
  for (size_t i = 0; i < (validates ? logs_.size() : training_logs()); ++i) known.push_back(logs_[i].name);
  for (const auto& callback : callbacks_)
    for (const std::string& watched : callback->watches())
      if (std::ranges::find(known, watched) == known.end())
        throw Error(fmt::format("{}: there is no '{}' to watch; this training has {}{}", callback->name(), watched,
                                fmt::join(known, ", "), validates ? "" : ", and nothing of validation data"),
                    ErrorKind::Usage);
}

void TrainingLoop::open() {
  training_.session->open();
  initialize_slices(training_);
}

void TrainingLoop::restore(const RunState& state, std::string checkpoint) {
  sums_.set(state.sums);
  if (state.seed != options_.seed)
    throw Error(
        fmt::format("the training that is resumed has seed {}, not {}; give the same seed", state.seed, options_.seed),
        ErrorKind::Usage);
  train_.expect_same_data(state.data);
  // The best epoch and early stopping go by scores, which must be those of the same samples.
  if (test_ != nullptr && test_->identity() != 0) test_->expect_same_data({.dataset = state.validation});
  resumed_ = state;
  resumed_from_ = std::move(checkpoint);
}

std::span<const EpochLog> TrainingLoop::past_epochs() const {
  std::span<const EpochLog> past = history_.epochs;
  // The epoch that was cut short is in the history, but not over.
  if (!is_epoch_over_ && !past.empty() && past.back().epoch == epoch_) past = past.first(past.size() - 1);
  return past;
}

RunState TrainingLoop::state() const {
  RunState state = state_without_history();
  const std::span<const EpochLog> past = past_epochs();
  state.history.assign(past.begin(), past.end());
  return state;
}

RunState TrainingLoop::state_without_history() const {
  RunState state{.epoch = epoch_, .epoch_steps = epoch_steps_, .run_steps = run_steps_, .data = train_.state()};
  state.seed = options_.seed;
  if (test_ != nullptr) state.validation = test_->identity();
  if (is_epoch_over_) {
    ++state.epoch;
    state.epoch_steps = 0;
    if (options_.steps_per_epoch == 0) state.data = {state.data.dataset, state.data.epoch + 1, 0};
  }
  state.sums = sums_.state();
  if (is_epoch_over_)
    for (auto& [name, sum] : state.sums) sum = 0;
  for (const auto& callback : callbacks_) state.callbacks.emplace_back(callback->name(), callback->state());
  return state;
}

void TrainingLoop::tell(Event event) {
  for (const auto& callback : callbacks_) (*callback.*event)(*this);
}

void TrainingLoop::begin() {
  read_learning_rate();
  if (training_.spec.accumulate > 1)
    training_.session->get(training_.passes.accumulated_batches, &group_, sizeof group_);
  prune_at_start();
  epoch_ = options_.initial_epoch + 1;
  if (resumed_) {
    epoch_ = resumed_->epoch;
    epoch_steps_ = resumed_->epoch_steps;
    history_.epochs = std::move(resumed_->history);
    run_steps_ = resumed_->run_steps;
    if (epoch_steps_ > 0) update_means();
  }
  tell(&Callback::before_training);
  if (!resumed_) return;
  std::vector<bool> is_restored(callbacks_.size());
  for (const auto& [name, state] : resumed_->callbacks)
    for (size_t i = 0; i < callbacks_.size(); ++i)
      if (!is_restored[i] && callbacks_[i]->name() == name) {
        callbacks_[i]->restore(state);
        is_restored[i] = true;
        break;
      }
}

History TrainingLoop::run() {
  tell(&Callback::prepare);
  if (options_.follows_first_rank) take_start();
  begin();
  while (!is_cut() && !is_stopping() && epoch_ + (is_epoch_over_ ? 1 : 0) <= options_.epochs) run_epoch();
  history_.skipped = train_.skipped() + (test_ ? test_->skipped() : 0);
  history_.last_skipped = train_.skipped() > 0 || !test_ ? train_.last_skipped() : test_->last_skipped();
  tell(&Callback::after_training);
  tell(&Callback::finish);
  if (options_.follows_first_rank) take_order();
  return history_;
}

// Every step ends with the pruning for the next one; this does the pruning for the first.
void TrainingLoop::prune_at_start() const {
  if (training_.pruned.nodes.empty()) return;
  int64_t done = 0;
  training_.session->get(training_.pruned.step, &done, sizeof done);
  if (done > 0) return;
  const int64_t steps = training_.session->step_count();
  training_.session->run_step(training_.prune_step, {});
  training_.session->set_step_count(steps);
}

void TrainingLoop::apply_group() {
  const int64_t steps = training_.session->step_count();
  training_.session->run_step(training_.apply_step, {});
  training_.session->set_step_count(steps);  // of batches: random operators go on as without accumulation
  group_ = 0;
}

void TrainingLoop::run_epoch() {
  if (is_epoch_over_) {
    ++epoch_;
    epoch_steps_ = 0;
    sums_.clear();
  }
  is_epoch_over_ = is_validated_ = false;
  start_data();
  bool has_more = !has_epoch_steps();
  while (has_more && !is_cut() && !is_stopping()) {
    if (options_.follows_first_rank && !take_order()) break;
    const bool was_taken = take_step();
    if (was_taken) tell(&Callback::after_step);
    has_more = was_taken && !has_epoch_steps();
  }
  train_.stop();
  // An epoch that was cut short goes on with its group of accumulated batches when it is resumed.
  if (!has_more && group_ > 0) apply_group();
  // An epoch that was cut short is reported too, and has no score.
  if (!has_more) is_epoch_over_ = validate();
  if (epoch_steps_ == 0 && !has_more)
    throw Error(fmt::format("the training data has no batch in epoch {}", epoch_), ErrorKind::BadData);
  if (epoch_steps_ == 0) return;
  const std::span<const LogValue> all = logs();
  history_.epochs.push_back({epoch_, epoch_steps_, {all.begin(), all.end()}});
  if (options_.most_history > 0 && std::ssize(history_.epochs) > options_.most_history)
    history_.epochs.erase(history_.epochs.begin());
  if (is_epoch_over_) tell(&Callback::after_epoch);
  agree_to_stop();
}

int64_t TrainingLoop::steps_per_epoch() const {
  return options_.steps_per_epoch > 0 ? options_.steps_per_epoch : std::max<int64_t>(0, train_.steps_per_epoch());
}

void TrainingLoop::start_data() {
  const DatasetState before = train_.state();
  if (resumed_ && epoch_ == resumed_->epoch && resumed_->data.dataset != 0)
    train_.start_at(resumed_->data);
  else if (options_.steps_per_epoch > 0 && before.dataset != 0)
    train_.start_at(before);
  else
    train_.start_epoch(epoch_);
}

// False when it was stopped: the epoch is then not over.
bool TrainingLoop::validate() {
  if (!test_ || epoch_ % options_.validation_frequency != 0) return true;
  const auto is_stop_asked = [&] {
    tell(&Callback::after_validation_step);
    return is_stopping() || !asked_to_stop_.empty();
  };
  const Score score =
      evaluate(training_, *test_, {.is_stop_asked = is_stop_asked, .most_steps = options_.validation_steps});
  if (score.stopped) {
    settle_stop();
    return false;
  }
  is_validated_ = score.samples > 0;
  history_.validation_samples = score.samples;
  for (size_t i = 0; i < score.values.size(); ++i) logs_[training_logs() + i].value = score.values[i].value;
  return true;
}

std::span<const LogValue> TrainingLoop::logs() const {
  return {logs_.data(), is_validated_ ? logs_.size() : training_logs()};
}

void TrainingLoop::update_means() {
  for (size_t i = 0; i + 1 < training_logs(); ++i) logs_[i].value = sums_.mean(i);
  logs_[training_logs() - 1].value = learning_rate();
}

// Where an epoch is a number of steps, the data starts again when it ends.
bool TrainingLoop::next_batch() {
  if (runner_->take(train_)) return true;
  if (options_.steps_per_epoch == 0) return false;
  train_.start_epoch(static_cast<int64_t>(train_.state().epoch) + 1);
  return runner_->take(train_);
}

bool TrainingLoop::take_step() {
  if (!next_batch()) return false;
  if (options_.schedule) follow_schedule();
  const BatchOutcome outcome = runner_->train(sums_, !asked_to_stop_.empty(), skipped_in_a_row_ < kMostSkippedSteps);
  step_samples_ = outcome.samples;
  skipped_in_a_row_ = outcome.is_finite ? 0 : skipped_in_a_row_ + 1;
  if (skipped_in_a_row_ > kMostSkippedSteps)
    throw Error(fmt::format("the loss is not finite for {} steps in a row; {}", skipped_in_a_row_, options_.advice),
                ErrorKind::BadNumbers);
  if (outcome.is_finite) history_.last_loss = outcome.loss;
  if (training_.spec.accumulate > 1 && ++group_ >= training_.spec.accumulate) apply_group();
  ++epoch_steps_;
  ++run_steps_;
  update_means();
  if (outcome.is_stop_asked) settle_stop();
  return true;
}

void TrainingLoop::read_learning_rate() {
  training_.session->get(training_.passes.learning_rate, &learning_rate_, sizeof learning_rate_);
}

void TrainingLoop::follow_schedule() {
  int64_t updates = 0;
  training_.session->get(training_.passes.updates.step, &updates, sizeof updates);
  const double rate = (*options_.schedule)(updates);
  if (static_cast<float>(rate) != learning_rate_) write_learning_rate(rate);
}

void TrainingLoop::set_learning_rate(double rate) {
  if (options_.schedule)
    throw Error(
        "the learning rate follows a schedule, which would undo this; leave out the schedule, or what sets the "
        "rate",
        ErrorKind::Usage);
  write_learning_rate(rate);
}

void TrainingLoop::write_learning_rate(double rate) {
  if (!(rate >= 0 && std::isfinite(rate)))
    throw Error(fmt::format("a learning rate of {} makes no sense; give a number that is not negative", rate),
                ErrorKind::Usage);
  learning_rate_ = static_cast<float>(rate);
  training_.session->set(training_.passes.learning_rate, &learning_rate_, sizeof learning_rate_);
}

void TrainingLoop::stop(std::string reason) {
  if (is_stopping()) return;
  if (reason.empty()) reason = "stopped";
  // Ranks must stop after the same step: the others hear of it with the next one.
  (has_other_ranks() ? asked_to_stop_ : history_.stop_reason) = std::move(reason);
}

// Ranks that share variables write a file together where all name the same; else each writes what it holds.
const weights::VariableSlices* TrainingLoop::slices_for(const std::string& path) {
  if (training_.slices.is_empty()) return nullptr;
  const std::vector<std::string> paths = training_.spec.communicator->gather_texts(path);
  const bool are_same = std::ranges::all_of(paths, [&](const std::string& one) { return one == path; });
  return are_same ? &training_.slices : nullptr;
}

void TrainingLoop::save_weights(const std::string& path) {
  weights::save_weights(*training_.session, training_.graph, path,
                        {.data_names = data_names_text(training_.model), .slices = slices_for(path)});
}

void TrainingLoop::load_weights(const std::string& path) {
  has_changed_variables_ = true;
  weights::load_weights(*training_.session, training_.graph, path, {.slices = slices_for(path)});
  read_learning_rate();
}

Bytes TrainingLoop::measured_peak() const { return peak_resident_bytes(); }

TrainingLoop& loop_of(FitRun& run) {
  if (auto* loop = dynamic_cast<TrainingLoop*>(&run)) return *loop;
  throw Error("this callback works in fit alone");
}

StartingPoint load_start(Training& training, const std::string& path, const std::optional<double>& learning_rate) {
  session::Engine& session = *training.session;
  StartingPoint start;
  // The optimiser of a file knows nothing of weights that the file does not have.
  const bool is_fresh = static_cast<bool>(training.starts_fresh);
  start.loaded = weights::load_weights(session, training.graph, path,
                                       {.part = is_fresh ? weights::WeightsPart::Model : weights::WeightsPart::All,
                                        .may_miss = training.starts_fresh,
                                        .slices = &training.slices});
  if (is_fresh) session.set_step_count(0);
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

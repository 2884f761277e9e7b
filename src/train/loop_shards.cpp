// Steps of a batch that is cut into shards, and what several ranks agree on between them.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "autodiff/shards.h"
#include "graph/body.h"
#include "session/bad_data.h"
#include "train/checkpoint_manifest.h"
#include "train/checkpoint_store.h"
#include "train/loop.h"

namespace plimsoll::train {

BatchPart TrainingLoop::next_part() {
  const BatchPart part = train_.next_part();
  if (part.samples > 0 || options_.steps_per_epoch == 0) return part;
  train_.start_epoch(static_cast<int64_t>(train_.state().epoch) + 1);
  return train_.next_part();
}

bool TrainingLoop::take_shards() {
  const BatchPart batch = next_part();
  if (batch.samples == 0) return false;
  if (options_.schedule) follow_schedule();
  session::Engine& session = *training_.session;
  const int64_t steps = session.step_count();
  const Shards& shards = training_.shards;
  records_->clear();
  for (int64_t i = 0; i < shards.own; ++i) {
    run_shard(i, batch);
    if (i + 1 == shards.own) break;
    session.run_step(training_.first_merge_step + static_cast<size_t>(autodiff::trailing_ones(i)), {});
    session.set_step_count(steps);
  }
  if (!asked_to_stop_.empty()) records_->set_stop_asked();
  records_->exchange();
  session.set_step_count(steps + 1);
  const auto counted = static_cast<int64_t>(records_->samples());  // those with a loss that is finite
  step_samples_ = counted;
  const bool is_whole = counted == batch.samples;
  skipped_in_a_row_ = is_whole ? 0 : skipped_in_a_row_ + 1;
  if (skipped_in_a_row_ > kMostSkippedSteps)
    throw Error(fmt::format("the loss is not finite for {} steps in a row; {}", skipped_in_a_row_, options_.advice),
                ErrorKind::BadNumbers);
  records_->add_to(sums_);
  if (is_whole) history_.last_loss = records_->loss();
  ++epoch_steps_;
  ++run_steps_;
  update_means();
  if (records_->is_stop_asked()) settle_stop();
  return true;
}

// A shard without samples adds nothing; the last one of a rank updates the weights all the same.
void TrainingLoop::run_empty_shard(int64_t shard) {
  session::Engine& session = *training_.session;
  const bool is_last = shard + 1 == training_.shards.own;
  const int64_t steps = session.step_count();
  if (training_.needs_all_ranks()) {
    if (!zeros_) zeros_.emplace(training_);
    session.set_counts_samples(false);
    session.run_like(is_last ? Training::kTrain : training_.shard_step, zeros_->feeds());
    session.set_counts_samples(true);
  } else if (is_last) {
    session.run_step(training_.apply_step, {});
  }
  session.set_step_count(steps);
  if (is_last && training_.communicator) training_.communicator->expect_good();
}

void TrainingLoop::run_shard(int64_t shard, const BatchPart& batch) {
  session::Engine& session = *training_.session;
  const Shards& shards = training_.shards;
  const bool is_last = shard + 1 == shards.own;
  const int64_t steps = session.step_count();
  const int64_t first = shards.begin_of(shards.number_of(shard), batch.samples);
  const int64_t samples = shards.size_of(shards.number_of(shard), batch.samples);
  if (samples == 0) return run_empty_shard(shard);
  session.set_first_sample(first);
  const auto feeds = feeds_.of(*batch.view, batch.is_whole ? first : shards.place_of(shard, batch.samples), samples);
  const auto views = session.run_like(is_last ? Training::kTrain : training_.shard_step, feeds);
  if (is_last && training_.communicator) training_.communicator->expect_good();
  const auto loss = static_cast<double>(views[0].floats()[0]);
  session.set_first_sample(0);
  session.set_step_count(steps);
  if (std::isfinite(loss))
    sums_.write(views, samples, records_->own(shard));
  else if (!training_.passes.updates.loss_scale.is_set())
    session::throw_bad_loss(loss, feeds, fmt::format("at step {}", steps + 1), options_.advice);
}

void TrainingLoop::agree_to_stop() {
  if (!has_other_ranks()) return;
  const double mine = asked_to_stop_.empty() ? 0 : 1;
  std::vector<double> all(static_cast<size_t>(training_.communicator->size()));
  training_.communicator->gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  if (std::ranges::any_of(all, [](double asked) { return asked != 0; })) settle_stop();
}

void TrainingLoop::settle_stop() {
  if (!has_other_ranks() || is_stopping()) return;
  was_stopped_elsewhere_ = asked_to_stop_.empty();
  history_.stop_reason = was_stopped_elsewhere_ ? "stopped by another rank" : asked_to_stop_;
}

void TrainingLoop::take_start() {
  if (!has_other_ranks()) return;
  ranks::Communicator& ranks = *training_.communicator;
  // Only the first rank may have loaded a checkpoint.
  std::string text;
  if (ranks.rank() == 0 && resumed_) {
    text = resumed_from_ + '\0' + manifest_text({.steps = steps(), .facts = {}, .run = *resumed_, .files = {}}) + '\0';
    for (const EpochLog& epoch : resumed_->history) text += history_line(epoch) + "\n";
  }
  text = ranks.gather_texts(text).front();
  if (ranks.rank() > 0 && !text.empty()) {
    const size_t begin = text.find('\0') + 1, end = text.find('\0', begin);
    // Every stage of a pipeline has variables of its own.
    if (training_.place.is_set()) load_checkpoint(training_, text.substr(0, begin - 1));
    RunState state = parse_manifest(text.substr(begin, end - begin), "what the first rank sent").run;
    std::istringstream lines(text.substr(end + 1));
    for (std::string line; std::getline(lines, line);)
      state.history.push_back(parse_history_line(line, "what the first rank sent"));
    restore(state);
  }
  take_variables();
}

namespace {

// What the first rank says to the others between two steps.
struct Order {
  float learning_rate = 0;
  bool stops = false, has_changed_variables = false;
  bool saves_parts = false;  // the other fields are then not set, and another order follows
};

}  // namespace

void TrainingLoop::call_for_parts() {
  if (!has_other_ranks() || !training_.first_rank_saves || training_.place.stages == 1) return;
  Order order{.saves_parts = true};
  training_.communicator->broadcast(std::as_writable_bytes(std::span(&order, 1)));
}

bool TrainingLoop::take_order() {
  if (!has_other_ranks()) return true;
  Order order{learning_rate_, !asked_to_stop_.empty(), has_changed_variables_};
  training_.communicator->broadcast(std::as_writable_bytes(std::span(&order, 1)));
  while (order.saves_parts) {
    CheckpointStore parts("");
    parts.open(training_);
    parts.save(training_, {});
    training_.communicator->broadcast(std::as_writable_bytes(std::span(&order, 1)));
  }
  if (order.learning_rate != learning_rate_) write_learning_rate(static_cast<double>(order.learning_rate));
  if (order.has_changed_variables) take_variables();
  if (order.stops) settle_stop();
  return !order.stops;
}

void TrainingLoop::take_variables() {
  if (training_.place.is_set()) {  // every rank has variables of its own
    if (std::exchange(has_changed_variables_, false))
      throw Error("a callback has changed weights, which a pipeline can't: other ranks have the rest of them",
                  ErrorKind::Usage);
    return;
  }
  constexpr Bytes kMostAtOnce = MiB;
  ranks::Communicator& ranks = *training_.communicator;
  const auto share = [&](std::byte* data, Bytes bytes) {
    for (Bytes at = 0; at < bytes; at += kMostAtOnce)
      ranks.broadcast({data + at, static_cast<size_t>(std::min(kMostAtOnce, bytes - at))});
  };
  session::Engine& session = *training_.session;
  for (const graph::Variable& variable : training_.graph.body().variables()) {
    if (variable.role() == VariableRole::Gradient) continue;  // cleared between two steps
    const Tensor tensor(training_.graph, variable.value);
    // A broadcast changes nothing on the first rank.
    if (ranks.rank() == 0)
      session.read(tensor, [&](std::span<const std::byte> piece) {
        share(const_cast<std::byte*>(piece.data()), std::ssize(piece));
      });
    else
      session.fill(tensor, [&](void* into, Bytes /*at*/, Bytes bytes) { share(static_cast<std::byte*>(into), bytes); });
  }
  int64_t steps = session.step_count();
  ranks.broadcast(std::as_writable_bytes(std::span(&steps, 1)));
  session.set_step_count(steps);
  has_changed_variables_ = false;
  read_learning_rate();
}

}  // namespace plimsoll::train

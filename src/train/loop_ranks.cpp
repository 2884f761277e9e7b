// What several ranks agree on between their steps.
#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "train/checkpoint_manifest.h"
#include "train/checkpoint_store.h"
#include "train/loop.h"

namespace plimsoll::train {

void TrainingLoop::agree_to_stop() {
  if (!has_other_ranks()) return;
  const double mine = asked_to_stop_.empty() ? 0 : 1;
  std::vector<double> all(static_cast<size_t>(training_.spec.communicator->size()));
  training_.spec.communicator->gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  if (std::ranges::any_of(all, [](double asked) { return asked != 0; })) settle_stop();
}

void TrainingLoop::settle_stop() {
  if (!has_other_ranks() || is_stopping()) return;
  was_stopped_elsewhere_ = asked_to_stop_.empty();
  history_.stop_reason = was_stopped_elsewhere_ ? "stopped by another rank" : asked_to_stop_;
}

void TrainingLoop::take_start() {
  if (!has_other_ranks()) return;
  ranks::Communicator& ranks = *training_.spec.communicator;
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
  training_.spec.communicator->broadcast(std::as_writable_bytes(std::span(&order, 1)));
}

bool TrainingLoop::take_order() {
  if (!has_other_ranks()) return true;
  Order order{learning_rate_, !asked_to_stop_.empty(), has_changed_variables_};
  training_.spec.communicator->broadcast(std::as_writable_bytes(std::span(&order, 1)));
  while (order.saves_parts) {
    CheckpointStore parts("");
    parts.open(training_);
    parts.save(training_, {});
    training_.spec.communicator->broadcast(std::as_writable_bytes(std::span(&order, 1)));
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
  ranks::Communicator& ranks = *training_.spec.communicator;
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

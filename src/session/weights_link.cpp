#include "session/weights_link.h"

#include <exception>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "session/engine.h"
#include "weights/file_weights.h"

namespace plimsoll::session {
namespace {

const std::shared_ptr<graph::ModelWeight>& weight_of(const graph::Variable& variable) {
  return variable.stored->weight;
}

}  // namespace

WeightsLink::WeightsLink(Engine& engine, graph::Body& graph, uint64_t seed, bool has_initial_values,
                         std::function<bool()> make_room)
    : engine_(engine),
      graph_(graph),
      seed_(seed),
      has_initial_values_(has_initial_values),
      make_room_(std::move(make_room)) {
  for (const graph::Variable& variable : graph.variables())
    if (const auto& weight = weight_of(variable); weight != nullptr && weight->is_owned()) {
      weight->enlist(*this);
      by_weight_.emplace(weight.get(), weights_.size());
      weights_.push_back({weight, variable.value});
    }
}

WeightsLink::~WeightsLink() {
  for (const Linked& linked : weights_) linked.weight->leave(*this);
}

Tensor WeightsLink::tensor_of(const Linked& linked) const { return {graph_.front(), linked.value}; }

void WeightsLink::refresh() {
  if (is_current_.exchange(true)) return;
  try {
    for (const Linked& linked : weights_) {
      graph::ModelWeight& weight = *linked.weight;
      if (weight.is_current(*this)) continue;
      const bool is_initial = weight.start(seed_, graph_.name(graph_.value(linked.value)));
      if (!is_initial || !has_initial_values_)
        engine_.fill_unlinked(tensor_of(linked), [&](void* into, Bytes at, Bytes bytes) {
          weight.read(at, {static_cast<std::byte*>(into), static_cast<size_t>(bytes)});
        });
      weight.join(*this);
    }
  } catch (...) {
    is_current_ = false;
    throw;
  }
  has_initial_values_ = false;
}

void WeightsLink::take() {
  if (is_alone_ && is_current_) return;
  refresh();
  is_alone_ = true;
  for (const Linked& linked : weights_) linked.weight->take(*this);
}

void WeightsLink::overwrite(ValueId value) {
  if (graph_.value(value).kind != graph::ValueKind::Variable) return;
  const auto at = by_weight_.find(weight_of(graph_.variable_of(value)).get());
  if (at != by_weight_.end()) weights_[at->second].weight->take(*this);
}

void WeightsLink::keep(bool has_graph) noexcept {
  std::vector<std::shared_ptr<graph::ModelWeight>> only_here;
  for (const Linked& linked : weights_)
    if (linked.weight->is_owned() && !linked.weight->is_kept() && linked.weight->is_only_at(*this))
      only_here.push_back(linked.weight);
  if (!has_graph) {
    for (const auto& weight : only_here)
      weight->set_lost(
          fmt::format("weight '{}' was lost: the graph of the session that had it was destroyed before the "
                      "session; close the session first",
                      weight->name()));
    return;
  }
  try {
    weights::keep_in_file(only_here);
  } catch (const std::exception& e) {
    for (const auto& weight : only_here)
      weight->set_lost(
          fmt::format("weight '{}' was lost when its session ended, as it could not be written: {}; save "
                      "the weights before",
                      weight->name(), e.what()));
  }
}

void WeightsLink::read(const graph::ModelWeight& weight, const graph::PutPiece& put) {
  engine_.read_unlinked(tensor_of(weights_[by_weight_.at(&weight)]), put);
}

void WeightsLink::lose(const graph::ModelWeight& /*weight*/) { is_current_ = is_alone_ = false; }
void WeightsLink::note_shared(const graph::ModelWeight& /*weight*/) { is_alone_ = false; }

void copy_weights_in(Engine& engine, graph::Body& graph, uint64_t seed) {
  for (const graph::Variable& variable : graph.variables()) {
    const auto& weight = weight_of(variable);
    if (weight == nullptr || !weight->is_owned()) continue;
    if (weight->start(seed, variable.stored->name)) continue;  // as the session made it
    engine.fill({graph.front(), variable.value}, [&](void* into, Bytes at, Bytes bytes) {
      weight->read(at, {static_cast<std::byte*>(into), static_cast<size_t>(bytes)});
    });
  }
}

}  // namespace plimsoll::session

#include "eager/held_weights.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "eager/engine.h"
#include "weights/file_weights.h"

namespace plimsoll::eager {
namespace {

const std::shared_ptr<graph::ModelWeight>& weight_of(const EagerValue& variable) { return variable.stored->weight; }

}  // namespace

void HeldWeights::add(EagerValue& variable, uint64_t seed) {
  const auto& weight = weight_of(variable);
  if (weight == nullptr) return;
  weight->enlist(*this);
  held_.emplace(weight.get(), Held{&variable});
  restore(variable);
  weight->start(seed, variable.stored->name);
}

HeldWeights::Held& HeldWeights::held(const EagerValue& variable) { return held_.at(weight_of(variable).get()); }

void HeldWeights::restore(EagerValue& variable) {
  const auto& weight = weight_of(variable);
  if (restored_ != nullptr && weight->changed_at() < restored_at_ &&
      restored_->offers(variable.stored->name, weight->type()))
    weight->put(restored_, variable.stored->name);
}

bool HeldWeights::fill_restored(EagerValue& variable) const {
  if (restored_ == nullptr || variable.stored == nullptr) return false;
  if (!restored_->offers(variable.stored->name, variable.type)) return false;
  const graph::ModelWeight like(*variable.stored);
  restored_->read(variable.stored->name, like, 0, {variable.block.data, static_cast<size_t>(variable.bytes)});
  return true;
}

void HeldWeights::note_read(EagerValue& variable) {
  if (weight_of(variable) != nullptr && !variable.is_made()) weight_of(variable)->expect_read(*this);
}

void HeldWeights::take(EagerValue& variable) {
  const auto& weight = weight_of(variable);
  if (weight == nullptr || variable.owns_weight) return;
  if (!variable.is_made()) {
    // Numbers at a source can be read later; those of another holder are gone once it has lost them.
    held(variable).place = weight->place();
    if (held(variable).place.source == nullptr) engine_.bring_back(variable);
  }
  weight->take(*this);
  variable.owns_weight = true;
}

void HeldWeights::fill(EagerValue& variable) {
  const std::span<std::byte> into(variable.block.data, static_cast<size_t>(variable.bytes));
  const auto& weight = weight_of(variable);
  if (const graph::ModelWeight::Place place = std::exchange(held(variable).place, {}); place.source != nullptr)
    return place.source->read(place.name, *weight, 0, into);
  weight->read(0, into);
  weight->join(*this);
}

void HeldWeights::leave() noexcept {
  std::vector<std::shared_ptr<graph::ModelWeight>> only_here;
  for (const auto& [key, held] : held_) {
    const auto& weight = weight_of(*held.variable);
    if (weight->is_owned() && weight->is_only_at(*this)) only_here.push_back(weight);
  }
  try {
    weights::keep_in_file(only_here);
  } catch (const std::exception& e) {
    for (const auto& weight : only_here)
      weight->set_lost(
          fmt::format("weight '{}' was lost when its Eager ended, as it could not be written: {}; save the "
                      "model before",
                      weight->name(), e.what()));
  }
  for (const auto& [key, held] : held_) weight_of(*held.variable)->leave(*this);
  held_.clear();
}

bool HeldWeights::ask_for_room() {
  for (const auto& [key, held] : held_)
    if (weight_of(*held.variable)->make_room(*this)) return true;
  return false;
}

void HeldWeights::read(const graph::ModelWeight& weight, const graph::PutPiece& put) {
  EagerValue& variable = *held_.at(&weight).variable;
  const auto* const numbers = static_cast<const std::byte*>(engine_.read(variable));
  put({numbers, static_cast<size_t>(variable.bytes)});
}

void HeldWeights::lose(const graph::ModelWeight& weight) {
  Held& held = held_.at(&weight);
  engine_.lose(*held.variable);
  held.place = {};
}

void HeldWeights::note_shared(const graph::ModelWeight& weight) { held_.at(&weight).variable->owns_weight = false; }

}  // namespace plimsoll::eager

// The weights of models in eager code: which of them an Eager has, and whose numbers are the newest.
#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <utility>

#include "eager/value.h"
#include "graph/model_weights.h"

namespace plimsoll::eager {

class EagerEngine;

class HeldWeights final : public graph::WeightHolder {
 public:
  explicit HeldWeights(EagerEngine& engine) : engine_(engine) {}

  // A variable of a model that this Eager sees for the first time. Its initial values are those of `seed`, unless the
  // model has numbers already.
  void add(EagerValue& variable, uint64_t seed);
  // A recorded operator reads it.
  void note_read(EagerValue& variable);
  // An update of it is about to be recorded.
  void take(EagerValue& variable);
  // Its newest numbers into its memory.
  void fill(EagerValue& variable);
  // From now on variables that come up get the numbers of the file, where it has them; those of a model unless they
  // were changed since.
  void restore_from(std::shared_ptr<const graph::WeightSource> file) {
    restored_ = std::move(file);
    restored_at_ = std::chrono::steady_clock::now();
  }
  void restore(EagerValue& variable);
  bool fill_restored(EagerValue& variable) const;  // of no model; false: the file has it not
  // The Eager ends: numbers that nobody else has go to a temporary file.
  void leave() noexcept;
  // Asks others who hold weights of the same models for memory; true: some was given back.
  bool ask_for_room();

  void read(const graph::ModelWeight& weight, const graph::PutPiece& put) override;
  void lose(const graph::ModelWeight& weight) override;
  void note_shared(const graph::ModelWeight& weight) override;

 private:
  struct Held {
    EagerValue* variable;
    graph::ModelWeight::Place place = {};  // of its own numbers that are not in its memory yet
  };
  Held& held(const EagerValue& variable);

  EagerEngine& engine_;
  std::unordered_map<const graph::ModelWeight*, Held> held_;
  std::shared_ptr<const graph::WeightSource> restored_;
  graph::ModelWeight::Time restored_at_ = {};
};

}  // namespace plimsoll::eager

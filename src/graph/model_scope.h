// The scope in which the variables of a model are named: "name/", or "name_1/" where another model has that name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <plimsoll/graph.h>
#include "graph/model_weights.h"

namespace plimsoll::graph {

// Open while it lives. Called again in the same store, a model has the scope of its first call there. Within another
// model, models are numbered in the order of their calls, so that building the outer one again finds the same ones.
class ModelScope {
 public:
  ModelScope(VariableStore& store, std::string_view name, const std::shared_ptr<ModelWeights>& weights);
  ~ModelScope();
  ModelScope(const ModelScope&) = delete;
  ModelScope& operator=(const ModelScope&) = delete;

  const std::string& prefix() const { return prefix_; }  // "net/"
  void set_built();                                      // the variables are all there: later calls must find them
  // The variable of a weight of the model in this scope, made where there is none.
  const StoredVariable& variable_of(const ModelWeights::Member& member);

 private:
  VariableStore& store_;
  const std::shared_ptr<ModelWeights> weights_;
  std::string prefix_;
};

}  // namespace plimsoll::graph

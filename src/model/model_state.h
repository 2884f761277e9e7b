// What the handles of one model share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <plimsoll/model.h>

namespace plimsoll::model {

struct TracedModel;

// Where the variables of a model are.
struct Home {
  std::weak_ptr<VariableStore> store;
  std::string full_name;
};

// What a model was loaded from.
struct StoredSource {
  std::shared_ptr<const TracedModel> traced;
  Preprocessing preprocessing;
};

}  // namespace plimsoll::model

namespace plimsoll::train {
class Compiled;
}

namespace plimsoll {

struct Model::State {
  std::string name;
  std::vector<std::string> inputs, outputs;
  Function function;
  std::vector<model::Home> homes = {};
  std::shared_ptr<train::Compiled> compiled = {};          // see train/compiled.h; null before it is first needed
  std::shared_ptr<const model::StoredSource> stored = {};  // where it was loaded from; null: from nowhere
  std::shared_ptr<const AdaptOptions> adapters = {};       // that it was given; null: none
  // By name: variables that a weights file need not have.
  std::function<bool(std::string_view)> starts_fresh = {};

  bool lives_in(const std::shared_ptr<VariableStore>& store, const std::string& full_name);
};

}  // namespace plimsoll

// What the handles of one model share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <plimsoll/model.h>
#include "graph/model_weights.h"

namespace plimsoll::model {

struct TracedModel;

// What a model was loaded from.
struct StoredSource {
  std::shared_ptr<const TracedModel> traced;
  Preprocessing preprocessing;
  std::vector<MetricSums> metrics = {};  // of its objective
  int64_t classes = 0;
};

// What a folder above keeps of a model for as long as the model lives: fit/compiled.h does.
class Attachment {
 public:
  virtual ~Attachment() = default;
};

}  // namespace plimsoll::model

namespace plimsoll {

struct Model::State {
  std::string name;
  std::vector<std::string> inputs, outputs;
  Function function;
  std::shared_ptr<graph::ModelWeights> weights = std::make_shared<graph::ModelWeights>();
  // The types of its inputs when it was first called.
  std::shared_ptr<std::vector<NamedType>> called_with = std::make_shared<std::vector<NamedType>>();
  std::shared_ptr<model::Attachment> attachment = {};      // null before it is first needed
  std::shared_ptr<const model::StoredSource> stored = {};  // where it was loaded from; null: from nowhere
  std::shared_ptr<const AdaptOptions> adapters = {};       // that it was given; null: none
  // By name: variables that a weights file need not have.
  std::function<bool(std::string_view)> starts_fresh = {};
};

namespace model {

Model::State& state_of(const Model& model);  // throws Error for a model that is empty
// The weight of that name, "dense/kernel" or "net/dense/kernel"; throws Error that says which there are.
std::shared_ptr<graph::ModelWeight> find_weight(const Model& model, std::string_view name);

}  // namespace model

}  // namespace plimsoll

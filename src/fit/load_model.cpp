// Models saved and loaded by users.
#include <memory>
#include <string>

#include "fit/compiled.h"
#include "graph/model_weights.h"
#include "model/model_state.h"
#include "model/rewrite.h"
#include "store/model_file.h"

namespace plimsoll {
void Model::save(const std::string& path) const { save(path, preprocessing()); }

void Model::save(const std::string& path, const Preprocessing& preprocessing) const {
  fit::Compiled& compiled = fit::compiled_of(*this);
  const fit::Compiled::Turn turn(compiled);
  compiled.save_model(path, preprocessing);
}

Model Model::load(const std::string& path) {
  const store::StoredModel stored = store::read_model(path);
  store::expect_whole_weights(stored);
  Model model = model::replay_model(stored.traced);
  State& state = *model.state_;
  state.stored = std::make_shared<const model::StoredSource>(
      model::StoredSource{stored.traced, stored.spec.preprocessing, stored.spec.metrics, stored.spec.classes});
  store::add_weights(*state.weights, *stored.traced);
  model.load_weights(stored.weights_path());
  return model;
}

Preprocessing Model::preprocessing() const {
  const auto& stored = model::state_of(*this).stored;
  return stored != nullptr ? stored->preprocessing : Preprocessing();
}

}  // namespace plimsoll

// Models saved and loaded by users.
#include <source_location>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/recorder.h"
#include "model/model_state.h"
#include "model/rewrite.h"
#include "ops/ops.h"
#include "train/compiled.h"
#include "train/model_file.h"

namespace plimsoll {
namespace train {
namespace {

// Gives the variables of eager code the numbers of a file when they are made. The session fills those of a graph.
class EagerWeights {
 public:
  explicit EagerWeights(std::string path) : path_(std::move(path)) {}

  std::optional<Tensor> make(const model::ReplayedVariable& variable) {
    graph::Body& body = variable.graph.body();
    const bool is_new = variable.graph.store()->find(variable.graph.store()->full_name(variable.name)) == nullptr;
    if (!is_new || (body.recorder() == nullptr && body.capturer() == nullptr)) return std::nullopt;
    if (body.recorder() == nullptr)
      throw Error(
          fmt::format("the weights of a loaded model are read when it is first called: call it once before the "
                      "function that makes '{}' is traced",
                      variable.name));
    const StoredVariable& stored = variable.stored;
    const Tensor made =
        variable.graph.variable(variable.name, stored.type.dtype, stored.type.shape, stored.init, stored.role);
    {
      const auto [numbers, memory] = body.recorder()->make_empty(stored.type, std::source_location::current());
      read(stored.name, memory);
      ops::assign(made, numbers);
    }
    if (!body.is_composing()) body.recorder()->run();  // so that only one tensor at a time is held twice
    return made;
  }

 private:
  void read(const std::string& name, std::byte* into) {
    const session::WeightsReader reader(path_);
    if (places_.empty())
      reader.for_each([&](const session::StoredTensor& tensor) {
        places_[tensor.name] = {tensor.offset, tensor.bytes};
      });
    const auto at = places_.find(name);
    if (at == places_.end()) throw Error(fmt::format("'{}' has no tensor '{}'", path_, name), ErrorKind::BadData);
    reader.read(at->second.first, into, at->second.second);
  }

  const std::string path_;
  std::unordered_map<std::string, std::pair<Bytes, Bytes>> places_;  // by name: where, and how many bytes
};

}  // namespace
}  // namespace train

void Model::save(const std::string& path) const { save(path, preprocessing()); }

void Model::save(const std::string& path, const Preprocessing& preprocessing) const {
  train::Compiled& compiled = train::compiled_of(*this);
  const train::Compiled::Turn turn(compiled);
  compiled.save_model(path, preprocessing);
}

Model Model::load(const std::string& path) {
  const train::StoredModel stored = train::read_model(path);
  train::expect_whole_weights(stored);
  const auto weights = std::make_shared<train::EagerWeights>(stored.weights_path());
  model::Rewrite rewrite;
  rewrite.variable = [weights](const model::ReplayedVariable& variable) { return weights->make(variable); };
  Model model = model::replay_model(stored.traced, rewrite);
  model.state_->stored =
      std::make_shared<const model::StoredSource>(model::StoredSource{stored.traced, stored.spec.preprocessing});
  model.load_weights(stored.weights_path());
  return model;
}

Preprocessing Model::preprocessing() const {
  return state_ != nullptr && state_->stored != nullptr ? state_->stored->preprocessing : Preprocessing();
}

}  // namespace plimsoll

#include <plimsoll/predictor.h>

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include "model/model_state.h"
#include "session/engine.h"
#include "store/folded_norms.h"
#include "store/model_file.h"
#include "weights/weights_file.h"

namespace plimsoll {

namespace {

template <class Loaded>
Loaded& expect_here(const std::unique_ptr<Loaded>& loaded) {
  if (loaded == nullptr) throw Error("the predictor was moved away; use the predictor that it was moved to");
  return *loaded;
}

}  // namespace

struct Predictor::Loaded {
  Loaded(const std::string& path, const MemoryLine& line, int64_t samples, const PredictorOptions& options)
      : stored(store::read_model(path)), batch(samples) {
    if (batch < 1) throw Error(fmt::format("a model predicts at least 1 sample at a time, not {}", batch));
    store::expect_whole_weights(stored);
    NamedTensors fed;
    for (const NamedType& input : stored.spec.inputs) {
      placeholders.push_back(graph.placeholder(input.name, input.type.dtype, input.type.shape));
      fed.add(input.name, placeholders.back());
    }
    std::optional<store::FoldedNorms> folds;
    if (options.folds_norms) folds.emplace(stored.traced->inference);
    const bool has_folds = folds && !folds->is_empty();
    const Model net = has_folds ? model::replay_model(stored.traced, folds->rewrite()) : stored.spec.model;
    net.state()->weights->detach();  // numbers may be folded here, and belong to nobody else
    std::vector<Tensor> fetched;
    for (const auto& [name, tensor] : net(fed)) fetched.push_back(tensor);
    session.emplace(graph, line);
    step.emplace(session->step({.fetch = std::move(fetched), .batch = batch}));
    session->open();
    if (!has_folds) {
      session->load(stored.weights_path());
      return;
    }
    const weights::WeightsReader file(stored.weights_path());
    weights::load_weights(*session::engine_of(*session), graph, stored.weights_path(), {.change = folds->change(file)});
  }

  const store::StoredModel stored;
  const int64_t batch;
  Graph graph;
  std::vector<Tensor> placeholders;
  std::optional<Session> session;
  std::optional<Step> step;
};

Predictor::Predictor(const std::string& path, const MemoryLine& line, int64_t batch, const PredictorOptions& options)
    : loaded_(std::make_unique<Loaded>(path, line, batch, options)) {}
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;
Predictor::~Predictor() = default;

const std::vector<std::string>& Predictor::inputs() const { return expect_here(loaded_).stored.spec.model.inputs(); }
const std::vector<std::string>& Predictor::outputs() const { return expect_here(loaded_).stored.spec.model.outputs(); }
int64_t Predictor::batch() const { return expect_here(loaded_).batch; }

Tensor Predictor::input(size_t input) const {
  const std::vector<Tensor>& all = expect_here(loaded_).placeholders;
  if (input >= all.size()) throw Error(fmt::format("there is no input {}: the model has {}", input, all.size()));
  return all[input];
}

int64_t Predictor::input_elements(size_t input) const {
  return element_count(this->input(input).shape()).at(expect_here(loaded_).batch);
}

View Predictor::predict(std::span<const float> numbers) {
  if (expect_here(loaded_).placeholders.size() != 1)
    throw Error(fmt::format("this model has {} inputs: feed each of them", expect_here(loaded_).placeholders.size()),
                ErrorKind::Usage);
  const Feed feed(input(), numbers);
  return predict(std::span(&feed, 1))[0];
}

Results Predictor::predict(std::span<const Feed> feeds) { return (*expect_here(loaded_).step)(feeds); }

}  // namespace plimsoll

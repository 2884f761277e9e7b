#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "graph/countable.h"
#include "graph/init.h"
#include "graph/model_scope.h"
#include "graph/names.h"

namespace plimsoll {

struct VariableStore::Contents {
  struct OpenScope {
    std::string prefix;  // "block1/"
    bool is_reusing;
    bool may_add = false;            // reusing: what is not there yet is made
    graph::LayerCounts layers = {};  // named since this opening
    graph::LayerCounts models = {};  // the same, of models within a model
    std::vector<const graph::ModelWeights*> called = {};
    graph::ModelWeights* model = nullptr;  // that this scope was opened for
    bool is_known = false;                 // that model was built before
  };
  // The scope of a model in this store.
  struct ModelPlace {
    std::weak_ptr<graph::ModelWeights> model;
    std::string prefix;
  };

  const ModelPlace* place_of(const std::shared_ptr<graph::ModelWeights>& model) const {
    const auto at = std::ranges::find_if(places, [&](const ModelPlace& place) {
      return !place.model.owner_before(model) && !model.owner_before(place.model);
    });
    return at == places.end() ? nullptr : &*at;
  }
  bool is_taken(const std::string& prefix) const {
    return std::ranges::any_of(places, [&](const ModelPlace& place) { return place.prefix == prefix; }) ||
           std::ranges::any_of(variables, [&](const StoredVariable& v) { return v.name.starts_with(prefix); });
  }
  bool is_in_model() const {
    return std::ranges::any_of(scopes, [](const OpenScope& scope) { return scope.model != nullptr; });
  }
  bool is_in_new_model() const {
    return std::ranges::any_of(scopes,
                               [](const OpenScope& scope) { return scope.model != nullptr && !scope.is_known; });
  }

  // The name that a variable has in the model of an open scope. Scopes within may be those of a model that was first
  // called elsewhere.
  std::string name_in(size_t scope, std::string_view full) const {
    if (full.starts_with(scopes[scope].prefix)) return std::string(full.substr(scopes[scope].prefix.size()));
    for (size_t inner = scope + 1; inner < scopes.size(); ++inner) {
      const std::string& prefix = scopes[inner].prefix;
      if (prefix.starts_with(scopes[inner - 1].prefix) || !full.starts_with(prefix)) continue;
      const size_t last = prefix.size() < 2 ? std::string::npos : prefix.find_last_of('/', prefix.size() - 2);
      return std::string(full.substr(last == std::string::npos ? 0 : last + 1));
    }
    return std::string(full);
  }

  // All models that are being built have this weight.
  void link(StoredVariable& variable) {
    if (variable.role != VariableRole::Weight && variable.role != VariableRole::Statistic) return;
    std::shared_ptr<graph::ModelWeight> weight = variable.weight;
    for (size_t i = scopes.size(); i-- > 0 && weight == nullptr;)
      if (scopes[i].model != nullptr && !scopes[i].model->is_detached())
        weight = scopes[i].model->find(name_in(i, variable.name));
    if (weight != nullptr && !(weight->type() == variable.type)) {
      if (weight->has_numbers())
        throw Error(
            fmt::format("weight '{}' is {} and can't be {}; a model has one set of weights: call it with inputs "
                        "of the same sizes, or make another model",
                        variable.name, to_string(weight->type()), to_string(variable.type)));
      weight = nullptr;
    }
    for (size_t i = scopes.size(); i-- > 0;) {
      if (scopes[i].model == nullptr || scopes[i].model->is_detached()) continue;
      if (weight == nullptr) weight = std::make_shared<graph::ModelWeight>(variable);
      scopes[i].model->put(name_in(i, variable.name), weight);
    }
    variable.weight = std::move(weight);
  }

  std::deque<StoredVariable> variables;  // a deque: addresses and names stay valid
  std::unordered_map<std::string_view, StoredVariable*> by_name;
  std::unordered_map<const graph::ModelWeight*, const StoredVariable*> by_weight;
  std::vector<ModelPlace> places;
  std::vector<OpenScope> scopes{OpenScope{"", false, false}};  // the first is outside of all scopes
};

VariableStore::VariableStore() : contents_(std::make_unique<Contents>()) {}
VariableStore::~VariableStore() = default;

const std::deque<StoredVariable>& VariableStore::variables() const { return contents_->variables; }

const StoredVariable* VariableStore::find(std::string_view full_name) const {
  const auto at = contents_->by_name.find(full_name);
  return at == contents_->by_name.end() ? nullptr : at->second;
}

const StoredVariable& VariableStore::declare(std::string_view name, const TensorType& type, const Init& given,
                                             VariableRole role) {
  const Init init = graph::resolve(given, type.shape);
  for (const Dim dim : type.shape) {
    if (dim.is_batch() || dim == Dim(0))
      throw Error(fmt::format("variable '{}' can't have shape {}: its sizes must be fixed and positive", name,
                              to_string(type.shape)));
  }
  graph::expect_countable(type.shape);
  std::string full = full_name(name);
  if (const auto at = contents_->by_name.find(full); at != contents_->by_name.end()) {
    StoredVariable* const known = at->second;
    if (known->type == type) {
      if (known->weight == nullptr || contents_->is_in_new_model()) {
        contents_->link(*known);
        if (known->weight != nullptr) contents_->by_weight.emplace(known->weight.get(), known);
      }
      return *known;
    }
    throw Error(
        fmt::format("variable '{}' is {} and can't be reused as {}", full, to_string(known->type), to_string(type)));
  }
  if (is_reusing() && !contents_->scopes.back().may_add)
    throw Error(
        fmt::format("variable '{}' does not exist and can't be reused; make it in a scope without reuse first", full));
  if (!std::isfinite(init.a) || !std::isfinite(init.b) ||
      ((init.kind == Init::Kind::Normal || init.kind == Init::Kind::TruncatedNormal) && init.b < 0))
    throw Error(fmt::format("variable '{}' can't start as {}", full, to_string(init)));
  graph::expect_name(full);
  StoredVariable made{std::move(full), type, role, init};
  contents_->link(made);
  // A model that was first called as a part of another one has its variables there.
  if (const auto at = contents_->by_weight.find(made.weight.get()); at != contents_->by_weight.end())
    return *at->second;
  StoredVariable& stored = contents_->variables.emplace_back(std::move(made));
  if (stored.weight != nullptr) contents_->by_weight.emplace(stored.weight.get(), &stored);
  contents_->by_name.emplace(stored.name, &stored);
  return stored;
}

void VariableStore::set_treatment(std::string_view full_name, const Regulariser& regulariser,
                                  const Constraint& constraint) {
  const auto at = contents_->by_name.find(full_name);
  if (at == contents_->by_name.end()) throw Error(fmt::format("there is no variable '{}'", full_name));
  at->second->regulariser = regulariser;
  at->second->constraint = constraint;
}

std::string VariableStore::full_name(std::string_view name) const {
  return contents_->scopes.back().prefix + std::string(name);
}

bool VariableStore::is_reusing() const { return contents_->scopes.back().is_reusing; }

bool VariableStore::is_in_scope() const { return contents_->scopes.size() > 1; }

std::string VariableStore::layer_name(std::string_view kind) {
  return graph::next_layer_name(contents_->scopes.back().layers, kind);
}

Scope::Scope(Graph& graph, std::string_view name, Mode mode) : Scope(*graph.store(), name, mode) {}

Scope::Scope(VariableStore& store, std::string_view name, Mode mode) : store_(store) {
  std::string prefix = store.full_name("");
  if (!name.empty()) prefix += std::string(name) + "/";
  store.contents_->scopes.push_back({std::move(prefix), store.is_reusing() || mode == Mode::Reuse});
}

Scope::~Scope() { store_.contents_->scopes.pop_back(); }

namespace graph {

ModelScope::ModelScope(VariableStore& store, std::string_view name, const std::shared_ptr<ModelWeights>& weights)
    : store_(store), weights_(weights) {
  VariableStore::Contents& contents = *store.contents_;
  VariableStore::Contents::OpenScope& around = contents.scopes.back();
  const VariableStore::Contents::ModelPlace* const known = contents.place_of(weights);
  const bool is_first = std::ranges::find(around.called, weights.get()) == around.called.end();
  if (known != nullptr) prefix_ = known->prefix;
  if (contents.is_in_model()) {
    std::string numbered;
    if (is_first) {
      around.called.push_back(weights.get());
      if (known == nullptr || known->prefix.starts_with(around.prefix)) numbered = next_layer_name(around.models, name);
    }
    if (known == nullptr) prefix_ = around.prefix + numbered + "/";
  } else if (known == nullptr) {
    prefix_ = store.full_name(name) + "/";
    for (int number = 1; !around.is_reusing && contents.is_taken(prefix_); ++number)
      prefix_ = fmt::format("{}_{}/", store.full_name(name), number);
  }
  const bool is_reusing = around.is_reusing || known != nullptr;
  const bool may_add = known != nullptr || around.may_add;
  contents.scopes.push_back({prefix_, is_reusing, may_add, {}, {}, {}, weights.get(), known != nullptr});
}

ModelScope::~ModelScope() { store_.contents_->scopes.pop_back(); }

void ModelScope::set_built() {
  if (store_.contents_->place_of(weights_) == nullptr) store_.contents_->places.push_back({weights_, prefix_});
}

const StoredVariable& ModelScope::variable_of(const ModelWeights::Member& member) {
  const auto& by_weight = store_.contents_->by_weight;
  if (const auto at = by_weight.find(member.weight.get()); at != by_weight.end()) return *at->second;
  store_.contents_->scopes.back().may_add = true;
  return store_.declare(member.name, member.weight->type(), member.weight->init(), member.weight->role());
}

}  // namespace graph

}  // namespace plimsoll

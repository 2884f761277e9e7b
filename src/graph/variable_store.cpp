#include <cmath>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "graph/names.h"

namespace plimsoll {

struct VariableStore::Contents {
  struct OpenScope {
    std::string prefix;  // "block1/"
    bool is_reusing;
    graph::LayerCounts layers = {};  // named since this opening
  };
  std::deque<StoredVariable> variables;  // a deque: addresses and names stay valid
  std::unordered_map<std::string_view, const StoredVariable*> by_name;
  std::vector<OpenScope> scopes{OpenScope{"", false}};  // the first is outside of all scopes
};

VariableStore::VariableStore() : contents_(std::make_unique<Contents>()) {}
VariableStore::~VariableStore() = default;

const std::deque<StoredVariable>& VariableStore::variables() const { return contents_->variables; }

const StoredVariable* VariableStore::find(std::string_view full_name) const {
  const auto at = contents_->by_name.find(full_name);
  return at == contents_->by_name.end() ? nullptr : at->second;
}

const StoredVariable& VariableStore::declare(std::string_view name, const TensorType& type, const Init& init,
                                             VariableRole role) {
  for (const Dim dim : type.shape) {
    if (dim.is_batch() || dim == Dim(0))
      throw Error(fmt::format("variable '{}' can't have shape {}: its sizes must be fixed and positive", name,
                              to_string(type.shape)));
  }
  std::string full = full_name(name);
  if (const StoredVariable* known = find(full)) {
    if (known->type == type) return *known;
    throw Error(
        fmt::format("variable '{}' is {} and can't be reused as {}", full, to_string(known->type), to_string(type)));
  }
  if (is_reusing())
    throw Error(
        fmt::format("variable '{}' does not exist and can't be reused; make it in a scope without reuse first", full));
  if (!std::isfinite(init.a) || !std::isfinite(init.b) ||
      ((init.kind == Init::Kind::Normal || init.kind == Init::Kind::TruncatedNormal) && init.b < 0))
    throw Error(fmt::format("variable '{}' can't start as {}", full, to_string(init)));
  graph::expect_name(full);
  const StoredVariable& stored = contents_->variables.emplace_back(StoredVariable{std::move(full), type, role, init});
  contents_->by_name.emplace(stored.name, &stored);
  return stored;
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

}  // namespace plimsoll

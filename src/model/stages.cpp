#include "model/stages.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>

namespace plimsoll::model {
namespace {

using graph::Body;
using graph::ValueKind;

// "block6" holds "gpt/block6/attention/matmul" in the scope "gpt", and "gpt/block6".
bool is_of_layer(std::string_view node, std::string_view scope, std::string_view layer) {
  const std::string prefix(scope);
  if (node.starts_with(prefix + "/")) node.remove_prefix(prefix.size() + 1);
  if (!node.starts_with(layer)) return false;
  return node.size() == layer.size() || node[layer.size()] == '/';
}

std::string name_layers(const Body& graph, const NodeRange& pass, std::string_view scope) {
  std::vector<std::string> names;
  const std::string prefix = std::string(scope) + "/";
  for (NodeId id = pass.begin; id < pass.end; ++id) {
    std::string_view name = graph.name(graph.node(id));
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    const size_t end = name.find('/');
    if (end == std::string_view::npos) continue;
    const std::string layer(name.substr(0, end));
    if (std::ranges::find(names, layer) == names.end()) names.push_back(layer);
  }
  constexpr size_t kShown = 12;
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<NodeId> find_starts(const Body& graph, const NodeRange& pass, std::string_view scope,
                                const std::vector<std::string>& first_layers) {
  std::vector<NodeId> starts;
  for (const std::string& layer : first_layers) {
    NodeId at = pass.begin;
    while (at < pass.end && !is_of_layer(graph.name(graph.node(at)), scope, layer)) ++at;
    if (at == pass.end)
      throw Error(fmt::format("model '{}' has no layer '{}' to begin a stage with; its layers are {}", scope, layer,
                              name_layers(graph, pass, scope)),
                  ErrorKind::Usage);
    if (!starts.empty() && at <= starts.back())
      throw Error(fmt::format("layer '{}' does not come after the layer that begins the stage before; give the layers "
                              "in the order of the model",
                              layer),
                  ErrorKind::Usage);
    starts.push_back(at);
  }
  return starts;
}

std::vector<bool> find_needed(const Body& graph, const NodeRange& pass, std::span<const ValueId> values,
                              std::span<const NodeId> nodes) {
  std::vector<bool> needed(graph.nodes().size(), false);
  const auto need = [&](ValueId value) {
    if (const NodeId producer = graph.value(value).producer; producer >= 0)
      needed[static_cast<size_t>(producer)] = true;
  };
  for (const ValueId value : values) need(value);
  for (const NodeId node : nodes) needed[static_cast<size_t>(node)] = true;
  for (NodeId id = pass.end - 1; id >= 0; --id)
    if (needed[static_cast<size_t>(id)])
      for (const ValueId input : graph.inputs(graph.node(id))) need(input);
  return needed;
}

// A weight may be used on several ranks, which add up its gradients; statistics may not, as they would drift apart.
void expect_own_statistics(const Body& graph, const StageCut& cut) {
  std::vector<int> user(graph.values().size(), -1);
  for (NodeId id = 0; id < static_cast<NodeId>(cut.stage_of.size()); ++id) {
    const int stage = cut.stage_of[static_cast<size_t>(id)];
    if (stage < 0) continue;
    for (const ValueId input : graph.inputs(graph.node(id))) {
      if (graph.value(input).kind != ValueKind::Variable || graph.variable_of(input).role() == VariableRole::Weight)
        continue;
      int& first = user[static_cast<size_t>(input)];
      if (first >= 0 && first != stage)
        throw Error(fmt::format("'{}' is kept by stage {} and by stage {} of the pipeline, and statistics lie on one "
                                "rank; begin the stages with other layers, so that one rank has all of its uses",
                                graph.name(graph.value(input)), first, stage),
                    ErrorKind::Usage);
      first = stage;
    }
  }
}

void find_crossing(const Body& graph, StageCut& cut) {
  // The last stage that uses a value.
  std::vector<int> last(graph.values().size(), -1);
  for (size_t id = 0; id < cut.stage_of.size(); ++id)
    if (cut.stage_of[id] >= 0)
      for (const ValueId input : graph.inputs(graph.node(static_cast<NodeId>(id)))) {
        int& stage = last[static_cast<size_t>(input)];
        stage = std::max(stage, cut.stage_of[id]);
      }
  for (size_t value = 0; value < last.size(); ++value) {
    const NodeId producer = graph.value(static_cast<ValueId>(value)).producer;
    if (producer < 0 || cut.stage_of[static_cast<size_t>(producer)] < 0) continue;
    for (int stage = cut.stage_of[static_cast<size_t>(producer)]; stage < last[value]; ++stage)
      cut.crossing[static_cast<size_t>(stage)].push_back(static_cast<ValueId>(value));
  }
}

}  // namespace

NodeId StageCut::first_node(int stage) const {
  const auto at = std::ranges::find(stage_of, stage);
  return at == stage_of.end() ? -1 : static_cast<NodeId>(at - stage_of.begin());
}

StageCut cut_into_stages(const Body& graph, const NodeRange& pass, std::string_view scope,
                         const std::vector<std::string>& first_layers, std::span<const ValueId> values,
                         std::span<const NodeId> nodes) {
  const std::vector<NodeId> starts = find_starts(graph, pass, scope, first_layers);
  const std::vector<bool> needed = find_needed(graph, pass, values, nodes);
  StageCut cut{std::vector<int>(graph.nodes().size(), -1), std::vector<std::vector<ValueId>>(starts.size())};
  for (NodeId id = 0; id < pass.end; ++id)
    if (needed[static_cast<size_t>(id)])
      cut.stage_of[static_cast<size_t>(id)] = static_cast<int>(std::ranges::upper_bound(starts, id) - starts.begin());
  for (int stage = 0; stage <= static_cast<int>(starts.size()); ++stage)
    if (cut.first_node(stage) < 0)
      throw Error(
          fmt::format("stage {} of the pipeline would have no layer; begin the next stage with a later layer", stage),
          ErrorKind::Usage);
  expect_own_statistics(graph, cut);
  find_crossing(graph, cut);
  return cut;
}

std::vector<StageTurn> list_turns(int stage, int stages, int64_t micro_batches) {
  using Kind = StageTurn::Kind;
  std::vector<StageTurn> turns;
  const bool is_first = stage == 0, is_last = stage + 1 == stages;
  const auto before = [&](int64_t forward, int64_t backward) {
    if (!is_first) turns.push_back({Kind::ExchangeBefore, forward, backward});
  };
  const auto after = [&](int64_t forward, int64_t backward) {
    if (!is_last) turns.push_back({Kind::ExchangeAfter, forward, backward});
  };
  const int64_t ahead = std::min<int64_t>(stages - 1 - stage, micro_batches), both = micro_batches - ahead;
  for (int64_t i = 0; i < ahead; ++i) {
    before(i, -1);
    turns.push_back({Kind::Forward, i, -1});
    after(i, -1);
  }
  if (both > 0) before(ahead, -1);
  for (int64_t i = 0; i < both; ++i) {
    turns.push_back({Kind::Forward, ahead + i, -1});
    after(ahead + i, i);
    turns.push_back({Kind::Backward, -1, i});
    before(i + 1 < both ? ahead + i + 1 : -1, i);
  }
  for (int64_t i = both; i < micro_batches; ++i) {
    after(-1, i);
    turns.push_back({Kind::Backward, -1, i});
    before(-1, i);
  }
  return turns;
}

}  // namespace plimsoll::model

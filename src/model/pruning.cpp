#include "model/pruning.h"

#include <fnmatch.h>

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "ops/ops.h"

namespace plimsoll {
namespace model {
namespace {

constexpr std::string_view kScope = "pruning";

[[noreturn]] void refuse_pruning(const std::string& what) { throw Error("pruning: " + what, ErrorKind::Usage); }

template <class Number>
Number parse_setting(std::string_view name, std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    refuse_pruning(fmt::format("{}={}: that is no number", name, text));
  return number;
}

void parse_block(std::string_view text, Pruning& pruning) {
  const size_t cross = text.find('x');
  if (cross == std::string_view::npos) refuse_pruning(fmt::format("block={}: write HEIGHTxWIDTH, as 4x1", text));
  pruning.block_height = parse_setting<int64_t>("block", text.substr(0, cross));
  pruning.block_width = parse_setting<int64_t>("block", text.substr(cross + 1));
}

void parse_layers(std::string_view text, Pruning& pruning) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (!one.empty()) pruning.layers.emplace_back(one);
  }
}

void parse_item(std::string_view name, std::string_view value, Pruning& pruning) {
  if (name == "from") {
    pruning.from = parse_setting<double>(name, value);
  } else if (name == "to") {
    pruning.to = parse_setting<double>(name, value);
  } else if (name == "begin") {
    pruning.begin = parse_setting<int64_t>(name, value);
  } else if (name == "end") {
    pruning.end = parse_setting<int64_t>(name, value);
  } else if (name == "frequency") {
    pruning.frequency = parse_setting<int64_t>(name, value);
  } else if (name == "power") {
    pruning.power = parse_setting<double>(name, value);
  } else if (name == "block") {
    parse_block(value, pruning);
  } else if (name == "pool" && (value == "mean" || value == "largest")) {
    pruning.pool = value == "mean" ? Pruning::Pool::Mean : Pruning::Pool::Largest;
  } else if (name == "layers") {
    parse_layers(value, pruning);
  } else if (name == "two-of-four" && value.empty()) {
    pruning.two_of_four = true;
  } else {
    refuse_pruning(
        fmt::format("'{}{}{}' is unknown; known are from, to, begin, end, frequency, power, block=4x1, pool=mean or "
                    "largest, layers=NAME:NAME, two-of-four",
                    name, value.empty() ? "" : "=", value));
  }
}

// "net/dense/kernel" is also "dense/kernel", "net/dense" and "dense".
bool matches(const std::string& pattern, std::string_view name, std::string_view scope) {
  const auto fits = [&](std::string_view text) {
    return ::fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
  };
  std::string_view relative = name;
  if (relative.starts_with(scope) && relative.size() > scope.size()) relative.remove_prefix(scope.size() + 1);
  const auto layer_of = [](std::string_view text) { return text.substr(0, text.rfind('/')); };
  return fits(name) || fits(relative) || fits(layer_of(name)) || fits(layer_of(relative));
}

// Filters of depthwise convolutions, which are not pruned by default: they have few weights.
std::vector<bool> find_depthwise(const graph::Body& graph) {
  std::vector<bool> is_depthwise(graph.values().size(), false);
  for (const graph::Node& node : graph.nodes()) {
    const auto inputs = graph.inputs(node);
    if (inputs.size() < 2 || graph.attrs(node).i("groups", 1) == 1) continue;
    const Shape& filter = graph.value(inputs[1]).type.shape;
    if (filter.rank() == 4 && filter[1] == Dim(1)) is_depthwise[static_cast<size_t>(inputs[1])] = true;
  }
  return is_depthwise;
}

std::vector<Tensor> find_pruned(const Pruning& pruning, std::span<const Tensor> trained, std::string_view scope,
                                const graph::Body& body) {
  const std::vector<bool> is_depthwise = find_depthwise(body);
  std::vector<Tensor> found;
  std::vector<bool> is_used(pruning.layers.size(), false);
  for (const Tensor& weight : trained) {
    if (weight.dtype() != DType::F32 || weight.rank() < 2) continue;
    const std::string name(weight.name());
    bool is_wanted =
        pruning.layers.empty() && name.ends_with("kernel") && !is_depthwise[static_cast<size_t>(weight.id())];
    for (size_t i = 0; i < is_used.size(); ++i)
      if (matches(pruning.layers[i], name, scope)) is_wanted = is_used[i] = true;
    if (is_wanted) found.push_back(weight);
  }
  for (size_t i = 0; i < is_used.size(); ++i)
    if (!is_used[i])
      refuse_pruning(
          fmt::format("no trained weight with two or more dimensions matches '{}'; name layers as inspect lists them",
                      pruning.layers[i]));
  if (found.empty())
    refuse_pruning("the model has no kernel of a dense or convolution layer; name the layers to prune");
  return found;
}

graph::Attrs settings_of(const Pruning& pruning) {
  graph::Attrs attrs;
  if (pruning.two_of_four) {
    attrs.set("two_of_four", int64_t{1});
    return attrs;
  }
  attrs.set("initial", pruning.from.value_or(pruning.to));
  attrs.set("final", pruning.to);
  attrs.set("begin", pruning.begin);
  attrs.set("end", pruning.end);
  attrs.set("frequency", pruning.frequency);
  attrs.set("power", pruning.power);
  if (pruning.block_height != 1) attrs.set("block_height", pruning.block_height);
  if (pruning.block_width != 1) attrs.set("block_width", pruning.block_width);
  if (pruning.pool == Pruning::Pool::Largest) attrs.set("largest", int64_t{1});
  return attrs;
}

}  // namespace

PrunedWeights add_pruning(Graph& graph, const Pruning& pruning, std::span<const Tensor> trained,
                          std::string_view scope) {
  pruning.check();
  const std::vector<Tensor> weights = find_pruned(pruning, trained, scope, graph.body());
  const graph::Attrs settings = settings_of(pruning);
  const Scope names(graph, kScope);
  PrunedWeights result;
  result.step = graph.variable("step", DType::I64, {}, Init::zeros(), VariableRole::Optimiser);
  result.nodes.push_back(ops::count_step(result.step));
  for (const Tensor& weight : weights) {
    if (pruning.block_height * pruning.block_width > 1 && weight.rank() != 2)
      refuse_pruning(fmt::format("blocks are of matrices but '{}' is {}; name the layers that have matrices",
                                 weight.name(), to_string(weight.type())));
    const int64_t bytes = (element_count(weight.shape()).fixed() + 7) / 8;
    const Tensor mask = graph.variable(fmt::format("{}/mask", weight.name()), DType::U8, {bytes}, Init::constant(255),
                                       VariableRole::Optimiser);
    result.nodes.push_back(ops::prune(weight, mask, result.step, settings, fmt::format("{}/prune", weight.name())));
  }
  return result;
}

int64_t first_pruning_step(const Pruning& pruning) {
  if (pruning.two_of_four) return 1;
  const int64_t first = pruning.begin > 0 ? pruning.begin : pruning.frequency;
  return pruning.end >= 0 && first > pruning.end ? 0 : first;
}

Bytes mask_bytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const graph::Variable& variable : graph.body().variables()) {
    const std::string& name = variable.stored->name;
    if (name.starts_with(kScope) && name.ends_with("/mask"))
      bytes += element_count(variable.stored->type.shape).fixed();
  }
  return bytes;
}

}  // namespace model

Pruning Pruning::parse(std::string_view text) {
  Pruning pruning;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = std::min(item.find('='), item.size());
    model::parse_item(item.substr(0, equals), item.substr(std::min(item.size(), equals + 1)), pruning);
  }
  pruning.check();
  return pruning;
}

void Pruning::check() const {
  using model::refuse_pruning;
  for (const double share : {from.value_or(to), to})
    if (!(share >= 0 && share < 1))
      refuse_pruning(fmt::format("a share of {} zeros makes no sense; give at least 0 and less than 1", share));
  if (begin < 0) refuse_pruning(fmt::format("it can't begin at step {}; give 0 or more", begin));
  if (end < -1) refuse_pruning(fmt::format("it can't end at step {}; give a step, or -1 for no end", end));
  if (end >= 0 && end < begin)
    refuse_pruning(fmt::format("it ends at step {} before it begins at step {}; give a later end", end, begin));
  if (from && *from != to && end <= begin)
    refuse_pruning(fmt::format("from {} to {} zeros needs an end after step {}; give the step where {} is reached",
                               *from, to, begin, to));
  if (frequency < 1)
    refuse_pruning(
        fmt::format("a frequency of {} makes no sense; masks are made anew each 1 or more steps", frequency));
  if (model::first_pruning_step(*this) == 0)
    refuse_pruning(
        fmt::format("no step up to {} is one that makes masks: each {} steps does; give a later end", end, frequency));
  if (!(power > 0 && std::isfinite(power))) refuse_pruning(fmt::format("a power of {} must be positive", power));
  if (block_height < 1 || block_width < 1)
    refuse_pruning(fmt::format("blocks of {} x {} make no sense; give 1 x 1 or larger", block_height, block_width));
  if (two_of_four && (from || block_height * block_width > 1))
    refuse_pruning("two of four leaves half of the weights from the first step on: leave out `from` and the blocks");
}

}  // namespace plimsoll

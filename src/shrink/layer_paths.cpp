#include "shrink/layer_paths.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "shrink/adapt.h"
#include "shrink/products.h"

namespace plimsoll::shrink {
namespace {

struct KnownLayer {
  std::string_view own, module;
  int part = 0, parts = 1;
};

constexpr KnownLayer kGpt2[] = {{"attention/query", "attn.c_attn", 0, 3},
                                {"attention/key", "attn.c_attn", 1, 3},
                                {"attention/value", "attn.c_attn", 2, 3},
                                {"attention/output", "attn.c_proj"},
                                {"fc1", "mlp.c_fc"},
                                {"fc2", "mlp.c_proj"}};
constexpr KnownLayer kBert[] = {{"attention/query", "attention.self.query"},
                                {"attention/key", "attention.self.key"},
                                {"attention/value", "attention.self.value"},
                                {"attention/output", "attention.output.dense"},
                                {"fc1", "intermediate.dense"},
                                {"fc2", "output.dense"}};

bool is_gpt2(std::string_view model) { return model.starts_with("gpt2"); }
bool is_bert(std::string_view model) { return model.starts_with("bert"); }

// "block12/attention/query" as 12 and the rest; 0: it is in no block.
std::pair<int, std::string_view> split_block(std::string_view own) {
  constexpr std::string_view kBlock = "block";
  const size_t slash = own.find('/');
  if (!own.starts_with(kBlock) || slash == std::string_view::npos) return {0, own};
  int number = 0;
  const char* const end = own.data() + slash;
  const auto [stop, status] = std::from_chars(own.data() + kBlock.size(), end, number);
  if (status != std::errc() || stop != end || number < 1) return {0, own};
  return {number, own.substr(slash + 1)};
}

bool ends_with_path(std::string_view path, std::string_view end, char separator) {
  return path == end ||
         (path.size() > end.size() && path.ends_with(end) && path[path.size() - end.size() - 1] == separator);
}

}  // namespace

LayerPath path_of(std::string_view model, std::string_view own) {
  LayerPath path{std::string(own), std::string(own), std::string(own)};
  std::replace(path.module.begin(), path.module.end(), '/', '.');
  const std::pair<int, std::string_view> place = split_block(own);
  const auto name_as = [&](std::string_view blocks, const auto& layers) {
    for (const KnownLayer& layer : layers) {
      if (layer.own != place.second || place.first == 0) continue;
      path.module = fmt::format("{}.{}.{}", blocks, place.first - 1, layer.module);
      path.part = layer.part;
      path.parts = layer.parts;
      if (layer.parts > 1) path.shared = path.own.substr(0, path.own.find_last_of('/'));
    }
  };
  if (is_gpt2(model)) name_as("transformer.h", kGpt2);
  if (is_bert(model)) name_as("bert.encoder.layer", kBert);
  if (is_bert(model) && own == "head") path.module = "cls.predictions.transform.dense";
  return path;
}

bool is_target(const LayerPath& path, const std::string& target) {
  return ends_with_path(path.own, target, '/') || ends_with_path(path.module, target, '.') ||
         ::fnmatch(target.c_str(), path.own.c_str(), 0) == 0 || ::fnmatch(target.c_str(), path.module.c_str(), 0) == 0;
}

std::vector<std::string> default_targets(std::string_view model) {
  if (is_gpt2(model)) return {"c_attn"};
  if (is_bert(model)) return {"query", "value"};
  return {};
}

bool has_transposed_weights(std::string_view model) { return is_gpt2(model); }
std::string task_of(std::string_view model) { return is_gpt2(model) ? "CAUSAL_LM" : ""; }

std::vector<WeightProduct> list_products(const ModelSpec& model) {
  const auto traced = model::trace(model, model::Passes::Inference);
  const graph::Body& body = traced.inference.graph->body();
  std::vector<WeightProduct> products;
  for (const graph::Node& node : body.nodes()) {
    const std::optional<ValueId> weight = weight_of(body, node);
    if (!weight) continue;
    const std::string& name = body.variable_of(*weight).stored->name;
    if (is_adapter(name)) continue;
    const bool is_known =
        std::any_of(products.begin(), products.end(), [&](const auto& p) { return p.weight == name; });
    if (is_known) continue;
    const Shape& shape = body.value(*weight).type.shape;
    products.push_back(
        {path_of(model.name(), layer_of(name, traced.inference.scope)), name, shape[0].fixed(), shape[1].fixed()});
  }
  return products;
}

}  // namespace plimsoll::shrink

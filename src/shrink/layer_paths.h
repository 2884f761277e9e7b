// Names of layers here and in Hugging Face's models; adapter files use the latter.
//
//   model  here                        there
//   gpt2   block1/attention/query      transformer.h.0.attn.c_attn     one product for query, key and value
//          block1/attention/output     transformer.h.0.attn.c_proj
//          block1/fc1, block1/fc2      transformer.h.0.mlp.c_fc, transformer.h.0.mlp.c_proj
//   bert   block1/attention/query      bert.encoder.layer.0.attention.self.query
//          block1/attention/output     bert.encoder.layer.0.attention.output.dense
//          block1/fc1, block1/fc2      bert.encoder.layer.0.intermediate.dense, bert.encoder.layer.0.output.dense
//          head                        cls.predictions.transform.dense
//   other  tower/dense_1               tower.dense_1
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/model.h>

namespace plimsoll::shrink {

struct LayerPath {
  std::string own;          // relative to the model
  std::string module;       // of the file
  std::string shared;       // layers of one module share A, which lies here
  int part = 0, parts = 1;  // which of the module's outputs the layer has
};

LayerPath path_of(std::string_view model, std::string_view own);

// Whether the path ends with the target, or matches it as a pattern.
bool is_target(const LayerPath& path, const std::string& target);

// The layers that PEFT adapts by default; empty: the model is not known.
std::vector<std::string> default_targets(std::string_view model);

// Whether Hugging Face's model stores weights as [inputs, outputs], as here (Conv1D of gpt2).
bool has_transposed_weights(std::string_view model);
// PEFT's task type of the model, "CAUSAL_LM"; empty: none.
std::string task_of(std::string_view model);

// A product with a weight, which can have an adapter. Products of adapters themselves are not among them.
struct WeightProduct {
  LayerPath path;
  std::string weight;  // full name
  int64_t inputs = 0, outputs = 0;
};
std::vector<WeightProduct> list_products(const ModelSpec& model);

}  // namespace plimsoll::shrink

// Adapters (LoRA): small products beside those of a model, which are trained instead of its weights.
//
//   Model small = net.adapt({.rank = 8, .alpha = 16, .targets = {"query", "value"}});
//   small.compile({.optimiser = Optimiser::adam(1e-3), .loss = "mse", .freeze = adapter_freeze()});
//
// y = x W + bias becomes y = x W + bias + alpha / rank (dropout(x) A) B. A starts as in PEFT, uniform within
// 1 / sqrt(inputs); B starts as zeros, so that an adapted model begins as the model itself. Variables are
// "layer/lora_A" [inputs, rank] and "layer/lora_B" [rank, outputs].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/freeze.h>

namespace plimsoll {

// Defaults of PEFT.
struct AdaptOptions {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;  // of what goes into A, in training
  // Layers with a product: the end of their path ("query", "attention/query"), a pattern of it ("block1/*"), or the
  // same of the name that PEFT has for the layer ("c_attn"). Empty: attention projections of gpt2 and bert, as PEFT has
  // them.
  std::vector<std::string> targets = {};
};

// All but adapters.
Freeze adapter_freeze(DType type = DType::F32);

class Model;
// Writes the adapters of an adapted model that was trained, or called with a dataset, as a folder in PEFT's format.
// Throws Error(Usage) for another model.
void save_adapter(const Model& model, const std::string& folder);

// The model with the adapters of a folder in PEFT's format: Model::adapt with the folder's rank, alpha and layers.
// Their numbers are read before the next fit, evaluate or predict. The weights of the model itself come from
// load_weights, as those of every adapted model. Throws Error(BadData) for a folder that is damaged; the next call does
// for one of another model.
Model load_adapter(const Model& model, const std::string& folder);

}  // namespace plimsoll

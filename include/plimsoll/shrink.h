// Making a trained model smaller, in memory and on the disk: Model::strip, Model::quantise. Also adapters, which train
// few weights beside those of a model: Model::adapt.
//
//   net.prune({.from = 0.5, .to = 0.8, .begin = 1000, .end = 10'000});
//   net.fit(train, line, {.epochs = 20});
//   StripReport stripped;
//   Model small = net.strip({}, &stripped);
//   Model tiny = net.quantise(calibration, line, {.calibration = "percentile"});
//   tiny.save("tiny.plimsoll");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/model.h>
#include <plimsoll/types.h>

namespace plimsoll {

// What the weights of a model take, statistics of its layers included.
struct ModelBytes {
  Bytes memory = 0;  // while it predicts
  Bytes file = 0;    // as a weights file
};

struct StripOptions {
  std::string scratch = {};  // a folder on a disk for the stripped model; empty: one for temporary files
};

struct StrippedWeight {
  std::string name;
  int64_t elements = 0, zeros = 0;
  Bytes bytes_before = 0, bytes_after = 0;  // in memory, and on the disk alike
};

struct StripReport {
  std::vector<StrippedWeight> weights = {};
  ModelBytes before = {}, after = {};  // of the whole model
};

// A table, with sums of the stripped weights and of the model.
std::string to_string(const StripReport& report);

struct QuantiseOptions {
  // How the range of a value follows from what it was on the calibration data: "minmax" takes all of it, "percentile"
  // cuts off the outermost numbers, "entropy" takes the range whose quantised distribution is nearest.
  std::string calibration = "minmax";
  double percentile = 99.999;
  int64_t bins = 0;  // of histograms; 0: 2048 for percentile, 128 for entropy
  // Quantises every operator that has an int8 form, also where f32 is predicted to be faster.
  bool all = false;
  // Weights from -127 to 127; false: within [-64, 63], which every processor multiplies exactly. Unset: as this
  // processor can.
  std::optional<bool> full_range = {};
  std::string scratch = {};  // a folder on a disk for weights files in between; empty: one for temporary files
};

// What became of one layer.
struct QuantisedLayer {
  std::string name;
  std::string op;        // of the model before: "conv2d"
  bool is_int8 = false;  // false: f32 is predicted to be faster
};

struct QuantiseReport {
  Bytes file_bytes_before = 0, file_bytes_after = 0;      // of the weights file
  Bytes memory_bytes_before = 0, memory_bytes_after = 0;  // of the weights in memory, as inference lays them out
  int64_t samples = 0;                                    // that were seen
  std::vector<QuantisedLayer> layers = {};                // with weights
};

// Adapters (LoRA): small products beside those of a model, which are trained instead of its weights.
//
//   Model small = net.adapt({.rank = 8, .alpha = 16, .targets = {"query", "value"}});
//   small.compile({.optimiser = Optimiser::adam(1e-3), .loss = "mse", .freeze = adapter_freeze()});
//
// y = x W + bias becomes y = x W + bias + alpha / rank (dropout(x) A) B. A starts as in PEFT, uniform within
// 1 / sqrt(inputs); B starts as zeros, so that an adapted model begins as the model itself. Variables are
// "layer/lora_A" [inputs, rank] and "layer/lora_B" [rank, outputs].

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

// Freezes all weights but those of adapters.
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

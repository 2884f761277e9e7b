// Making a trained model smaller, in memory and on the disk: Model::strip, Model::quantise.
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

#include <plimsoll/bytes.h>

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

}  // namespace plimsoll

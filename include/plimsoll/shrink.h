// Making a trained model smaller, in memory and on the disk: Model::strip.
//
//   net.prune({.from = 0.5, .to = 0.8, .begin = 1000, .end = 10'000});
//   net.fit(train, line, {.epochs = 20});
//   StripReport report;
//   Model small = net.strip({}, &report);
#pragma once

#include <cstdint>
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

}  // namespace plimsoll

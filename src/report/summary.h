// What each layer of a model holds in a training step, as planned: one layer a row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::report {

struct LayerRow {
  std::string name;
  std::string output = {};  // type and shape of the last value; empty: there is none
  int64_t weights = 0;
  int64_t untrained = 0;  // statistics, which are no weights but saved with them
  Bytes weight_bytes = 0, gradient_bytes = 0, optimiser_bytes = 0;
  // Values of the forward pass: held when the backward pass begins, recomputed in it, or read from the scratch file.
  Bytes kept_bytes = 0, recomputed_bytes = 0, spilled_bytes = 0;
};

struct SummaryFacts {
  std::string model;
  int64_t batch = 1;
  int64_t micro_batch = 1;  // samples that values are held for at once
  std::vector<LayerRow> layers = {};
  std::string title = {};  // lines above the table, each with its end
  std::string notes = {};  // below it
};
std::string summary_text(const SummaryFacts& facts);

}  // namespace plimsoll::report

// int8 after training: from a model and its weights file to another model and its weights.
#pragma once

#include <memory>
#include <string>

#include <plimsoll/memory_line.h>
#include <plimsoll/shrink.h>
#include "shrink/calibrate.h"
#include "store/model_file.h"

namespace plimsoll::shrink {

class Int8Weights;
struct Int8Plan;

struct QuantisedModel {
  std::shared_ptr<const model::TracedModel> traced;  // inference alone
  QuantiseReport report;                             // without the sizes of files
  std::shared_ptr<const Int8Plan> plan;
  std::shared_ptr<const Int8Weights> numbers;
  // Writes the weights of the model; they are read from the file that it was quantised from.
  store::WeightsSource weights() const;
};

// What quantising the weights of that file takes beside running the model: a piece of a weight, and the code that
// traces, rewrites and saves a model.
Bytes bytes_to_quantise(const std::string& weights);

// `run` runs a model with the weights of that file over the calibration data. Near `line`, code that has run is
// unmapped between one kind of work and the next. Throws Error.
QuantisedModel quantise_model(const ModelSpec& spec, const std::string& weights, const QuantiseOptions& options,
                              const RunModel& run, Bytes line);

}  // namespace plimsoll::shrink

// A model of the user with the options that it was compiled with and the batches that it is fed, as a ModelSpec.
#pragma once

#include <plimsoll/train.h>
#include "train/spec.h"

namespace plimsoll::fit {

// Throws Error(Usage) for options that contradict, and for batches that do not have what the model takes.
ModelSpec make_model_spec(const Model& model, const CompileOptions& options, const ElementSpec& batches,
                          const train::SampleWeights& weights = {});

// Of a loaded model: inputs, targets and the objective that were saved with it. Throws Error(Usage) for a model that
// was saved without one.
ModelSpec make_stored_spec(const Model& model, const ElementSpec& batches);

// The inputs alone, for prediction: no target and no objective.
ModelSpec make_inference_spec(const Model& model, const ElementSpec& batches);

}  // namespace plimsoll::fit

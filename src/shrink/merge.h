// Adapters added into the weights that they stand beside.
#pragma once

#include <string>

#include <plimsoll/model.h>
#include "store/model_file.h"

namespace plimsoll::shrink {

// The weights of `base` with W + alpha / rank A B where the folder has an adapter for W. Row by row: holds one adapter
// and one row. Throws Error(BadData) for adapters that are another model's.
store::WeightsSource merged_weights(const ModelSpec& model, store::WeightsSource base, const std::string& folder);

// How many weights of the model have an adapter in the folder, and what merging the largest of them holds.
struct MergeFacts {
  int64_t weights = 0;
  Bytes bytes = 0;
};
MergeFacts merge_facts(const ModelSpec& model, const std::string& folder);

}  // namespace plimsoll::shrink

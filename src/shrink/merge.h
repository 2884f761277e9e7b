// Adapters added into the weights that they stand beside.
#pragma once

#include <string>

#include <plimsoll/model.h>

namespace plimsoll::shrink {

struct MergedWeights {
  int64_t tensors = 0, merged = 0;
};

// Writes the weights of `base`, a weights file of the model, with W + alpha / rank A B where the folder has an adapter.
// Tensor by tensor, a row at a time: holds one adapter and no weight. Throws Error(BadData).
MergedWeights merge_weights(const ModelSpec& model, const std::string& base, const std::string& folder,
                            const std::string& output);

}  // namespace plimsoll::shrink

// Weights on disk as safetensors: a small header, then each tensor row-major. Read and written one tensor at a time.
#pragma once

#include <string>

#include "memory/output_file.h"
#include "session/engine.h"
#include "session/weights_reader.h"

namespace plimsoll::session {

// What saving and loading take beside the session, whatever the model and the file: the larger of both.
constexpr Bytes kWeightsFileBytes = WeightsReader::kBytes;
static_assert(memory::OutputFile::kBufferBytes <= kWeightsFileBytes / 2);

// Throws when `path` could not be written as things are: asked before training, not after it.
void expect_room_for_weights(const Graph& graph, const std::string& path);

// Writes all variables (the optimiser's too) and the number of steps beside `path` and renames: a crash leaves the old
// file or the new one. Throws Error(BadNumbers), and keeps the old file, when a variable is not finite.
void save_weights(Engine& session, Graph& graph, const std::string& path);

// Tensors that were found in a file.
struct LoadedWeights {
  int64_t weights = 0;  // and statistics
  int64_t state = 0;    // of the optimiser, its rate among them
};

// Sets every weight and statistic of the graph; the optimiser's and the number of steps where the file has
// them, state in 16 bits or not. Nothing is changed by a file that is damaged or of another model.
LoadedWeights load_weights(Engine& session, Graph& graph, const std::string& path);

}  // namespace plimsoll::session

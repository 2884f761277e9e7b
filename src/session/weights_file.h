// Weights on disk as safetensors: a small header, then each tensor row-major. Read and written one tensor at a time.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "graph/shape.h"
#include "session/session.h"

namespace plimsoll {

struct StoredTensor {
  std::string name;
  DType dtype;
  Dims dims;
  Bytes offset;  // in the file
  Bytes bytes;
};

// What saving takes beside the session while it runs, or loading, which keeps an index of the file.
Bytes bytes_for_weights_file(const Graph& graph, bool loads);

// What a file holds, in the order of its offsets. Throws Error(BadData) that names the file and the fault.
std::vector<StoredTensor> list_weights(const std::string& path);

// Throws when `path` could not be written as things are: asked before training, not after it.
void expect_room_for_weights(const Graph& graph, const std::string& path);

// Writes all variables (the optimiser's too) and the number of steps beside `path` and renames: a crash leaves the old
// file or the new one.
void save_weights(Session& session, Graph& graph, const std::string& path);

// Sets every weight and statistic of the graph; the optimiser's and the number of steps where the file has
// them, state in 16 bits or not.
void load_weights(Session& session, Graph& graph, const std::string& path);

}  // namespace plimsoll

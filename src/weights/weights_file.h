// Weights on disk as safetensors: a small header, then each tensor row-major. Read and written one tensor at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/body.h"
#include "memory/output_file.h"
#include "weights/variable_access.h"
#include "weights/variable_slices.h"
#include "weights/weights_reader.h"
#include "weights/weights_writer.h"

namespace plimsoll::weights {

// What saving and loading take beside the session, whatever the model and the file: the larger of both.
constexpr Bytes kWeightsFileBytes = WeightsReader::kBytes;
static_assert(memory::OutputFile::kBufferBytes <= kWeightsFileBytes / 2);

// What a file holds: all variables, those of the model (weights and statistics), or those of the optimiser.
enum class WeightsPart { All, Model, Optimiser };

// Whether a part has the variable.
bool holds(WeightsPart part, const graph::Variable& variable);

// The size of such a file, at most; `slices` as in SaveOptions.
Bytes weights_file_bytes(const Graph& graph, WeightsPart part = WeightsPart::All,
                         const VariableSlices* slices = nullptr);

// Throws Error(DiskFull) when the folder has no room for so many bytes, or a limit of the process forbids such a file.
// `what` begins the sentence.
void expect_disk_room(const std::string& what, const std::string& folder, Bytes bytes);

// Throws when `path` could not be written as things are; called before training.
void expect_room_for_weights(const Graph& graph, const std::string& path, const VariableSlices* slices = nullptr);

struct SaveOptions {
  WeightsPart part = WeightsPart::All;
  std::function<void(std::span<const std::byte>)> watch = {};  // gets every byte of the file, in order
  std::string data_names = {};                                 // see WeightsReader
  // Of ranks that share variables: all of them call, the first one writes whole variables.
  const VariableSlices* slices = nullptr;
};

// The variables of a part, as a writer takes them; the graph must outlive it.
TensorList list_variables(const Graph& graph, WeightsPart part);
// Writes their numbers, from an open session. Throws Error(BadNumbers) when one is not finite; `kept` ends the
// sentence.
WriteTensor write_variables(VariableAccess& session, Graph& graph, std::string kept = {});

// Writes variables and the number of steps beside `path` and renames: a crash leaves the old file or the new one.
// Throws Error(BadNumbers), and keeps the old file, when a variable is not finite.
void save_weights(VariableAccess& session, Graph& graph, const std::string& path, const SaveOptions& options = {});

// Tensors that were found in a file.
struct LoadedWeights {
  int64_t weights = 0;  // and statistics
  int64_t state = 0;    // of the optimiser, its rate among them
  int64_t left = 0;     // that the graph has no variables for, such as the optimiser's where nothing is trained
};

struct LoadOptions {
  WeightsPart part = WeightsPart::All;
  // By name: variables that the file need not have, and that are left alone then.
  std::function<bool(std::string_view)> may_miss = {};
  const VariableSlices* slices = nullptr;  // the file has whole variables, of which this rank takes its slices
  // Gets the elements of each tensor of f32 from number `first` on, to change them on their way in.
  std::function<void(const StoredTensor&, int64_t first, std::span<float> numbers)> change = {};
};

// Sets the variables of the part, and the number of steps. The file must have each of them, but for those of the
// optimiser when all are asked for; the optimiser's state may be in 16 bits or not. Nothing is changed by a file that
// is damaged or of another model. The first of several parts (weights_parts.h) stands for all of them.
LoadedWeights load_weights(VariableAccess& session, Graph& graph, const std::string& path,
                           const LoadOptions& options = {});
inline LoadedWeights load_weights(VariableAccess& session, Graph& graph, const std::string& path, WeightsPart part) {
  return load_weights(session, graph, path, LoadOptions{.part = part});
}

}  // namespace plimsoll::weights

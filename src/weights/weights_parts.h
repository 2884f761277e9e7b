// Weights that several ranks write, each what it holds: NAME-1-of-4.safetensors and so on. A tensor is whole in one of
// these files, or its slices are in all of them, in the order of ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weights/variable_slices.h"
#include "weights/weights_file.h"

namespace plimsoll::weights {

// Bytes of a slice that are sent to the rank that writes a file, at once.
constexpr Bytes kSentAtOnce = 64 * KiB;

// "a/weights.safetensors" to "a/weights-2-of-4.safetensors"; of one part, the path itself.
std::string part_path(const std::string& path, int part, int parts);
// All parts of the file that the path names: by the name of the first one, or a file that is whole.
std::vector<std::string> list_part_paths(const std::string& path);

// The variables that this rank writes: its slices, and its share of those that all ranks hold.
TensorList list_part(const Graph& graph, WeightsPart part, const VariableSlices& slices, kernels::Network& network);
// Writes those variables to the file of this rank.
void save_part(VariableAccess& session, Graph& graph, const std::string& path, const SaveOptions& options,
               const TensorList& own);

// Elements of a stored tensor, from number `first` on, as another type of float where that is asked for.
void read_elements(const WeightsReader& file, const StoredTensor& stored, int64_t first, int64_t count, DType dtype,
                   void* into);
// load_weights for a file in parts.
LoadedWeights load_parts(VariableAccess& session, Graph& graph, const std::vector<std::string>& paths,
                         const LoadOptions& options);

// Sends what another rank writes: the slices of this one, in the order of the file.
void send_slices(VariableAccess& session, Graph& graph, const SaveOptions& options);
// Receives a variable's slices in order, this rank's own among them.
void gather_slices(VariableAccess& session, Tensor variable, const StoredTensor& whole, const VariableSlices& slices,
                   const PutBytes& put);

}  // namespace plimsoll::weights

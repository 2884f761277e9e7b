// Models as directories that need no source code:
//   model.json             names, types, preprocessing and metrics; sizes and checksums of the other files
//   graph.txt              the passes as text
//   weights.safetensors    weights and statistics
//
//   StoredModel stored = read_model("fashion.plimsoll");   // stored.spec is used like that of find_model
//   save_model("smaller.plimsoll", stored.spec, model::rewrite(stored.spec, change), weights);
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/model.h>
#include "graph/model_weights.h"
#include "model/rewrite.h"
#include "store/model_folder.h"
#include "weights/variable_access.h"
#include "weights/weights_writer.h"

namespace plimsoll::store {

// Notes of transformations in the facts of a model: names and texts.
using ModelNotes = std::vector<std::pair<std::string, std::string>>;

struct StoredModel {
  std::string path;
  std::shared_ptr<const model::TracedModel> traced;
  ModelSpec spec;  // replays the trace
  ModelNotes notes;
  int64_t steps = 0;  // of training
  // Size and checksum of the weights file: the size was compared, the checksum was not.
  Bytes weights_bytes = 0;
  uint32_t weights_checksum = 0;
  Bytes other_bytes = 0;  // of the other files

  std::string weights_path() const { return path + "/" + kModelWeights; }
};

// Reads all but the numbers of the weights, whose names and types are compared with the graph. Bounded memory. Throws
// Error(BadData) that names the file for what is missing, damaged, of another version, or no model.
StoredModel read_model(const std::string& path);
// Reads the weights file once in pieces. Throws Error(BadData) when its checksum is another.
void expect_whole_weights(const StoredModel& stored);

// The weights of a model that is saved: tensors in the order of `tensors`, written when they are asked for.
struct WeightsSource {
  weights::TensorList tensors;
  weights::WriteTensor write;
  int64_t steps = 0;
};
// The variables of an open session; it must outlive the source.
WeightsSource weights_of(weights::VariableAccess& session, Graph& graph);
// The tensors of a weights file, which must have each variable of the trace; others, such as an optimiser's, are left
// out.
// Throws Error(BadData).
WeightsSource weights_of_file(const std::string& path, const model::TracedModel& traced);
// Weights of the trace that the model does not know yet: they have names before it is called.
void add_weights(graph::ModelWeights& weights, const model::TracedModel& traced);
// The names and types that a weights file of that model has.
std::vector<weights::StoredTensor> list_weights(const model::TracedModel& traced);

// Writes the directory, in bounded memory, and puts it in its place as a whole. Batch, classes, metrics and
// preprocessing are those of `spec`; the trace may be of another model than the spec's. Metrics that are no built-in
// ones are left out. Throws Error: Usage, DiskFull, BadNumbers where the source says so.
void save_model(const std::string& path, const ModelSpec& spec, const model::TracedModel& traced,
                const WeightsSource& weights, const ModelNotes& notes = {});
void save_model(ModelFolder& folder, const ModelSpec& spec, const model::TracedModel& traced,
                const WeightsSource& weights, const ModelNotes& notes = {});

}  // namespace plimsoll::store

// What a model or a weights file holds: its tensors, one a row.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/plan_report.h"

namespace plimsoll::report {

struct TensorRow {
  std::string name, type;
  Bytes bytes = 0;
};
std::string tensor_text(const TensorRow& row);
// One tensor at a time: a weights file may list more of them than fit in memory.
std::string weights_json_begin(const std::string& file, Bytes bytes);
std::string weights_json_row(const TensorRow& row, bool is_first);
std::string weights_json_end();

struct ModelFacts {
  std::string name, input, labels;
  int64_t weights = 0;  // trained numbers
  Bytes weight_bytes = 0;
  Bytes optimiser_bytes = 0;
  int64_t nodes = 0;
  Bytes graph_bytes = 0;
  std::map<std::string, int64_t> operators = {};  // how often each occurs
  std::vector<TensorRow> variables = {};          // but those of the optimiser
};

std::string model_text(const ModelFacts& facts);  // without its variables
std::string model_json(const ModelFacts& facts, int indent = kOneLine);

// A layer of a stored model: tensors whose names begin with the same path.
struct WeightLayer {
  std::string name;
  std::vector<TensorRow> tensors = {};  // named within the layer
  int64_t elements = 0, zeros = 0;
  Bytes memory_bytes = 0, disk_bytes = 0;
};

struct StoredModelFacts {
  std::string path, name, input, labels;
  int64_t classes = 0, steps = 0, nodes = 0;
  bool can_train = true;
  std::vector<std::string> class_names = {};
  std::vector<float> mean = {}, deviation = {};
  std::vector<std::pair<std::string, std::string>> notes = {};
  std::vector<WeightLayer> layers = {};
  Bytes disk_bytes = 0;  // of all files
};

std::string stored_model_text(const StoredModelFacts& facts, size_t most_layers, const std::string& see_all);
std::string stored_model_json(const StoredModelFacts& facts, int indent = kOneLine);
std::string saved_json(const std::string& path, const std::string& model, Bytes disk_bytes);

}  // namespace plimsoll::report

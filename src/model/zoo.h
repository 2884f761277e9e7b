// The models that come with the engine, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "model/sequential.h"

namespace plimsoll {

// What a model's answer is worth: a mean over the batch, and how many predictions are right (unset where counting them
// would need what the model avoids to hold, or means nothing).
struct Verdict {
  Tensor loss;
  Tensor correct;
};

struct ModelSpec {
  Model model;
  TensorType input;   // the first dimension is the batch
  TensorType labels;  // class numbers, or what is to be predicted
  int64_t classes = 0;
  int64_t batch = 32;  // unless another is given
  // From the model's answer; called within its scope, opened for reuse.
  std::function<Verdict(Tensor answer, Tensor labels)> judge;

  const std::string& name() const { return model.name; }
};

// What differs from a model's own defaults; a model refuses those that it does not have.
struct ModelOptions {
  std::optional<int64_t> image_size = {};  // height and width
  std::optional<int64_t> channels = {};    // of the image
  std::optional<int64_t> classes = {};     // or words
  std::optional<int64_t> sequence = {};    // positions
  std::optional<int64_t> layers = {};
  std::optional<int64_t> width = {};   // units of a layer
  std::optional<double> dropout = {};  // rate
};

// Throws Error that names the nearest one and all that are known.
ModelSpec find_model(std::string_view name, const ModelOptions& options = {});
std::vector<std::string> model_names();

// Trained numbers in the graph (statistics of batch norm and the optimiser's state are not among them).
int64_t count_weights(const Graph& graph);

}  // namespace plimsoll

// Models: named functions over tensors with variables of their own, and the built-in ones by name.
//
//   Model net = sequential({layers::conv2d(32, 3, {.activation = "relu"}), layers::flatten(), layers::dense(10)});
//   Tensor logits = net(x, true);
//
//   Model pair("pair", {"left", "right"}, {"distance"}, [](const NamedTensors& in, bool) {
//     Tensor a = layers::dense(in["left"], 64), b = layers::dense(in["right"], 64);
//     return NamedTensors{{"distance", reduce_sum(abs(a - b), {1})}};
//   });
//   Tensor distance = pair({{"left", x}, {"right", y}})["distance"];
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/graph.h>
#include <plimsoll/layers.h>
#include <plimsoll/metric.h>

namespace plimsoll {

class Dataset;
class Forecast;
class MemoryLine;
class Model;
struct AdaptOptions;
struct CompileOptions;
struct Evaluation;
struct FitOptions;
struct History;
struct PredictOptions;
struct Prediction;
struct QuantiseOptions;
struct QuantiseReport;
struct Preprocessing;
struct Pruning;
struct ModelBytes;
struct StripOptions;
struct StripReport;

using layers::Layer;

// Tensors by name, in an order: what a model takes and gives.
class NamedTensors {
 public:
  using Item = std::pair<std::string, Tensor>;
  NamedTensors() = default;
  NamedTensors(std::initializer_list<Item> items);

  void add(std::string name, Tensor tensor);       // throws Error when the name is taken
  Tensor operator[](std::string_view name) const;  // throws Error that says which there are
  Tensor only() const;                             // throws Error unless there is exactly one
  bool has(std::string_view name) const;
  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<Item> items_;
};

// Its variables are named "name/..." in the scope where it is called. Called there again, in the same graph or in
// another that shares the store, it uses the same ones. Copies are handles to the same model.
class Model {
 public:
  using Function = std::function<NamedTensors(const NamedTensors& inputs, bool training)>;

  Model();  // to be assigned to
  // From a layer or a function of one tensor: the input is called "input", the output "output".
  Model(std::string name, Layer layer);
  // From a function of several: it is called with these inputs, and must give these outputs.
  Model(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs, Function function);

  const std::string& name() const;
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;

  // `training` matters to dropout and batch norm. The first is for a model of one input and one output.
  Tensor operator()(Tensor x, bool training = false,
                    std::source_location where = std::source_location::current()) const;
  NamedTensors operator()(const NamedTensors& inputs, bool training = false,
                          std::source_location where = std::source_location::current()) const;
  // In eager code: the variables that training changes. They exist once the model was called.
  std::vector<Tensor> weights() const;

  // Training, evaluation and prediction: <plimsoll/train.h> has their options. A batch's components feed the inputs and
  // the outputs' targets of their names; where no component has the name of an input, the first ones are the inputs and
  // those after them the targets. Throw DoesNotFit but plan, whose Forecast says so.
  void compile(const CompileOptions& options);
  // The next fit makes weights of small magnitude zero, by a schedule that counts its steps from then on; <plimsoll/
  // pruning.h> has the settings. Throws Error(Usage).
  void prune(const Pruning& options);
  // Plans a fit; takes no memory for tensors and reads no data.
  Forecast plan(const Dataset& dataset, const MemoryLine& line) const;
  Forecast plan(const Dataset& dataset, const MemoryLine& line, const FitOptions& options) const;
  History fit(const Dataset& dataset, const MemoryLine& line);
  History fit(const Dataset& dataset, const MemoryLine& line, const FitOptions& options);
  // Means over all samples of the dataset.
  Evaluation evaluate(const Dataset& dataset, const MemoryLine& line);
  // The outputs for each batch, in order: given to a function, or written to an npy file, in constant memory.
  void predict(const Dataset& dataset, const MemoryLine& line, const PredictOptions& options);
  // All of the only output, in memory of the caller.
  Prediction predict(const Dataset& dataset, const MemoryLine& line);
  // Each layer: its output, weights, gradients, optimiser state, and values kept for the backward pass or recomputed,
  // as planned. After a call that has shown a dataset; batch 0: that of the dataset.
  std::string summary(int64_t batch = 0) const;
  std::string summary(const Dataset& dataset, const MemoryLine& line) const;

  // The same model with adapters beside its products: <plimsoll/adapt.h>. Throws Error(Usage).
  Model adapt(const AdaptOptions& options) const;

  // Between calls the model keeps its weights in memory, in the session of the last call, which holds bytes of its line
  // until the last copy of the model is gone, or until release() puts them into a temporary file.
  void release();
  // As safetensors, with the optimiser's state. Throws Error(Usage) for a model without weights yet.
  void save_weights(const std::string& path) const;
  // Takes effect at the next call. Throws Error(BadData).
  void load_weights(const std::string& path);

  // A model as a directory that needs no source code: its graph, its weights, the types of its inputs, and what is
  // known about its data. It takes the place of a model directory that is there, as a whole: a crash leaves the old one
  // or the new one. For a model that was called with a dataset, or loaded; throws Error(Usage) for others, and for a
  // path that holds something else.
  void save(const std::string& path) const;
  void save(const std::string& path, const Preprocessing& preprocessing) const;
  // The model with its weights, in eager code too. Its inputs have the types that they had when it was saved, but for
  // the batch. A session of one's own reads the weights from the file weights.safetensors in the directory. Throws
  // Error(BadData) for what is damaged or no model.
  static Model load(const std::string& path);
  Preprocessing preprocessing() const;  // as it was saved

  // The model with its pruned weights stored as masks and values, on the disk and in memory: it predicts and is
  // evaluated with the same results, and is not trained. <plimsoll/shrink.h> has options and report. Throws
  // Error(Usage) for a model without zeros to leave out.
  Model strip() const;
  Model strip(const StripOptions& options, StripReport* report = nullptr) const;
  ModelBytes bytes() const;  // of its weights
  // Another model with weights and activations of 8 bits, for inference: <plimsoll/shrink.h> has the options. Runs this
  // one over the dataset under the line to see the ranges of its values. Throws Error for what can't be quantised.
  Model quantise(const Dataset& calibration, const MemoryLine& line) const;
  Model quantise(const Dataset& calibration, const MemoryLine& line, const QuantiseOptions& options,
                 QuantiseReport* report = nullptr) const;

  // What the handles share, for the engine.
  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// Each layer on what the one before gave.
Model sequential(std::vector<Layer> layers, std::string name = "sequential");

// What a model's answer is worth: the loss, a mean over the batch, and what the metrics sum up.
struct Objective {
  Tensor loss;
  std::vector<Tensor> sums = {};  // those of one metric after those of another
};

// A metric of a model: so many of its objective's sums, and what they mean.
struct MetricSums {
  std::string name;
  size_t tensors = 1;
  Metric::Value value = {};  // unset: the tensor is a mean over the batch
};

struct NamedType {
  std::string name;
  TensorType type;  // the first dimension is the batch
};

// What a model expects of its inputs, and what its answers mean: kept in the file of a model.
struct Preprocessing {
  std::vector<std::string> class_names = {};
  // y = (x - mean) / deviation: a number for each channel, or one; empty: none.
  std::vector<float> mean = {}, deviation = {};
  float byte_scale = 1.0F / 255;  // before that, of inputs that are stored as bytes
  bool operator==(const Preprocessing&) const = default;
};

// A model with all that is needed to train it.
struct ModelSpec {
  Model model;
  std::vector<NamedType> inputs;
  std::vector<NamedType> targets;  // class numbers, or what is to be predicted
  int64_t classes = 0;
  int64_t batch = 32;  // unless another is given
  // From the model's outputs; called within its scope, opened for reuse.
  using MakeObjective = std::function<Objective(const NamedTensors& outputs, const NamedTensors& targets)>;
  MakeObjective objective;
  std::vector<MetricSums> metrics = {};      // of the objective's sums
  MakeObjective training_objective = {};     // where that of training differs: samples are weighed
  std::vector<std::string> components = {};  // of a batch, for each input and target; none: x, y, or their names
  std::function<NamedTensors(const NamedTensors& fed)> prepare = {};  // makes the model's inputs of what is fed
  Preprocessing preprocessing = {};
  bool can_train = true;  // false: it has no training pass

  const std::string& name() const { return model.name(); }
  const TensorType& input() const { return inputs.at(0).type; }    // of the first
  const TensorType& labels() const { return targets.at(0).type; }  // of the first
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
  bool operator==(const ModelOptions&) const = default;
};

// A model that comes with the engine. Throws Error that names the nearest one and all that are known.
ModelSpec find_model(std::string_view name, const ModelOptions& options = {});
std::vector<std::string> model_names();

// Trained numbers in the graph (statistics of batch norm and the optimiser's state are not among them).
int64_t count_weights(const Graph& graph);

}  // namespace plimsoll

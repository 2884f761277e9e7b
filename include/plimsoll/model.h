// Models: named functions over tensors with variables of their own, and the built-in ones by name. Before them, what
// compile takes beside an optimiser: frozen and pruned weights, losses and metrics.
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

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/graph.h>
#include <plimsoll/layers.h>
#include <plimsoll/tensor.h>
#include <plimsoll/types.h>

namespace plimsoll {

// Which weights training leaves alone: they get no gradient and no optimiser state.
//
//   net.compile({.optimiser = Optimiser::adam(), .loss = "mse", .freeze = {.patterns = {"*/conv*"}}});
//   net.compile({..., .freeze = {.all_but = {"*/head/*"}, .type = DType::I8}});

// Patterns match whole names of variables, "resnet18/stem/kernel": * is any text, ? one character, [abc] one of these.
// A layer's statistics that match stay as they are too.
struct Freeze {
  std::vector<std::string> patterns = {};  // variables that match one are frozen
  std::vector<std::string> all_but = {};   // these are not; without `patterns`, all others are frozen
  // In what type frozen matrices and filters are kept: BF16, or I8 with a scale for each 64 weights. Lossy.
  DType type = DType::F32;

  bool is_empty() const { return patterns.empty() && all_but.empty(); }
  bool freezes(std::string_view name) const;
  bool operator==(const Freeze&) const = default;
};

// Pruning: while a model trains, its weights of small magnitude become zero by a schedule. Schedules, defaults and step
// numbers are those of tfmot (tensorflow-model-optimization).
//
//   net.prune({.from = 0.5, .to = 0.8, .begin = 1000, .end = 10'000});
//   net.fit(train, line, {.epochs = 20});
struct Pruning {
  // The share of zeros in each weight: `to` from step `begin` on; or, where `from` is set, rising from that to `to`
  // between `begin` and `end` as to + (from - to) (1 - p)^power.
  std::optional<double> from = {};
  double to = 0.5;
  int64_t begin = 0;        // steps count updates of the weights; the first is step 1
  int64_t end = -1;         // the last step that changes the masks; -1: there is none
  int64_t frequency = 100;  // the masks are made anew each so many steps
  double power = 3;
  // Weights of matrices [inputs, outputs] are pruned in whole blocks, by the mean or the largest of their magnitudes.
  int64_t block_height = 1, block_width = 1;
  enum class Pool : uint8_t { Mean, Largest };
  Pool pool = Pool::Mean;
  // Instead of a schedule: of four weights along the inputs two are zero, from the first step on.
  bool two_of_four = false;
  // Names of layers or weights, `*` and `?` stand for any text and any letter; none: the kernels of dense and
  // convolution layers (not of depthwise ones).
  std::vector<std::string> layers = {};

  // "from=0.5,to=0.8,begin=1000,end=10000,frequency=100,power=3,block=4x1,pool=largest,layers=dense*:conv1" or
  // "two-of-four". Throws Error(Usage).
  static Pruning parse(std::string_view text);
  // Throws Error(Usage) for settings that make no sense.
  void check() const;
  friend bool operator==(const Pruning&, const Pruning&) = default;
};

// What losses against class numbers or probabilities of classes may be given.
struct ClassLossOptions {
  bool from_logits = true;  // false: the output holds probabilities
  double label_smoothing = 0;
  std::optional<int64_t> ignore =
      {};  // class numbers that count for nothing, such as -100; the mean is over the others
};

// Losses: what training minimises, by name or as a function of tensors, with the formulas of Keras.
//
//   net.compile({.loss = "sparse_cross_entropy"});
//   net.compile({.loss = Loss::cross_entropy(0.1)});
//   net.compile({.loss = [](Tensor output, Tensor target) { return abs(output - target); }});
class Loss {
 public:
  // One number for each sample or element, or their mean as a scalar, of an output and its target.
  using Function = std::function<Tensor(Tensor output, Tensor target)>;
  using ClassOptions = ClassLossOptions;

  // Keras' names are known too: mean_squared_error, sparse_categorical_crossentropy and so on. Throws Error(Usage) that
  // names the nearest one and all that are known.
  Loss(const char* name) : Loss(std::string_view(name)) {}         // NOLINT(google-explicit-constructor)
  Loss(const std::string& name) : Loss(std::string_view(name)) {}  // NOLINT(google-explicit-constructor)
  explicit Loss(std::string_view name);
  template <class Own>
  requires std::invocable<Own, Tensor, Tensor> Loss(Own own)  // NOLINT(google-explicit-constructor)
      : name_("own loss"), values_(std::move(own)), is_own_(true) {}

  static Loss sparse_cross_entropy();                            // logits against class numbers
  static Loss cross_entropy(double label_smoothing = 0);         // logits against probabilities of classes
  static Loss binary_cross_entropy(double label_smoothing = 0);  // logits against probabilities
  static Loss mse();
  static Loss mae();
  static Loss huber(double delta = 1);
  static Loss log_cosh();
  static Loss hinge();          // targets -1 and 1, or 0 and 1
  static Loss squared_hinge();  // the same
  static Loss poisson();
  static Loss kl_divergence();
  static Loss cosine_similarity();  // -1: the same direction
  static Loss sparse_cross_entropy(const ClassOptions& options);
  static Loss cross_entropy(const ClassOptions& options);
  static Loss binary_cross_entropy(const ClassOptions& options);
  static Loss nll(std::optional<int64_t> ignore = {});  // logarithms of probabilities against class numbers
  // (1 - p)^gamma times the cross-entropy, which learns from what is hard; alpha: the share of the positive ones.
  static Loss binary_focal(double gamma = 2, std::optional<double> alpha = {}, const ClassOptions& options = {});
  static Loss focal(double gamma = 2, double alpha = 0.25, const ClassOptions& options = {});
  static Loss dice();  // of probabilities, over all of the batch
  // The same; alpha weighs what was missed and beta what was said in vain, as Keras computes it.
  static Loss tversky(double alpha = 0.5, double beta = 0.5);
  static Loss mape();                      // percents of the target
  static Loss msle();                      // of log(1 + x), for x of at least 0
  static Loss smooth_l1(double beta = 1);  // huber / beta
  static Loss categorical_hinge();
  static Loss soft_margin();                              // log(1 + exp(-target output)); targets as those of hinge
  static Loss poisson_nll(bool log_output = true);        // PyTorch's: of logarithms of rates, unless told otherwise
  static Loss generalized_cross_entropy(double q = 0.5);  // (1 - p^q) / q of the right class, from probabilities
  static Loss contrastive(double margin = 1);             // distances against 1 (alike) and 0
  static std::vector<std::string> names();
  static bool knows(std::string_view name);  // or that of Keras or PyTorch

  const std::string& name() const { return name_; }

  // One number for each sample or element; 0 for labels that are ignored. Dice and tversky give one for the batch.
  Tensor values(Tensor output, Tensor target) const;
  // The mean over all elements that are not ignored. With weights, one for each sample or for each of values(): the
  // mean of weight x loss, not divided by the sum of the weights. Throws Error for shapes that do not match.
  Tensor mean(Tensor output, Tensor target, Tensor weights = {}) const;
  // What metrics measure: probabilities where the loss takes logits of them.
  Tensor prediction(Tensor output) const;

 private:
  Loss(std::string name, Function values) : name_(std::move(name)), values_(std::move(values)) {}
  static Loss against_classes(std::string name, std::optional<int64_t> ignore, Function values);
  Tensor target_for(Tensor output, Tensor target) const;
  struct Scored {
    Tensor values, counts;  // counts: 1 where a label counts, else 0; unset: all do
  };
  Scored score(Tensor output, Tensor target) const;

  std::string name_;
  Function values_;
  Function mean_ = {};          // the same in one kernel, where there is one
  bool takes_classes_ = false;  // targets are class numbers
  bool is_binary_ = false;
  bool is_own_ = false;
  std::optional<int64_t> ignore_ = {};
};

// Losses of three tensors or more, one number for each sample: for an objective of one's own.
// max(|anchor - positive| - |anchor - negative| + margin, 0), of distances squared unless told otherwise.
Tensor triplet_loss(Tensor anchor, Tensor positive, Tensor negative, double margin = 1, bool squared = false);
// max(-target (a - b) + margin, 0), with targets 1 (a ranks higher) and -1.
Tensor margin_ranking_loss(Tensor a, Tensor b, Tensor target, double margin = 0);
// 1 - cos(a, b) where target is 1; max(cos(a, b) - margin, 0) where it is -1.
Tensor cosine_embedding_loss(Tensor a, Tensor b, Tensor target, double margin = 0);
// (log v + (x - target)^2 / v) / 2 of normal distributions with mean x and variance v.
Tensor gaussian_nll_loss(Tensor x, Tensor target, Tensor variance, double epsilon = 1e-6);

// Metrics: what training and evaluation report beside the loss. They are sums over samples, so that they are right over
// a whole epoch, whatever its batches, in constant memory.
//
//   net.compile({.loss = "sparse_cross_entropy", .metrics = {"accuracy", Metric::top_k(5)}});
struct Metric {
  // A name of names(), top_7 (of any number) or the name of a loss; Keras' names too. Throws Error(Usage) that names
  // all.
  Metric(const char* by_name) : Metric(std::string_view(by_name)) {}         // NOLINT(google-explicit-constructor)
  Metric(const std::string& by_name) : Metric(std::string_view(by_name)) {}  // NOLINT(google-explicit-constructor)
  explicit Metric(std::string_view by_name);

  using Sums = std::function<std::vector<Tensor>(Tensor prediction, Tensor target)>;
  using Value = std::function<double(std::span<const double> sums, double samples)>;
  Metric(std::string metric, Sums made, Value of, size_t sum_tensors = 1)
      : name(std::move(metric)), sums(std::move(made)), value(std::move(of)), tensors(sum_tensors) {}

  // Class numbers, probabilities of classes, or one probability against 0.5, as the shapes of output and target say.
  static Metric accuracy();
  static Metric top_k(int64_t k = 5);  // the right class is among the k largest outputs
  // Of the samples predicted positive, how many are; of the positive ones, how many are predicted so.
  static Metric precision(double threshold = 0.5);
  static Metric recall(double threshold = 0.5);
  static Metric auc(int64_t thresholds = 200);     // area under the ROC curve, as Keras approximates it
  static Metric pr_auc(int64_t thresholds = 200);  // the same of precision over recall
  static Metric f1(double threshold = 0.5);
  static Metric f_beta(double beta, double threshold = 0.5);
  static Metric specificity(double threshold = 0.5);
  static Metric matthews(double threshold = 0.5);  // the correlation of answers and targets
  // true_positives, false_positives, false_negatives or true_negatives.
  static Metric counts(std::string_view which, double threshold = 0.5);
  // The best precision, and so on, at a threshold where the other is at least the number.
  static Metric precision_at_recall(double recall, int64_t thresholds = 200);
  static Metric recall_at_precision(double precision, int64_t thresholds = 200);
  static Metric sensitivity_at_specificity(double specificity, int64_t thresholds = 200);
  static Metric specificity_at_sensitivity(double sensitivity, int64_t thresholds = 200);
  // Of classes: samples of one class that were taken for another; the mean of what classes and answers share; Cohen's
  // kappa.
  static Metric confusion_cell(int64_t classes, int64_t is, int64_t said);
  static Metric mean_iou(int64_t classes);
  static Metric binary_iou(double threshold = 0.5);
  static Metric kappa(int64_t classes);
  static Metric mse();
  static Metric mae();
  static Metric rmse();
  static Metric r2();                    // the share of the variance of the targets that is explained
  static Metric pearson();               // the correlation of numbers
  static Metric cosine();                // of the directions of vectors
  static Metric perplexity();            // exp(mean cross-entropy) of logits against class numbers
  static Metric loss(const Loss& loss);  // the mean of a loss
  static std::vector<std::string> names();
  static Metric mean(std::string name = "mean");  // of the output itself
  // The mean over the samples of a function of one's own, which gives one number for each sample or element.
  static Metric own(std::string name, std::function<Tensor(Tensor prediction, Tensor target)> function);

  // The same for one output of several.
  Metric of(std::string output_name) const;

  std::string name;
  std::string output = {};  // empty: of every output
  Sums sums;                // f32 tensors without the batch among their dimensions, added up over all batches
  Value value;              // from all elements of these sums
  size_t tensors = 1;       // that `sums` gives
};

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

// A model has one set of weights, whoever trains, loads, saves or calls it: fit, sessions, eager code, functions.
// Copies are handles to the same model; two models are two, also where they have one name: in a graph or an Eager the
// variables of the first one are named "name/...", those of the next one "name_1/...".
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
  // In eager code: the variables that training changes, as they are now. They exist once the model was called anywhere,
  // fitted or loaded.
  std::vector<Tensor> weights() const;
  // One of them, or of a layer's statistics, by its name: "dense_1/kernel". To be read, and set by assign.
  Tensor weight(std::string_view name) const;

  // Training, evaluation and prediction: <plimsoll/train.h> has their options. A batch's components feed the inputs and
  // the outputs' targets of their names; where no component has the name of an input, the first ones are the inputs and
  // those after them the targets. All throw DoesNotFit except plan, whose Forecast says so.
  void compile(const CompileOptions& options);
  // The next fit makes weights of small magnitude zero, by a schedule that counts steps from the start of that fit.
  // Throws Error(Usage).
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
  // as planned. The first is for a model that was called with a dataset; batch 0: that of the dataset.
  std::string summary(int64_t batch = 0) const;
  std::string summary(const Dataset& dataset, const MemoryLine& line) const;

  // The same model with adapters beside its products: <plimsoll/shrink.h>. Throws Error(Usage).
  Model adapt(const AdaptOptions& options) const;

  // Between calls the weights stay in the memory of who used them last: an Eager, or the session of the last fit,
  // evaluate or predict, which holds bytes of its line until the last copy of the model is gone. release() puts them
  // into a temporary file.
  void release();
  // Writes a safetensors file, with the optimiser's state. Throws Error(Usage) for a model without weights yet.
  void save_weights(const std::string& path) const;
  // Takes effect at the next call. Throws Error(BadData).
  void load_weights(const std::string& path);

  // A model as a directory that needs no source code: its graph, its weights, the types of its inputs, and what is
  // known about its data. It replaces a model directory of that path as a whole: a crash leaves the old one or the new
  // one. For a model that was called with a dataset, or loaded; throws Error(Usage) for others, and for a path that
  // holds something else.
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

// What the outputs of a model are scored by: the loss, a mean over the batch, and the sums of the metrics.
struct Objective {
  Tensor loss;
  std::vector<Tensor> sums = {};  // those of one metric after those of another
};

// A metric of a model: how many of its objective's sums it takes, and its value from them.
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
  // Of a table with names: the columns that are inputs, in the order of the numbers, and the one with the labels.
  std::vector<std::string> columns = {};
  std::string label = {};
  bool operator==(const Preprocessing&) const = default;
};

// A model with all that is needed to train it.
struct ModelSpec {
  Model model;
  std::vector<NamedType> inputs;
  std::vector<NamedType> targets;  // class numbers, or what is to be predicted
  int64_t classes = 0;
  int64_t batch = 32;  // unless another is given
  // Makes the objective from the model's outputs; called within the model's scope, opened for reuse.
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

// Compile, plan, fit, evaluate, predict: their options, with the names and defaults of Keras.
//
//   Model net = sequential({layers::conv2d(32, 3, {.activation = "relu"}), layers::flatten(), layers::dense(10)});
//   net.compile({.optimiser = Optimiser::adam(1e-3), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
//   Forecast forecast = net.plan(train, line);
//   History history = net.fit(train, line, {.epochs = 10, .validation = test, .callbacks = {early_stopping()}});
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/callback.h>
#include <plimsoll/dataset.h>
#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/session.h>
#include <plimsoll/types.h>

namespace plimsoll {

// How several train a model together: replicas in one process, or ranks that mpirun or srun started.
//
//   net.fit(train, line, {.epochs = 10, .strategy = Strategy::mirrored(2)});
//   net.fit(train, line, {.epochs = 10, .strategy = Strategy::ranks({.shards = 8})});
//   net.fit(train, line, {.epochs = 10, .strategy = Strategy::pipeline({"block6"}, 8)});

struct StrategyOptions {
  // Shards of a batch, whose sums are taken in a fixed tree: results then have the same bits for any number of replicas
  // or ranks that divides this one. A power of two; 0: one for each replica or rank.
  int64_t shards = 0;
  // Seconds that a replica or rank waits for a message before it throws an Error that names the one not answering.
  double timeout = 300;
};

// The batch is that of all replicas or ranks together: each takes some of its samples, and all make the same update
// from the gradients of the whole. Callbacks run on the first alone; what they do to the training counts for all.
class Strategy {
 public:
  Strategy();  // this process alone

  // This process is one of several that run the same program, each with a line of its own. Alone when nobody started
  // several. An error of one rank is thrown on all of them.
  static Strategy ranks(const StrategyOptions& options = {});
  // So many replicas as threads of this process, under one line: each has its own copy of weights, gradients and
  // optimiser state, and its share of the processor's threads. Batches are read once.
  static Strategy mirrored(int replicas, const StrategyOptions& options = {});

  // Layers on ranks: each of these layers begins the stage of the next rank, so that there is one rank more than
  // layers. Each rank holds the weights of its own stage. A batch is cut into micro-batches, which the ranks work
  // through one after another; 0: at most four for each rank, so that their number divides the batch. Equal to one
  // process but for rounding, and to the last bit to one with the same micro-batches, as with pipeline({}, 8). Layers
  // keep statistics by micro-batch. A last batch that is not full is dropped.
  static Strategy pipeline(std::vector<std::string> first_layers, int64_t micro_batches = 0);

  struct Contents;
  const Contents& contents() const { return *contents_; }  // for the library

 private:
  explicit Strategy(std::shared_ptr<const Contents> contents);

  std::shared_ptr<const Contents> contents_;
};

struct CompileOptions {
  Optimiser optimiser = Optimiser::rmsprop();
  // One loss for every output, or one for each by name; or a function of all outputs and targets that gives a scalar.
  std::optional<Loss> loss = {};
  std::vector<std::pair<std::string, Loss>> losses = {};
  std::function<Tensor(const NamedTensors& outputs, const NamedTensors& targets)> objective = {};
  std::vector<std::pair<std::string, double>> loss_weights = {};  // of outputs by name; 1 where none is given
  std::vector<Metric> metrics = {};
  std::optional<RateSchedule> schedule = {};  // instead of the optimiser's learning rate
  std::optional<Pruning> pruning = {};        // as Model::prune; unset: what that said, if anything
  uint64_t seed = 1;                          // of initial weights and dropout

  // What may be done to fit the line. Those that change results are off by default.
  Levers levers = {};
  Policy policy = {};      // in what type values are kept; mixed_float16 also scales the loss
  Freeze freeze = {};      // weights that are not trained, and in what type they are kept
  int64_t accumulate = 1;  // batches whose gradients are added up for each update: as exact as one large batch
};

struct FitOptions {
  int64_t epochs = 1;         // the number of the last one
  int64_t initial_epoch = 0;  // epochs that are done
  std::optional<Dataset> validation = {};
  int64_t validation_frequency = 1;  // each so many epochs
  int64_t validation_steps = 0;      // 0: all of its batches
  int64_t steps_per_epoch = 0;       // the dataset goes on in the next epoch where this one left; 0: all of it
  std::map<int64_t, double> class_weight = {};  // of the loss of samples of that class; 1 where none is given
  std::string sample_weight = {};               // the component of the dataset with a weight for each sample

  // Makes batches of this size from a dataset of samples; 0: elements of the dataset are batches already.
  int64_t batch = 0;
  bool shuffle = true;          // the samples, differently in each epoch
  double validation_split = 0;  // share of samples, the last before shuffling, for validation instead of training
  int workers = 1;              // batches that are read ahead, by a thread each

  Strategy strategy = {};  // who trains together: this process alone, replicas in it, or ranks
  Callbacks callbacks = {};
  std::string scratch = {};  // a folder on a disk for what the line has no room for; empty: none
  uint64_t seed = 1;         // of the order of samples, where it is shuffled here
  bool verbose = false;      // a line for each epoch on standard error
};

// What evaluate measured.
struct Evaluation {
  std::vector<LogValue> values;  // means over the samples: the loss, then the metrics
  int64_t samples = 0;
  double operator[](std::string_view name) const;  // throws Error that names what there is
};

struct PredictOptions {
  // Called for each batch; the views are in the order of Model::outputs, and valid during the call.
  std::function<void(const Results& outputs, int64_t samples)> sink = {};
  std::string npy = {};     // or written to this file
  std::string output = {};  // which output is written; empty: the only one
};

// All predictions for one output.
struct Prediction {
  Dims dims;  // the first counts samples
  std::vector<float> numbers;
};

// Callbacks with the names and defaults of Keras. To write others, see callback.h.
struct EarlyStopping {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int64_t patience = 0;       // epochs without an improvement before it stops
  std::string mode = "auto";  // min, max; auto: max for accuracy, precision, recall, auc and top_..., else min
  std::optional<double> baseline = {};
  bool restore_best_weights = false;  // kept in a file, not in memory
  int64_t start_from_epoch = 0;       // epochs that are left alone first
  std::string folder = {};            // where that file stays, best.safetensors; empty: it is a temporary one
};
std::shared_ptr<Callback> early_stopping(const EarlyStopping& options = {});

struct ReduceOnPlateau {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int64_t patience = 10;
  double min_delta = 1e-4;
  std::string mode = "auto";
  int64_t cooldown = 0;
  double min_rate = 0;
};
std::shared_ptr<Callback> reduce_on_plateau(const ReduceOnPlateau& options = {});

// The rate of each epoch, from its number (from 0) and the rate before.
std::shared_ptr<Callback> learning_rate_schedule(std::function<double(int64_t epoch, double rate)> rate);

// A callback made of functions; those that are unset do nothing.
struct CallbackFunctions {
  std::function<void(FitRun&)> before_training = {}, after_step = {}, after_epoch = {}, after_training = {};
};
std::shared_ptr<Callback> custom_callback(CallbackFunctions functions, std::string name = "custom");

}  // namespace plimsoll

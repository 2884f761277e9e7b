// Compile, plan, fit and evaluate of a model.
#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/forecast.h>
#include <plimsoll/train.h>
#include "fit/compiled.h"
#include "fit/fit_together.h"
#include "forecast/forecast.h"
#include "forecast/summary.h"
#include "input/files/class_names.h"
#include "together/strategy.h"
#include "train/evaluate.h"
#include "train/loop.h"

namespace plimsoll {
namespace fit {
namespace {

Compiled& expect_compiled(const Model& model) {
  Compiled& compiled = compiled_of(model);
  if (!compiled.is_compiled())
    throw Error(fmt::format("model '{}' is not compiled; call compile with a loss first", model.name()),
                ErrorKind::Usage);
  return compiled;
}

void expect_option(bool is_fine, const char* what) {
  if (!is_fine) throw Error(fmt::format("fit: {}", what), ErrorKind::Usage);
}

void check(const FitOptions& options) {
  expect_option(options.epochs >= 0 && options.initial_epoch >= 0, "epochs can't be negative");
  expect_option(options.steps_per_epoch >= 0 && options.validation_steps >= 0, "steps can't be negative");
  expect_option(options.validation_frequency > 0, "validation_frequency counts epochs and must be positive");
  expect_option(options.batch >= 0 && options.workers >= 0, "batch and workers can't be negative");
  expect_option(options.validation_split >= 0 && options.validation_split < 1,
                "validation_split is a part of the samples: at least 0 and below 1");
  for (const auto& callback : options.callbacks) expect_option(callback != nullptr, "a callback is null");
  const bool validates = options.validation || options.validation_split > 0;
  expect_option(validates || (options.validation_steps == 0 && options.validation_frequency == 1),
                "validation_steps and validation_frequency need validation data, or a split");
  expect_option(options.validation_split == 0 || !options.validation, "give validation data or a split, not both");
  expect_option(options.validation_split == 0 || options.batch > 0,
                "validation_split needs a dataset of samples and the size of a batch: give batch, and leave out "
                "Dataset::batch and shuffle");
}

Dataset batched(const Dataset& samples, const FitOptions& options) {
  return samples.batch(options.batch).prefetch(std::max(1, options.workers));
}

// The last samples become the validation data, before any shuffling.
input::BatchedData split_and_batch(const Dataset& samples, const FitOptions& options) {
  const bool are_batches =
      input::holds_batches(samples) || (options.validation && input::holds_batches(*options.validation));
  expect_option(!are_batches,
                "batch is given for a dataset whose elements are batches already: leave out one of "
                "Dataset::batch and this option");
  Dataset train = samples;
  input::BatchedData data;
  if (options.validation) data.test = batched(*options.validation, options);
  if (options.validation_split > 0) {
    const int64_t count = samples.size();
    expect_option(count > 0 && samples.is_random_access(),
                  "validation_split needs a dataset with random access, such as files or arrays, before other stages");
    const auto first = static_cast<int64_t>(std::floor(static_cast<double>(count) * (1 - options.validation_split)));
    expect_option(first > 0 && first < count, "validation_split leaves no samples to train or to validate with");
    train = samples.take(first);
    data.test = batched(samples.skip(first), options);
  }
  if (options.shuffle) train = train.shuffle({.seed = options.seed});
  data.train = batched(train, options);
  return data;
}

input::BatchedData data_of(const Dataset& dataset, const FitOptions& options) {
  if (options.batch > 0) return split_and_batch(dataset, options);
  return {options.workers > 1 ? dataset.prefetch(options.workers) : dataset, options.validation};
}

bool has_component(const std::optional<Dataset>& dataset, const std::string& name) {
  if (!dataset || name.empty()) return false;
  for (const Component& component : dataset->element())
    if (component.name == name) return true;
  return false;
}

// The history grows with the epochs: the plan has room for that of so many, with about eight numbers each.
constexpr int64_t kMostEpochsPlanned = 10'000;
constexpr Bytes kBytesOfEpoch = 400;

// Sources number the names of their own classes.
void expect_same_classes(const std::vector<std::string>& known, const Dataset& dataset, const std::string& who) {
  const std::vector<std::string>& here = dataset.class_names();
  if (known.empty() || here.empty() || known == here) return;
  throw Error(fmt::format("the dataset has the classes {} but {} has {}; give its source these names, in "
                          "CsvOptions::classes or ImageOptions::classes",
                          input::shown_names(here), who, input::shown_names(known)),
              ErrorKind::BadData);
}

train::Spec call_of(const Dataset& dataset, const MemoryLine& line, const FitOptions& options) {
  check(options);
  train::Spec call;
  call.own_line = line;
  call.batches = data_of(dataset, options);
  call.scratch_folder = options.scratch;
  for (const auto& callback : options.callbacks) call.log_bytes += callback->bytes();
  call.log_bytes += std::min(options.epochs, kMostEpochsPlanned) * kBytesOfEpoch;
  call.sample_weights = {options.class_weight, options.sample_weight,
                         has_component(call.batches.test, options.sample_weight)};
  const input::BatchCount train = input::count_batches(*call.batches.train);
  if (call.batches.test) {
    expect_same_classes(call.batches.train->class_names(), *call.batches.test, "the training data");
    const input::BatchCount test = input::count_batches(*call.batches.test);
    expect_option(test.batch == train.batch || (test.batches == 1 && test.batch < train.batch),
                  "the validation data must have batches of the same size as the training data");
    expect_option(test.batches != Dataset::kInfinite || options.validation_steps > 0,
                  "the validation data has no end; give validation_steps, or leave out repeat()");
  }
  return call;
}

// A line for each epoch.
class EpochLines final : public Callback {
 public:
  std::string name() const override { return "epoch_lines"; }
  void after_epoch(FitRun& run) override {
    std::string text = fmt::format("epoch {}/{}", run.epoch(), run.epochs());
    for (const LogValue& log : run.logs()) text += fmt::format("  {} {:.4g}", log.name, log.value);
    std::fprintf(stderr, "%s\n", text.c_str());
  }
};

}  // namespace
}  // namespace fit

// These change the state that copies of a Model share, so they are not const though the compiler would allow it.
// NOLINTBEGIN(readability-make-member-function-const)
void Model::compile(const CompileOptions& options) {
  fit::Compiled& compiled = fit::compiled_of(*this);
  const fit::Compiled::Turn turn(compiled);
  compiled.compile(options);
}

void Model::prune(const Pruning& options) {
  fit::Compiled& compiled = fit::compiled_of(*this);
  const fit::Compiled::Turn turn(compiled);
  compiled.prune(options);
}

Forecast Model::plan(const Dataset& dataset, const MemoryLine& line) const { return plan(dataset, line, {}); }

Forecast Model::plan(const Dataset& dataset, const MemoryLine& line, const FitOptions& options) const {
  fit::Compiled& compiled = fit::expect_compiled(*this);
  const fit::Compiled::Turn turn(compiled);
  const train::Spec call = fit::call_of(dataset, line, options);
  compiled.remember(call);
  if (options.strategy.contents().kind != together::StrategyKind::Alone)
    return fit::plan_together(compiled, call, options.strategy.contents());
  compiled.release_all();  // frees what its session holds: the planned one replaces it
  return forecast::forecast(compiled.complete(call));
}

History Model::fit(const Dataset& dataset, const MemoryLine& line) { return fit(dataset, line, {}); }

History Model::fit(const Dataset& dataset, const MemoryLine& line, const FitOptions& options) {
  const Model alive = *this;  // a callback may let go of the last handle
  fit::Compiled& compiled = fit::expect_compiled(*this);
  const fit::Compiled::Turn turn(compiled);
  const train::Spec call = fit::call_of(dataset, line, options);
  Callbacks callbacks = options.callbacks;
  if (options.verbose) callbacks.insert(callbacks.begin(), std::make_shared<fit::EpochLines>());
  train::LoopOptions loop_options{.epochs = options.epochs,
                                  .initial_epoch = options.initial_epoch,
                                  .steps_per_epoch = options.steps_per_epoch,
                                  .validation_steps = options.validation_steps,
                                  .validation_frequency = options.validation_frequency,
                                  .seed = options.seed,
                                  .schedule = compiled.options().schedule};
  const together::StrategyContents& strategy = options.strategy.contents();
  if (strategy.kind != together::StrategyKind::Alone)
    return fit::fit_together(compiled, call, strategy, loop_options, std::move(callbacks));
  train::Training& training = compiled.ready(call);
  compiled.set_trained();
  return train::TrainingLoop(training, loop_options, std::move(callbacks)).run();
}

Evaluation Model::evaluate(const Dataset& dataset, const MemoryLine& line) {
  fit::Compiled& compiled = fit::compiled_of(*this);  // where it is not compiled: by the objective it was saved with
  const fit::Compiled::Turn turn(compiled);
  fit::expect_same_classes(preprocessing().class_names, dataset, "the model");
  train::Training& training = compiled.ready(fit::call_on(dataset, line, train::Purpose::Evaluate));
  train::Inputs inputs(training, dataset);
  const train::Score score = train::evaluate(training, inputs);
  return {score.values, score.samples};
}

double Evaluation::operator[](std::string_view name) const {
  if (const auto value = find_log(values, name)) return *value;
  std::vector<std::string> known;
  for (const LogValue& log : values) known.push_back(log.name);
  throw Error(fmt::format("the evaluation has no '{}'; it has {}", name, fmt::join(known, ", ")), ErrorKind::Usage);
}

std::string Model::summary(int64_t batch) const {
  fit::Compiled& compiled = fit::expect_compiled(*this);
  if (batch < 0) throw Error("summary: a batch can't be negative", ErrorKind::Usage);
  if (!compiled.last_call())
    throw Error(fmt::format("model '{}' was shown no training data yet; call plan or fit first, or "
                            "summary(dataset, line)",
                            name()),
                ErrorKind::Usage);
  train::Spec spec = compiled.complete(*compiled.last_call());
  if (batch > 0 && batch != spec.batch) {
    spec.batch = batch;
    spec.last_batches = {};
  }
  const fit::Compiled::Turn turn(compiled);
  compiled.release_all();  // as for plan
  return forecast::summarise(spec);
}

std::string Model::summary(const Dataset& dataset, const MemoryLine& line) const {
  fit::expect_compiled(*this).remember(fit::call_of(dataset, line, {}));
  return summary();
}

void Model::release() {
  fit::Compiled& compiled = fit::compiled_of(*this);
  const fit::Compiled::Turn turn(compiled);
  compiled.release_all();
}

void Model::save_weights(const std::string& path) const { fit::compiled_of(*this).save_weights(path); }

void Model::load_weights(const std::string& path) {
  fit::Compiled& compiled = fit::compiled_of(*this);
  const fit::Compiled::Turn turn(compiled);
  compiled.load_weights(path);
}

// NOLINTEND(readability-make-member-function-const)

}  // namespace plimsoll

// Callbacks: how a program sees and steers a training under way, and the history that it leaves. Also learning-rate
// schedules, and the callbacks that write checkpoints and log files.
//
//   struct StopAtTarget : Callback {
//     std::string name() const override { return "stop_at_target"; }
//     void after_epoch(FitRun& run) override {
//       if (run.log("val_accuracy").value_or(0) > 0.9) run.stop("90 % are right");
//     }
//   };
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll {

// "loss", "accuracy", "learning_rate"; "val_loss" and so on for the validation data.
struct LogValue {
  std::string name;
  double value = std::numeric_limits<double>::quiet_NaN();
  bool operator==(const LogValue&) const = default;
};
std::optional<double> find_log(std::span<const LogValue> logs, std::string_view name);

// The numbers of one epoch.
struct EpochLog {
  int64_t epoch = 0;  // from 1
  int64_t steps = 0;  // of this epoch
  std::vector<LogValue> logs = {};
  std::optional<double> log(std::string_view name) const { return find_log(logs, name); }
  bool operator==(const EpochLog&) const = default;
};

// What a training leaves.
struct History {
  std::vector<EpochLog> epochs = {};                            // also one that was cut short, which has no validation
  std::string stop_reason = {};                                 // why it was stopped; empty: it went to its end
  double last_loss = std::numeric_limits<double>::quiet_NaN();  // of the last step; NaN: there was none
  int64_t skipped = 0;                                          // bad samples that were passed over, in all epochs
  std::string last_skipped = {};                                // what was wrong with the last of them
  int64_t validation_samples = 0;                               // of the last validation

  bool has_trained() const { return last_loss == last_loss; }
  bool was_stopped() const { return !stop_reason.empty(); }
  // One number for each epoch that has it: history["val_loss"]. Throws Error that names what there is.
  std::vector<double> operator[](std::string_view name) const;
};

// A training under way.
class FitRun {
 public:
  virtual ~FitRun() = default;

  virtual int64_t epoch() const = 0;            // from 1
  virtual int64_t epochs() const = 0;           // the number of the last one
  virtual int64_t steps() const = 0;            // training steps done in all, those before a restart included
  virtual int64_t epoch_steps() const = 0;      // of this epoch
  virtual int64_t steps_per_epoch() const = 0;  // at most; 0: not known
  virtual int64_t step_samples() const = 0;     // of the last step
  virtual bool is_epoch_over() const = 0;       // false while its steps are taken, and when it was cut short
  virtual bool is_resumed() const = 0;          // it goes on where an earlier run ended

  // Means over the epoch so far; those of the validation data once the epoch is over.
  virtual std::span<const LogValue> logs() const = 0;
  std::optional<double> log(std::string_view name) const { return find_log(logs(), name); }

  virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double rate) = 0;  // throws Error(Usage) where the rate follows a schedule
  // Takes no further step. The first reason stays.
  virtual void stop(std::string reason) = 0;
  virtual bool is_stopping() const = 0;

  // All variables, the optimiser's too, as a safetensors file; streamed, without a second copy in memory.
  virtual void save_weights(const std::string& path) = 0;
  virtual void load_weights(const std::string& path) = 0;

  virtual Bytes line() const = 0;
  virtual Bytes planned_peak() const = 0;
  virtual Bytes measured_peak() const = 0;  // of the process
};

// Called at the events of a training, which it may steer. All functions do nothing unless overridden. An exception that
// one throws ends the training.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual std::string name() const = 0;  // of its state in a checkpoint

  virtual void prepare(FitRun& /*run*/) {}          // before all else: an earlier training may be loaded here
  virtual void before_training(FitRun& /*run*/) {}  // resets what an earlier training left
  virtual void after_step(FitRun& /*run*/) {}
  virtual void after_validation_step(FitRun& /*run*/) {}
  virtual void after_epoch(FitRun& /*run*/) {}  // with its validation; not for an epoch that was cut short
  virtual void after_training(FitRun& /*run*/) {}
  virtual void finish(FitRun& /*run*/) {}  // after after_training of all callbacks: weights may be changed

  // Names of numbers that it reads, "val_loss" for one: a training that never has one of them is refused before it
  // starts.
  virtual std::vector<std::string> watches() const { return {}; }
  // What it holds while a training goes on: the plan leaves room for it under a line that covers the process.
  virtual Bytes bytes() const { return 0; }
  // True: called after all other callbacks, wherever it is in their list, and so sees their state after the same event.
  virtual bool runs_last() const { return false; }

  // What it must know to go on after a restart; `restore` comes after before_training.
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}
};
using Callbacks = std::vector<std::shared_ptr<Callback>>;

// Learning-rate schedules with the formulas of Keras. A schedule is a pure function of the number of updates done, so a
// training that is resumed needs no state of it.
//
//   net.compile({.schedule = RateSchedule::cosine(0.1, 10'000, {.warmup_steps = 500})});
class RateSchedule {
 public:
  struct Cosine {
    double alpha = 0;          // the least rate, as a part of the highest
    int64_t warmup_steps = 0;  // before the decay: evenly from `warmup_from` to the rate
    double warmup_from = 0;
  };
  struct Restarts {
    double longer = 2;  // the length of each period over that of the one before
    double lower = 1;   // the highest rate of each period over that of the one before
    double alpha = 0;
  };

  struct OneCycle {
    double rise = 0.3;            // the share of the steps in which the rate goes up
    double start_divisor = 25;    // of the highest rate, at the first step
    double end_divisor = 10'000;  // of the first rate, at the last step
  };

  static RateSchedule constant(double rate);
  // rate x factor^(update / steps); staircase: update / steps is rounded down.
  static RateSchedule exponential(double rate, int64_t steps, double factor, bool staircase = false);
  static RateSchedule cosine(double rate, int64_t steps) { return cosine(rate, steps, Cosine()); }
  static RateSchedule cosine(double rate, int64_t steps, const Cosine& options);
  static RateSchedule cosine_restarts(double rate, int64_t first_steps) {
    return cosine_restarts(rate, first_steps, Restarts());
  }
  static RateSchedule cosine_restarts(double rate, int64_t first_steps, const Restarts& options);
  // values[i] up to and including update boundaries[i], then the last one.
  static RateSchedule piecewise(std::vector<int64_t> boundaries, std::vector<double> values);
  // From `rate` to `end` in `steps`; cycle: the decay is stretched to the next multiple of `steps` each time it ends.
  static RateSchedule polynomial(double rate, int64_t steps, double end = 1e-4, double power = 1, bool cycle = false);
  // rate / (1 + factor x update / steps); staircase: update / steps is rounded down.
  static RateSchedule inverse_time(double rate, int64_t steps, double factor, bool staircase = false);
  // Up to the highest rate and down again, along cosines, as OneCycleLR of PyTorch.
  static RateSchedule one_cycle(double highest, int64_t steps) { return one_cycle(highest, steps, OneCycle()); }
  static RateSchedule one_cycle(double highest, int64_t steps, const OneCycle& options);
  // "cosine:steps=1000,warmup=100,alpha=0.01" as on the command line, from `rate`. Throws Error(Usage).
  static RateSchedule parse(std::string_view text, double rate);

  // Any function of the number of updates done.
  template <class Own>
  requires std::invocable<Own, int64_t> RateSchedule(Own own)
      : rate_(std::move(own)) {}  // NOLINT(google-explicit-constructor)

  // The rate of the next update.
  double operator()(int64_t updates_done) const { return rate_(updates_done); }

 private:
  std::function<double(int64_t updates_done)> rate_;
};

// Checkpoints of a training: what a crash, a signal or a full disk leaves to go on from.
//
//   callbacks = {checkpoint("runs/1", {.every_steps = 500, .keep = 5})}
//
// Each is a directory, runs/1/000007-step-350, that appears under its name as a whole: manifest.json with sizes and
// checksums, weights.safetensors, optimiser.safetensors and history.jsonl. Training that goes on from one ends with the
// same bits as training that was never stopped, also under another line or with other numbers of threads.

struct CheckpointOptions {
  // When one is written; several may be given. None: after each epoch.
  int64_t every_steps = 0;
  int64_t every_epochs = 0;
  double every_seconds = 0;  // after the step that is under way then
  // Training goes on from the newest checkpoint of the folder whose files are undamaged; without any, it starts from
  // the beginning. A checkpoint of another model or dataset is refused with what differs.
  bool resume = false;
  std::function<void(const std::string& why)> warn = {};  // hears of damaged checkpoints that are passed over

  int64_t keep = 3;  // the newest so many; older ones are removed after the next is in place
  // Writes only when this number is better than at all earlier checkpoints: higher for accuracy, precision, recall,
  // auc and top_..., else lower. Without this option, one more is written at the end of training.
  bool save_best_only = false;
  std::string monitor = "val_loss";
};

// Throws Error(Usage) for numbers that make no sense. Whether the folder can be written is known before the first step.
std::shared_ptr<Callback> checkpoint(const std::string& folder, const CheckpointOptions& options = {});

// Callbacks that write the numbers of a training to files while it goes on.
//
//   callbacks = {csv_log("metrics.csv"), event_files("logs")}
//
// A training that is resumed removes the rows of steps after its checkpoint. A file that can't be written any more, as
// on a full disk, stops the training after the step or epoch that is under way: History::stop_reason says why.

struct CsvLogOptions {
  bool append = false;  // to the rows of an earlier training
  char separator = ',';
};
// As Keras' CSVLogger: one header, a row for each epoch, the epoch first; "NA" for what was not measured. After a crash
// each row is there as a whole or absent.
std::shared_ptr<Callback> csv_log(const std::string& path, const CsvLogOptions& options = {});

// One JSON object for each epoch, on a line of its own.
std::shared_ptr<Callback> json_log(const std::string& path, bool append = false);

struct EventFilesOptions {
  double seconds_between = 1;    // means of the epoch so far are written this often; 0: after epochs only
  int64_t histogram_epochs = 0;  // distributions of the weights after every so many epochs; 0: none
  std::vector<std::pair<std::string, std::string>> texts = {};  // titles and texts, shown once
};
// For TensorBoard: every number of an epoch, planned and measured memory, distributions of weights, and texts.
std::shared_ptr<Callback> event_files(const std::string& folder, const EventFilesOptions& options = {});

}  // namespace plimsoll

// A training under way as callbacks see and steer it, and the history that it leaves.
//
//   struct StopAtTarget : Callback {
//     std::string name() const override { return "stop_at_target"; }
//     void after_epoch(FitRun& run) override {
//       if (run.log("val_accuracy").value_or(0) > 0.9) run.stop("90 % are right");
//     }
//   };
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/bytes.h>

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
  std::string stop_reason = {};                                 // of who stopped it; empty: it went to its end
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
  virtual int64_t epochs() const = 0;           // the last one
  virtual int64_t steps() const = 0;            // training steps done in all, those before a restart included
  virtual int64_t epoch_steps() const = 0;      // of this epoch
  virtual int64_t steps_per_epoch() const = 0;  // at most; 0: not known
  virtual int64_t step_samples() const = 0;     // of the last step
  virtual bool is_epoch_over() const = 0;       // false while its steps are taken, and when it was cut short
  virtual bool is_resumed() const = 0;          // it goes on where an earlier run was

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

// Hears how a training goes and may steer it. All functions do nothing unless overridden. What one throws ends the
// training.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual std::string name() const = 0;  // of its state in a checkpoint

  virtual void prepare(FitRun& /*run*/) {}          // before all else: an earlier training may be loaded here
  virtual void before_training(FitRun& /*run*/) {}  // forgets an earlier training
  virtual void after_step(FitRun& /*run*/) {}
  virtual void after_validation_step(FitRun& /*run*/) {}
  virtual void after_epoch(FitRun& /*run*/) {}  // with its validation; not for an epoch that was cut short
  virtual void after_training(FitRun& /*run*/) {}
  virtual void finish(FitRun& /*run*/) {}  // after all have heard that, and the last checkpoint: weights may be changed

  // What it holds while a training goes on: the plan leaves room for it under a line that covers the process.
  virtual Bytes bytes() const { return 0; }
  // True: it comes after all others, whatever its place among them, and sees what they made of the same event.
  virtual bool runs_last() const { return false; }

  // What it must know to go on after a restart; `restore` comes after before_training.
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}
};
using Callbacks = std::vector<std::shared_ptr<Callback>>;

}  // namespace plimsoll

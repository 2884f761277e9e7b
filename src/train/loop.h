// The training loop: epochs of steps over the training data, each followed by a score on the test data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/callback.h>
#include "train/batch_runner.h"
#include "train/epoch_sums.h"
#include "train/run_state.h"
#include "weights/weights_file.h"

namespace plimsoll::train {

// Steps in a row with a loss that is not finite, after which loss scaling has not helped: the scale is then 2^-32 of
// what it was.
constexpr int64_t kMostSkippedSteps = 32;

struct LoopOptions {
  int64_t epochs = 1;                         // the number of the last one
  int64_t initial_epoch = 0;                  // epochs that are done
  int64_t steps = 0;                          // stop after so many, those before a restart included; 0: whole epochs
  int64_t steps_per_epoch = 0;                // the data goes on in the next epoch where this one left; 0: all of it
  int64_t validation_steps = 0;               // 0: all of its batches
  int64_t validation_frequency = 1;           // each so many epochs
  int64_t most_history = 0;                   // the newest so many epochs are remembered; 0: all
  uint64_t seed = 1;                          // of the order of samples
  bool follows_first_rank = false;            // what callbacks of the first rank do counts for all: others have none
  std::optional<RateSchedule> schedule = {};  // of the learning rate
  // The end of the error message for a loss that is not finite though the data is.
  std::string advice = "try a smaller learning rate, or clip gradients by their global norm";
};

// One run over the data: made, then opened, then run once. Steps allocate nothing.
class TrainingLoop final : public FitRun {
 public:
  // Over the data of the training. Throws Error(Usage) when that has no half to train on, or no end.
  TrainingLoop(Training& training, const LoopOptions& options, Callbacks callbacks = {});

  // Plans what the data needs beyond the training's own steps, and takes the memory.
  void open();
  // Throws Error(BadData or BadNumbers) when a loss is not finite.
  History run();

  // Where the run is, between two steps; restore() before run() goes on from there. Variables are not part of it.
  RunState state() const;
  RunState state_without_history() const;
  std::span<const EpochLog> past_epochs() const;  // the history of that state
  // Throws Error(Usage) for a state of another seed or dataset. `checkpoint`: where the variables were loaded from.
  void restore(const RunState& state, std::string checkpoint = {});
  // Called before the callback of the first rank saves a checkpoint: makes the others write the parts that they hold.
  void call_for_parts();
  Training& training() const { return training_; }

  int64_t epoch() const override { return epoch_; }
  int64_t epochs() const override { return options_.epochs; }
  int64_t steps() const override { return training_.session->step_count(); }
  int64_t epoch_steps() const override { return epoch_steps_; }
  int64_t steps_per_epoch() const override;
  int64_t step_samples() const override { return step_samples_; }
  bool is_epoch_over() const override { return is_epoch_over_; }
  bool is_resumed() const override { return resumed_.has_value(); }
  std::span<const LogValue> logs() const override;
  double learning_rate() const override { return static_cast<double>(learning_rate_); }
  void set_learning_rate(double rate) override;
  void stop(std::string reason) override;
  bool is_stopping() const override { return history_.was_stopped(); }
  // Another rank asked to stop, and this one did not.
  bool was_stopped_elsewhere() const { return was_stopped_elsewhere_; }
  void save_weights(const std::string& path) override;
  void load_weights(const std::string& path) override;
  Bytes line() const override { return training_.line->limit(); }
  Bytes planned_peak() const override { return training_.session->peak_bytes(); }
  Bytes measured_peak() const override;

 private:
  using Event = void (Callback::*)(FitRun&);
  void expect_watched() const;  // a number that no epoch has would be missed after the work is done
  void tell(Event event);
  void begin();
  void run_epoch();
  void start_data();
  bool next_batch();
  bool take_step();  // false at the end of the data
  void prune_at_start() const;
  void apply_group();  // updates the weights from the gradients that were added up
  const weights::VariableSlices* slices_for(const std::string& path);
  void take_start();  // from the first rank: where the run is, and all variables
  bool take_order();  // from the first rank: what its callbacks did since the last step; false: stop
  void take_variables();
  bool has_other_ranks() const { return training_.spec.communicator && training_.spec.communicator->size() > 1; }
  void agree_to_stop();  // between two epochs: all ranks stop where one does
  void settle_stop();    // sets the reason once all ranks know that one asked to stop
  size_t training_logs() const { return sums_.names().size() + 1; }
  void update_means();
  void read_learning_rate();
  void write_learning_rate(double rate);
  void follow_schedule();
  bool validate();
  bool has_epoch_steps() const { return options_.steps_per_epoch > 0 && epoch_steps_ >= options_.steps_per_epoch; }
  bool is_cut() const { return options_.steps > 0 && run_steps_ >= options_.steps; }

  Training& training_;
  const LoopOptions options_;
  const Callbacks callbacks_;
  Inputs train_;
  std::unique_ptr<Inputs> test_;
  EpochSums sums_;
  const std::unique_ptr<BatchRunner> runner_;
  std::vector<LogValue> logs_;  // the means of sums_, the rate, then those of validation
  std::optional<RunState> resumed_;
  std::string resumed_from_;

  int64_t epoch_ = 0;
  int64_t epoch_steps_ = 0;
  int64_t run_steps_ = 0;  // of all epochs
  int64_t step_samples_ = 0;
  bool is_epoch_over_ = false;
  bool is_validated_ = false;
  float learning_rate_ = 0;
  History history_;
  int64_t group_ = 0;  // batches whose gradients were added up since the last update
  int64_t skipped_in_a_row_ = 0;
  std::string asked_to_stop_;  // the reason, until all ranks know
  bool was_stopped_elsewhere_ = false;
  bool has_changed_variables_ = false;  // a callback has, since the other ranks took them
};

// The loop behind a run, for what must know more than FitRun shows. Throws Error for a run of another kind.
TrainingLoop& loop_of(FitRun& run);

// What a training goes on from.
struct StartingPoint {
  enum class RateOrigin { Given, File, Optimiser };
  weights::LoadedWeights loaded;
  int64_t steps = 0;  // of training so far
  float learning_rate = 0;
  RateOrigin rate_origin = RateOrigin::Optimiser;
};
// Reads weights into an open session. A rate that was given counts more than the one in the file.
StartingPoint load_start(Training& training, const std::string& path, const std::optional<double>& learning_rate);

}  // namespace plimsoll::train

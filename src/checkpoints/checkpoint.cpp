// The callback that writes checkpoints.
#include <plimsoll/callback.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "train/checkpoint_store.h"
#include "train/improvement.h"
#include "train/loop.h"

namespace plimsoll {
namespace {

class CheckpointWriter final : public Callback {
 public:
  CheckpointWriter(const std::string& folder, const CheckpointOptions& options)
      : options_(options), store_(folder, options.keep), monitored_(options.monitor, 0, "auto") {
    if (options.every_steps < 0 || options.every_epochs < 0 || !(options.every_seconds >= 0) || options.keep < 1)
      throw Error(fmt::format("checkpoints every {} steps, {} epochs or {} seconds of which {} are kept make no sense; "
                              "give numbers that are not negative, and keep 1 or more",
                              options.every_steps, options.every_epochs, options.every_seconds, options.keep),
                  ErrorKind::Usage);
    if (!options.save_best_only && options.monitor != CheckpointOptions().monitor)
      throw Error(fmt::format("checkpoint: '{}' is watched with save_best_only alone; set that too", options.monitor),
                  ErrorKind::Usage);
    if (options.every_steps == 0 && options.every_epochs == 0 && options.every_seconds == 0) options_.every_epochs = 1;
  }

  std::string name() const override { return "checkpoint"; }
  std::vector<std::string> watches() const override {
    return options_.save_best_only ? std::vector{options_.monitor} : std::vector<std::string>();
  }
  bool runs_last() const override { return true; }  // the state of the others is part of what is saved
  // The best number, exactly.
  std::string state() const override { return fmt::format("{:a}", monitored_.best()); }
  void restore(const std::string& state) override { monitored_.set_best(std::strtod(state.c_str(), nullptr)); }

  void prepare(FitRun& run) override {
    if (!options_.resume) return;
    train::TrainingLoop& loop = train::loop_of(run);
    const auto loaded = store_.load_newest(loop.training());
    if (!loaded) return;
    if (options_.warn)
      for (const std::string& why : loaded->damaged) options_.warn(why);
    loop.restore(loaded->run, loaded->place.path);
  }

  void before_training(FitRun& run) override {
    store_.open(train::loop_of(run).training());
    monitored_.reset();
    note_saved(run);  // a checkpoint that was just loaded need not be saved again
  }

  void after_step(FitRun& run) override {
    const bool is_due = options_.every_steps > 0 && run.steps() % options_.every_steps == 0;
    if (is_due || is_late(run)) save(run);
  }

  void after_epoch(FitRun& run) override {
    if (options_.every_epochs > 0 && run.epoch() % options_.every_epochs == 0) save(run);
  }

  void after_training(FitRun& run) override {
    if (!options_.save_best_only && place_of(run) != saved_) save(run);
    store_.close();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  using Place = std::tuple<int64_t, int64_t, bool>;

  static Place place_of(const FitRun& run) { return {run.steps(), run.epoch(), run.is_epoch_over()}; }

  // By the clock of the first rank, so that all ranks save after the same step.
  bool is_late(FitRun& run) const {
    if (options_.every_seconds == 0) return false;
    const bool is_here = Clock::now() - saved_at_ >= Seconds(options_.every_seconds);
    const train::Training& training = train::loop_of(run).training();
    const auto& communicator = training.spec.communicator;
    return communicator && !training.first_rank_saves ? communicator->gather_texts(is_here ? "1" : "0").front() == "1"
                                                      : is_here;
  }

  void note_saved(const FitRun& run) {
    saved_ = place_of(run);
    saved_at_ = Clock::now();
  }

  void save(FitRun& run) {
    if (options_.save_best_only) {
      const std::optional<double> now = run.log(options_.monitor);
      if (!now || !monitored_.is_better(*now)) return;
      monitored_.set_best(*now);
    }
    train::TrainingLoop& loop = train::loop_of(run);
    loop.call_for_parts();
    store_.save(loop.training(), loop.state_without_history(), loop.past_epochs());
    note_saved(run);
  }

  CheckpointOptions options_;
  train::CheckpointStore store_;
  train::Improvement monitored_;
  Place saved_;
  Clock::time_point saved_at_;
};

}  // namespace

std::shared_ptr<Callback> checkpoint(const std::string& folder, const CheckpointOptions& options) {
  return std::make_shared<CheckpointWriter>(folder, options);
}

}  // namespace plimsoll

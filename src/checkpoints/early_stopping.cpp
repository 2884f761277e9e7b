#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "checkpoints/run_directory.h"
#include "memory/temporary_file.h"
#include "report/run_report.h"
#include "train/improvement.h"
#include "train/loop.h"

namespace plimsoll::checkpoints {
namespace {

// Also what keeps the best weights of a training and never stops it.
class EarlyStop final : public FailingCallback {
 public:
  enum class Effect { Stops, Keeps };
  explicit EarlyStop(const EarlyStopping& options, Effect effect = Effect::Stops)
      : options_(options), effect_(effect), improvement_(options.monitor, options.min_delta, options.mode) {
    if (options.patience < 0 || options.start_from_epoch < 0)
      throw Error("early stopping: patience and start_from_epoch can't be negative", ErrorKind::Usage);
    if (!options.folder.empty() && !options.restore_best_weights)
      throw Error("early stopping: a folder is for the best weights; set restore_best_weights too", ErrorKind::Usage);
  }
  std::string name() const override { return effect_ == Effect::Stops ? "early_stopping" : "best_weights"; }
  std::vector<std::string> watches() const override { return {options_.monitor}; }

  void before_training(FitRun& run) override {
    run_ = &run;
    improvement_.reset();
    wait_ = best_epoch_ = 0;
    failure_.reset();
  }

  void after_epoch(FitRun& run) override {
    if (run.epoch() <= options_.start_from_epoch) return;
    const std::optional<double> value = run.log(options_.monitor);
    if (!value) return;
    ++wait_;
    if (improvement_.is_better(*value)) {
      improvement_.set_best(*value);
      best_epoch_ = run.epoch();
      if (options_.restore_best_weights) save(run);
      if (!options_.baseline || improvement_.is_better(*value, *options_.baseline)) wait_ = 0;
    }
    if (run.epoch() > 1) stop_if_waited(run);
  }

  // A checkpoint of a training that was stopped holds its newest weights, not the best.
  void finish(FitRun& run) override {
    const bool restores = options_.restore_best_weights && effect_ == Effect::Stops;
    if (restores && best_epoch_ > 0 && best_epoch_ != run.epoch()) run.load_weights(file());
    run_ = nullptr;
  }

  std::string state() const override { return fmt::format("{:a} {} {}", improvement_.best(), wait_, best_epoch_); }
  void restore(const std::string& state) override {
    std::istringstream text(state);
    std::string best;
    if (!(text >> best >> wait_ >> best_epoch_))
      throw Error(fmt::format("'{}' is no state of early stopping", state), ErrorKind::BadData);
    improvement_.set_best(std::strtod(best.c_str(), nullptr));
    const bool is_gone = options_.restore_best_weights && best_epoch_ > 0 && !std::filesystem::exists(file());
    if (is_gone && effect_ == Effect::Keeps) before_training(*run_);
    if (is_gone && effect_ == Effect::Stops)
      throw Error(
          fmt::format("the best weights, of epoch {}, are gone; give early stopping a folder that stays", best_epoch_),
          ErrorKind::Usage);
    stop_if_waited(*run_);  // a training that had stopped stops again, unless its patience is larger now
  }

 private:
  void save(FitRun& run) {
    if (effect_ == Effect::Stops) return save_once(run);
    if (failure_) return;
    try {
      save_once(run);
    } catch (const Error& e) {
      failure_ = e;
      run.stop(e.what());
    }
  }

  // Ranks that hold the same variables have one file.
  void save_once(FitRun& run) {
    const auto* loop = dynamic_cast<const train::TrainingLoop*>(&run);
    const ranks::Communicator* others = loop == nullptr ? nullptr : loop->training().spec.communicator.get();
    if (others == nullptr || others->rank() == 0 || !loop->training().slices.is_empty() || options_.folder.empty())
      run.save_weights(file());
  }

  void stop_if_waited(FitRun& run) const {
    if (effect_ == Effect::Stops && wait_ >= options_.patience && wait_ > 0)
      run.stop(fmt::format("{} did not improve in {} epochs; the best was {:.6g} in epoch {}", options_.monitor, wait_,
                           improvement_.best(), best_epoch_));
  }

  std::string file() {
    if (!options_.folder.empty()) return fmt::format("{}/{}", options_.folder, report::kBestWeights);
    if (temporary_.path().empty()) temporary_.create("", "plimsoll-best");
    return temporary_.path();
  }

  const EarlyStopping options_;
  const Effect effect_;
  train::Improvement improvement_;
  memory::TemporaryFile temporary_;
  FitRun* run_ = nullptr;   // the training under way
  int64_t wait_ = 0;        // epochs without an improvement
  int64_t best_epoch_ = 0;  // 0: none yet
};

}  // namespace

std::shared_ptr<Callback> best_weights(const std::string& folder, const std::string& monitor) {
  const EarlyStopping options{.monitor = monitor, .restore_best_weights = true, .folder = folder};
  return std::make_shared<EarlyStop>(options, EarlyStop::Effect::Keeps);
}

}  // namespace plimsoll::checkpoints

namespace plimsoll {

std::shared_ptr<Callback> early_stopping(const EarlyStopping& options) {
  return std::make_shared<checkpoints::EarlyStop>(options);
}

}  // namespace plimsoll

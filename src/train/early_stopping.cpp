#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "train/improvement.h"
#include "train/temporary_file.h"

namespace plimsoll::train {
namespace {

class EarlyStop final : public Callback {
 public:
  explicit EarlyStop(const EarlyStopping& options)
      : options_(options), improvement_(options.monitor, options.min_delta, options.mode) {
    if (options.patience < 0 || options.start_from_epoch < 0)
      throw Error("early stopping: patience and start_from_epoch can't be negative", ErrorKind::Usage);
  }
  std::string name() const override { return "early_stopping"; }

  void before_training(FitRun& run) override {
    run_ = &run;
    improvement_.reset();
    wait_ = best_epoch_ = 0;
  }

  void after_epoch(FitRun& run) override {
    if (run.epoch() <= options_.start_from_epoch) return;
    const std::optional<double> value = improvement_.read(run);
    if (!value) return;
    ++wait_;
    if (improvement_.is_better(*value)) {
      improvement_.set_best(*value);
      best_epoch_ = run.epoch();
      if (options_.restore_best_weights) run.save_weights(file());
      if (!options_.baseline || improvement_.is_better(*value, *options_.baseline)) wait_ = 0;
    }
    if (run.epoch() > 1) stop_if_waited(run);
  }

  // A checkpoint of a training that was stopped holds its newest weights, not the best.
  void finish(FitRun& run) override {
    if (options_.restore_best_weights && best_epoch_ > 0 && best_epoch_ != run.epoch()) run.load_weights(file());
    run_ = nullptr;
  }

  std::string state() const override { return fmt::format("{:a} {} {}", improvement_.best(), wait_, best_epoch_); }
  void restore(const std::string& state) override {
    std::istringstream text(state);
    std::string best;
    if (!(text >> best >> wait_ >> best_epoch_))
      throw Error(fmt::format("'{}' is no state of early stopping", state), ErrorKind::BadData);
    improvement_.set_best(std::strtod(best.c_str(), nullptr));
    if (options_.restore_best_weights && best_epoch_ > 0 && !std::filesystem::exists(file()))
      throw Error(
          fmt::format("the best weights, of epoch {}, are gone; give early stopping a folder that stays", best_epoch_),
          ErrorKind::Usage);
    stop_if_waited(*run_);  // a training that had stopped stops again, unless its patience is larger now
  }

 private:
  void stop_if_waited(FitRun& run) const {
    if (wait_ >= options_.patience && wait_ > 0)
      run.stop(fmt::format("{} did not improve in {} epochs; the best was {:.6g} in epoch {}", options_.monitor, wait_,
                           improvement_.best(), best_epoch_));
  }

  std::string file() {
    if (!options_.folder.empty()) return options_.folder + "/best.safetensors";
    if (temporary_.path().empty()) temporary_.create("", "plimsoll-best");
    return temporary_.path();
  }

  const EarlyStopping options_;
  Improvement improvement_;
  TemporaryFile temporary_;
  FitRun* run_ = nullptr;   // the training under way
  int64_t wait_ = 0;        // epochs without an improvement
  int64_t best_epoch_ = 0;  // 0: none yet
};

}  // namespace
}  // namespace plimsoll::train

namespace plimsoll {

std::shared_ptr<Callback> early_stopping(const EarlyStopping& options) {
  return std::make_shared<train::EarlyStop>(options);
}

}  // namespace plimsoll

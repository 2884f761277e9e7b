// Callbacks that change the learning rate, and those made of functions.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "train/improvement.h"

namespace plimsoll::train {
namespace {

class PlateauCallback final : public Callback {
 public:
  explicit PlateauCallback(const ReduceOnPlateau& options)
      : options_(options), improvement_(options.monitor, options.min_delta, options.mode) {
    if (!(options.factor > 0 && options.factor < 1))
      throw Error(
          fmt::format("reduce on plateau: a factor of {} does not reduce; give one between 0 and 1", options.factor),
          ErrorKind::Usage);
  }
  std::string name() const override { return "reduce_on_plateau"; }
  std::vector<std::string> watches() const override { return {options_.monitor}; }

  void before_training(FitRun&) override {
    improvement_.reset();
    wait_ = cooldown_ = 0;
  }

  void after_epoch(FitRun& run) override {
    const std::optional<double> value = run.log(options_.monitor);
    if (!value) return;
    if (cooldown_ > 0) {
      --cooldown_;
      wait_ = 0;
    }
    if (improvement_.is_better(*value)) {
      improvement_.set_best(*value);
      wait_ = 0;
    } else if (cooldown_ == 0 && ++wait_ >= options_.patience) {
      if (run.learning_rate() > options_.min_rate)
        run.set_learning_rate(std::max(run.learning_rate() * options_.factor, options_.min_rate));
      cooldown_ = options_.cooldown;
      wait_ = 0;
    }
  }

  std::string state() const override { return fmt::format("{:a} {} {}", improvement_.best(), wait_, cooldown_); }
  void restore(const std::string& state) override {
    std::istringstream text(state);
    std::string best;
    if (!(text >> best >> wait_ >> cooldown_))
      throw Error(fmt::format("'{}' is no state of reduce on plateau", state), ErrorKind::BadData);
    improvement_.set_best(std::strtod(best.c_str(), nullptr));
  }

 private:
  const ReduceOnPlateau options_;
  Improvement improvement_;
  int64_t wait_ = 0, cooldown_ = 0;
};

class EpochRates final : public Callback {
 public:
  explicit EpochRates(std::function<double(int64_t epoch, double rate)> rate) : rate_(std::move(rate)) {}
  std::string name() const override { return "learning_rate_schedule"; }
  // The rate of an epoch is set when the epoch before is over; a resumed training has it in its variables.
  void before_training(FitRun& run) override {
    if (!run.is_resumed()) set(run, run.epoch());
  }
  void after_epoch(FitRun& run) override { set(run, run.epoch() + 1); }

 private:
  void set(FitRun& run, int64_t epoch) const { run.set_learning_rate(rate_(epoch - 1, run.learning_rate())); }
  std::function<double(int64_t epoch, double rate)> rate_;
};

class FunctionCallback final : public Callback {
 public:
  FunctionCallback(CallbackFunctions functions, std::string name)
      : functions_(std::move(functions)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void before_training(FitRun& run) override { call(functions_.before_training, run); }
  void after_step(FitRun& run) override { call(functions_.after_step, run); }
  void after_epoch(FitRun& run) override { call(functions_.after_epoch, run); }
  void after_training(FitRun& run) override { call(functions_.after_training, run); }

 private:
  static void call(const std::function<void(FitRun&)>& function, FitRun& run) {
    if (function) function(run);
  }
  const CallbackFunctions functions_;
  const std::string name_;
};

}  // namespace
}  // namespace plimsoll::train

namespace plimsoll {

std::shared_ptr<Callback> reduce_on_plateau(const ReduceOnPlateau& options) {
  return std::make_shared<train::PlateauCallback>(options);
}

std::shared_ptr<Callback> learning_rate_schedule(std::function<double(int64_t epoch, double rate)> rate) {
  return std::make_shared<train::EpochRates>(std::move(rate));
}

std::shared_ptr<Callback> custom_callback(CallbackFunctions functions, std::string name) {
  return std::make_shared<train::FunctionCallback>(std::move(functions), std::move(name));
}

}  // namespace plimsoll

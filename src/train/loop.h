// The training loop: epochs of steps over the training data, each followed by a score on the test data.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/weights_file.h"
#include "train/evaluate.h"

namespace plimsoll::train {

// Steps in a row with a loss that is not finite, after which loss scaling has not helped: the scale is then 2^-32 of
// what it was.
constexpr int64_t kMostSkippedSteps = 32;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// Means over the epoch so far. NaN: not counted, or not measured.
struct EpochMeans {
  int64_t epoch = 0;  // from 1
  int64_t steps = 0;  // of this epoch
  double loss = kNoNumber;
  double accuracy = kNoNumber;
  double test_loss = kNoNumber;
  double test_accuracy = kNoNumber;
};

// Hears how training goes and may ask it to stop. This one hears nothing and never stops.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual bool is_stop_asked() { return false; }  // between steps
  virtual void after_step(const EpochMeans& /*means*/, int64_t /*samples*/) {}
  virtual void after_epoch(const EpochMeans& /*means*/) {}  // also after one that was cut short
};

struct LoopOptions {
  int64_t epochs = 1;
  int64_t steps = 0;  // stop after so many; 0: whole epochs
  uint64_t seed = 1;  // of the order of samples
  // How an error ends that says that the loss is not finite though the data is.
  std::string advice = "try a smaller learning rate, or clip gradients by their global norm";
};

struct History {
  std::vector<EpochMeans> epochs;
  std::optional<Score> score;    // of the last evaluation, unless that was stopped
  double last_loss = kNoNumber;  // of the last step; NaN: there was none
  int64_t skipped = 0;           // bad samples that were passed over, in all epochs
  bool was_stopped = false;
  bool has_trained() const { return last_loss == last_loss; }
};

// One run over the data: made, then opened, then run once.
class TrainingLoop {
 public:
  // Over the data of the training. Throws Error(Usage) when that has no half to train on.
  TrainingLoop(Training& training, const LoopOptions& options);

  int64_t steps_per_epoch() const { return train_.steps_per_epoch(); }
  // Plans what the data needs beyond the training's own steps, and takes the memory.
  void open();
  // Throws Error(BadData or BadNumbers) when a loss is not finite.
  History run(Watcher& watcher);

 private:
  struct EpochSums {
    double loss = 0;
    double correct = 0;
    int64_t samples = 0;
    int64_t steps = 0;
    int64_t losses = 0;  // steps whose loss is finite: loss scaling passes over others
  };
  void take_step(const ElementView& batch, EpochSums& sums);
  void apply_group();  // updates the weights from the gradients that were added up
  EpochMeans means_of(int64_t epoch, const EpochSums& sums) const;
  void score_test_data(Watcher& watcher);

  Training& training_;
  const LoopOptions options_;
  Inputs train_;
  std::unique_ptr<Inputs> test_;
  History history_;
  int64_t group_ = 0;  // batches whose gradients were added up since the last update
  int64_t skipped_in_a_row_ = 0;
};

// What a training goes on from.
struct StartingPoint {
  enum class RateOrigin { Given, File, Optimiser };
  session::LoadedWeights loaded;
  int64_t steps = 0;  // of training so far
  float learning_rate = 0;
  RateOrigin rate_origin = RateOrigin::Optimiser;
};
// Reads weights into an open session. A rate that was given counts more than the one in the file.
StartingPoint load_start(Training& training, const std::string& path, const std::optional<double>& learning_rate);

}  // namespace plimsoll::train

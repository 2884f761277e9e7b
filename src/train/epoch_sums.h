// The loss and the metrics of a model over the batches of an epoch.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/callback.h>
#include <plimsoll/model.h>
#include <plimsoll/session.h>
#include "model/training.h"

namespace plimsoll::train {

// Sums in 64 bits; adding a batch allocates nothing.
class EpochSums {
 public:
  // `tensors` are those of the objective that the steps fetch after the loss.
  EpochSums(const ModelSpec& model, const std::vector<Tensor>& tensors);

  void clear();
  // What a step fetched: the loss, then the tensors.
  void add(std::span<const View> fetched, int64_t samples);
  // The same in two steps, through `width` numbers: the samples, their loss, then the sums of the metrics.
  size_t width() const { return 2 + sums_.size(); }
  void write(std::span<const View> fetched, int64_t samples, std::span<double> into) const;
  void add(std::span<const double> numbers);
  double samples() const { return samples_; }

  const std::vector<std::string>& names() const { return names_; }  // "loss", then the metrics
  double mean(size_t i) const;                                      // of names()[i]

  // All of it by name, exactly; set throws Error(Usage) for the sums of other metrics.
  std::vector<std::pair<std::string, double>> state() const;
  void set(const std::vector<std::pair<std::string, double>>& state);

 private:
  struct Part {
    size_t tensors, first, count;  // of sums_
    Metric::Value value;           // unset: a mean over the batch
  };
  std::vector<std::string> names_;
  std::vector<Part> parts_;  // of each metric
  std::vector<double> sums_;
  std::vector<double> added_;  // of one step
  double loss_ = 0;
  double samples_ = 0;
};

}  // namespace plimsoll::train

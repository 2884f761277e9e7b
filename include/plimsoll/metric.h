// Metrics: what training and evaluation tell beside the loss. They are sums over samples, so that they are right over a
// whole epoch, whatever its batches, in constant memory.
//
//   net.compile({.loss = "sparse_cross_entropy", .metrics = {"accuracy", Metric::top_k(5)}});
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

struct Metric {
  // accuracy, top_5 (of any number), precision, recall, auc, mse, mae, mean; Keras' names too. Throws Error(Usage).
  Metric(const char* by_name) : Metric(std::string_view(by_name)) {}         // NOLINT(google-explicit-constructor)
  Metric(const std::string& by_name) : Metric(std::string_view(by_name)) {}  // NOLINT(google-explicit-constructor)
  explicit Metric(std::string_view by_name);

  using Sums = std::function<std::vector<Tensor>(Tensor prediction, Tensor target)>;
  using Value = std::function<double(std::span<const double> sums, double samples)>;
  Metric(std::string metric, Sums made, Value of, size_t sum_tensors = 1)
      : name(std::move(metric)), sums(std::move(made)), value(std::move(of)), tensors(sum_tensors) {}

  // Class numbers, probabilities of classes, or one probability against 0.5, as the shapes of output and target say.
  static Metric accuracy();
  static Metric top_k(int64_t k = 5);  // the right class is among the k largest outputs
  // Of the samples predicted positive, how many are; of the positive ones, how many are predicted so.
  static Metric precision(double threshold = 0.5);
  static Metric recall(double threshold = 0.5);
  static Metric auc(int64_t thresholds = 200);  // area under the ROC curve, as Keras approximates it
  static Metric mse();
  static Metric mae();
  static Metric mean(std::string name = "mean");  // of the output itself
  // The mean over the samples of a function of one's own, which gives one number for each sample or element.
  static Metric own(std::string name, std::function<Tensor(Tensor prediction, Tensor target)> function);

  // The same for one output of several.
  Metric of(std::string output_name) const;

  std::string name;
  std::string output = {};  // empty: of every output
  Sums sums;                // f32 tensors without the batch among their dimensions, added up over all batches
  Value value;              // from all elements of these sums
  size_t tensors = 1;       // that `sums` gives
};

}  // namespace plimsoll

#include <plimsoll/model.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
#include "model/metric_parts.h"
#include "model/shapes.h"

namespace plimsoll {
namespace model {

// The sum, over the samples, of the mean of each sample's elements.
Tensor sum_of_samples(Tensor values, Name name) {
  if (values.rank() == 0)
    throw Error("a metric gives one number for each sample; this one is a number for the batch", ErrorKind::Usage);
  Dims axes;
  for (int i = 1; i < values.rank(); ++i) axes.push_back(i);
  return reduce_sum(axes.empty() ? values : reduce_mean(values, axes), {0}, false, name);
}

double mean_of(std::span<const double> sums, double samples) { return sums[0] / samples; }

double share(double part, double rest) { return part + rest > 0 ? part / (part + rest) : 0; }

void expect_match(const char* metric, Tensor prediction, Tensor target) {
  if (model::same_elements(prediction.shape(), target.shape())) return;
  throw Error(fmt::format("metric '{}': the output is {} but the target is {}; give a target of the same shape", metric,
                          to_string(prediction.type()), to_string(target.type())),
              ErrorKind::Usage);
}

// Class numbers from targets that are class numbers, or probabilities of classes.
Tensor labels_of(Tensor prediction, Tensor target, const char* metric) {
  Shape rows = prediction.shape();
  if (rows.rank() > 0) rows.erase(rows.rank() - 1);
  if (!(target.shape() == prediction.shape()) && model::same_elements(rows, target.shape()))
    return as_shape(target.dtype() == DType::I32 ? target : cast(target, DType::I32), rows);
  expect_match(metric, prediction, target);
  return argmax(as_shape(as_floats(target), prediction.shape()));
}

bool is_one_number(Tensor prediction) { return prediction.rank() < 2 || prediction.dim(-1) == Dim(1); }

Tensor is_above(Tensor x, double threshold) {
  return cast(greater(as_floats(x), x.graph().scalar(static_cast<float>(threshold))), DType::F32);
}

// Counts of true positives, false positives and false negatives.
std::vector<Tensor> confusion(Tensor prediction, Tensor target, double threshold, const char* metric) {
  expect_match(metric, prediction, target);
  const Tensor is = as_shape(is_above(target, 0.5), prediction.shape()), said = is_above(prediction, threshold);
  const auto count = [](Tensor x) { return reduce_sum(x); };
  return {count(said * is), count(said * (1 - is)), count((1 - said) * is)};
}

// Below 0, evenly over (0, 1), above 1, as Keras chooses them.
std::vector<float> thresholds_of(int64_t count) {
  std::vector<float> thresholds{-1e-7F};
  for (int64_t i = 1; i + 1 < count; ++i)
    thresholds.push_back(static_cast<float>(static_cast<double>(i) / static_cast<double>(count - 1)));
  thresholds.push_back(1 + 1e-7F);
  return thresholds;
}

// True and false positives at each threshold, then all positives and negatives.
std::vector<Tensor> positives_at(const std::vector<float>& thresholds, Tensor prediction, Tensor target,
                                 const char* metric) {
  expect_match(metric, prediction, target);
  const auto count = static_cast<int64_t>(thresholds.size());
  const Dim all = element_count(prediction.shape());
  const Tensor limits =
      prediction.graph().constant(DType::F32, {1, count}, std::as_bytes(std::span(thresholds)), "thresholds");
  const Tensor is = reshape(is_above(target, 0.5), {all, 1});
  const Tensor said = cast(greater(reshape(prediction, {all, 1}), limits), DType::F32);
  return {reduce_sum(said * is, {0}), reduce_sum(said * (1 - is), {0}), reduce_sum(is), reduce_sum(1 - is)};
}

}  // namespace model

namespace {

using namespace model;

double area(std::span<const double> sums) {
  const size_t count = (sums.size() - 2) / 2;
  const double positives = sums[2 * count], negatives = sums[2 * count + 1];
  const auto hit = [&](size_t i) { return positives > 0 ? sums[i] / positives : 0; };
  const auto alarm = [&](size_t i) { return negatives > 0 ? sums[count + i] / negatives : 0; };
  double sum = 0;
  for (size_t i = 0; i + 1 < count; ++i) sum += (alarm(i) - alarm(i + 1)) * (hit(i) + hit(i + 1)) / 2;
  return sum;
}

}  // namespace

Metric Metric::accuracy() {
  return {"accuracy",
          [](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            Tensor right;
            if (is_one_number(prediction)) {
              expect_match("accuracy", prediction, target);
              right = equal(is_above(prediction, 0.5), as_shape(is_above(target, 0.5), prediction.shape()));
            } else {
              right = equal(argmax(prediction), labels_of(prediction, target, "accuracy"));
            }
            return {sum_of_samples(cast(right, DType::F32), "correct")};
          },
          mean_of};
}

Metric Metric::top_k(int64_t k) {
  if (k < 1) throw Error(fmt::format("top_k: {} makes no sense; give a positive number", k), ErrorKind::Usage);
  return {fmt::format("top_{}", k),
          [k](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            const Tensor labels = labels_of(prediction, target, "top_k");
            const Tensor of_label = one_hot(labels, prediction.dim(-1).fixed()) * prediction;
            const Tensor above = cast(greater(prediction, reduce_sum(of_label, {-1}, true)), DType::F32);
            const Tensor rank = reduce_sum(above, {-1});
            return {sum_of_samples(cast(less(rank, rank.graph().scalar(static_cast<float>(k))), DType::F32))};
          },
          mean_of};
}

Metric Metric::precision(double threshold) {
  return {
      "precision",
      [threshold](Tensor prediction, Tensor target) { return confusion(prediction, target, threshold, "precision"); },
      [](std::span<const double> all, double) { return share(all[0], all[1]); }, 3};
}

Metric Metric::recall(double threshold) {
  return {"recall",
          [threshold](Tensor prediction, Tensor target) { return confusion(prediction, target, threshold, "recall"); },
          [](std::span<const double> all, double) { return share(all[0], all[2]); }, 3};
}

Metric Metric::auc(int64_t thresholds) {
  if (thresholds < 2 || thresholds > 10'000)
    throw Error(fmt::format("auc: {} thresholds make no sense; give 2 to 10000", thresholds), ErrorKind::Usage);
  return {"auc",
          [all = thresholds_of(thresholds)](Tensor prediction, Tensor target) {
            return positives_at(all, prediction, target, "auc");
          },
          [](std::span<const double> all, double) { return area(all); }, 4};
}

Metric Metric::mse() {
  return {"mse",
          [](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            expect_match("mse", prediction, target);
            const Tensor error = prediction - as_shape(as_floats(target), prediction.shape());
            return {sum_of_samples(error * error)};
          },
          mean_of};
}

Metric Metric::mae() {
  return {"mae",
          [](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            expect_match("mae", prediction, target);
            return {sum_of_samples(abs(prediction - as_shape(as_floats(target), prediction.shape())))};
          },
          mean_of};
}

Metric Metric::mean(std::string name) {
  return own(std::move(name), [](Tensor prediction, Tensor) { return prediction; });
}

Metric Metric::own(std::string name, std::function<Tensor(Tensor, Tensor)> function) {
  return {std::move(name),
          [function = std::move(function)](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            return {sum_of_samples(as_floats(function(prediction, target)))};
          },
          mean_of};
}

Metric Metric::of(std::string output_name) const {
  Metric metric = *this;
  metric.output = std::move(output_name);
  return metric;
}

}  // namespace plimsoll

// Further metrics, and all by name.
#include <plimsoll/model.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
#include "base/nearest.h"
#include "model/metric_parts.h"
#include "model/shapes.h"

namespace plimsoll {
namespace {

using namespace model;

Tensor target_like(const char* metric, Tensor prediction, Tensor target) {
  expect_match(metric, prediction, target);
  return as_shape(as_floats(target), prediction.shape());
}

// Of numbers in two tensors: how many, and the sums of x, y, x^2, y^2, x y.
std::vector<Tensor> moments(const char* metric, Tensor prediction, Tensor target) {
  const Tensor y = target_like(metric, prediction, target), x = as_floats(prediction);
  const auto sum = [](Tensor of) { return reduce_sum(of); };
  return {sum(cast(equal(x, x), DType::F32)), sum(x), sum(y), sum(x * x), sum(y * y), sum(x * y)};
}

// Of true positives, false positives and false negatives, and all numbers.
std::vector<Tensor> confusion_and_all(const char* metric, Tensor prediction, Tensor target, double threshold) {
  std::vector<Tensor> all = confusion(prediction, target, threshold, metric);
  all.push_back(reduce_sum(cast(equal(prediction, prediction), DType::F32)));
  return all;
}

// Counts of samples by their class and the predicted one, [classes, classes].
Tensor class_counts(Tensor prediction, Tensor target, int64_t classes, const char* metric) {
  Tensor said, is;
  if (is_one_number(prediction)) {
    expect_match(metric, prediction, target);
    const Dim all = element_count(prediction.shape());
    said = reshape(cast(is_above(prediction, 0.5), DType::I32), {all});
    is = reshape(cast(is_above(target, 0.5), DType::I32), {all});
  } else {
    const Tensor labels = labels_of(prediction, target, metric);
    const Dim all = element_count(labels.shape());
    said = reshape(cast(argmax(prediction), DType::I32), {all});
    is = reshape(labels, {all});
  }
  return matmul(one_hot(is, classes), one_hot(said, classes), true, false);
}

void expect_classes(int64_t classes, const char* metric) {
  if (classes < 2 || classes > 10'000)
    throw Error(fmt::format("{}: {} classes make no sense; give 2 to 10000", metric, classes), ErrorKind::Usage);
}

// The mean over the classes that occur of what they share with what was predicted, of both together.
double mean_overlap(std::span<const double> counts, int64_t classes) {
  double sum = 0;
  int64_t seen = 0;
  for (int64_t c = 0; c < classes; ++c) {
    double is = 0, said = 0;
    for (int64_t other = 0; other < classes; ++other) {
      is += counts[static_cast<size_t>(c * classes + other)];
      said += counts[static_cast<size_t>(other * classes + c)];
    }
    const double both = counts[static_cast<size_t>(c * classes + c)];
    if (is + said - both <= 0) continue;
    sum += both / (is + said - both);
    ++seen;
  }
  return seen > 0 ? sum / static_cast<double>(seen) : 0;
}

// Cohen's kappa is the share of right answers above that of chance.
double above_chance(std::span<const double> counts, int64_t classes) {
  double all = 0, right = 0, chance = 0;
  for (const double each : counts.first(static_cast<size_t>(classes * classes))) all += each;
  for (int64_t c = 0; c < classes; ++c) {
    double is = 0, said = 0;
    for (int64_t other = 0; other < classes; ++other) {
      is += counts[static_cast<size_t>(c * classes + other)];
      said += counts[static_cast<size_t>(other * classes + c)];
    }
    right += counts[static_cast<size_t>(c * classes + c)];
    chance += is * said;
  }
  if (all == 0) return 0;
  right /= all;
  chance /= all * all;
  return chance < 1 ? (right - chance) / (1 - chance) : 0;
}

// The best of `y` at the thresholds where `x` is at least the wanted number; both of (true, false positives, all
// positives, all negatives).
using RateOf = double (*)(double hit, double alarm, double positives, double negatives);
double best_at(std::span<const double> sums, double wanted, RateOf x, RateOf y) {
  const size_t count = (sums.size() - 2) / 2;
  const double positives = sums[2 * count], negatives = sums[2 * count + 1];
  double best = 0;
  for (size_t i = 0; i < count; ++i)
    if (x(sums[i], sums[count + i], positives, negatives) >= wanted)
      best = std::max(best, y(sums[i], sums[count + i], positives, negatives));
  return best;
}

double precision_of(double hit, double alarm, double, double) { return share(hit, alarm); }
double recall_of(double hit, double, double positives, double) { return positives > 0 ? hit / positives : 0; }
double specificity_of(double, double alarm, double, double negatives) {
  return negatives > 0 ? (negatives - alarm) / negatives : 0;
}

Metric rate_at(std::string name, double wanted, int64_t thresholds, RateOf x, RateOf y) {
  if (!(wanted >= 0 && wanted <= 1))
    throw Error(fmt::format("{}: {} makes no sense; give a number from 0 to 1", name, wanted), ErrorKind::Usage);
  if (thresholds < 2 || thresholds > 10'000)
    throw Error(fmt::format("{}: {} thresholds make no sense; give 2 to 10000", name, thresholds), ErrorKind::Usage);
  return {name,
          [all = thresholds_of(thresholds), name](Tensor prediction, Tensor target) {
            return positives_at(all, prediction, target, name.c_str());
          },
          [=](std::span<const double> sums, double) { return best_at(sums, wanted, x, y); }, 4};
}

// As Keras integrates it: between two thresholds the precision is interpolated by counts (Davis and Goadrich).
double precision_recall_area(std::span<const double> sums) {
  const size_t count = (sums.size() - 2) / 2;
  const double positives = sums[2 * count];
  double area = 0;
  for (size_t i = 0; i + 1 < count; ++i) {
    const double hits = sums[i] - sums[i + 1], said = hits + sums[count + i] - sums[count + i + 1];
    if (said <= 0) continue;
    const double slope = hits / said;
    const double more = sums[i + 1], all = sums[i + 1] + sums[count + i + 1];
    const double ratio = all > 0 ? (sums[i] + sums[count + i]) / all : 1;
    area += slope * (hits + (more - slope * all) * std::log(ratio));
  }
  return positives > 0 ? area / positives : 0;
}

Metric of_loss(std::string name, const Loss& loss) {
  return Metric::own(std::move(name),
                     [loss](Tensor prediction, Tensor target) { return loss.values(prediction, target); });
}

}  // namespace

Metric Metric::f1(double threshold) { return f_beta(1, threshold); }

Metric Metric::f_beta(double beta, double threshold) {
  if (!(beta > 0))
    throw Error(fmt::format("f_beta: a beta of {} makes no sense; give a positive number", beta), ErrorKind::Usage);
  return {beta == 1 ? std::string("f1") : fmt::format("f_{}", beta),
          [threshold](Tensor prediction, Tensor target) { return confusion(prediction, target, threshold, "f1"); },
          [by = beta * beta](std::span<const double> all, double) {
            const double hits = (1 + by) * all[0];
            return share(hits, by * all[2] + all[1]);
          },
          3};
}

Metric Metric::specificity(double threshold) {
  return {"specificity",
          [threshold](Tensor prediction, Tensor target) {
            return confusion_and_all("specificity", prediction, target, threshold);
          },
          [](std::span<const double> all, double) { return share(all[3] - all[0] - all[1] - all[2], all[1]); }, 4};
}

Metric Metric::matthews(double threshold) {
  return {"matthews",
          [threshold](Tensor prediction, Tensor target) {
            return confusion_and_all("matthews", prediction, target, threshold);
          },
          [](std::span<const double> all, double) {
            const double hit = all[0], alarm = all[1], missed = all[2], right = all[3] - hit - alarm - missed;
            const double size = std::sqrt((hit + alarm) * (hit + missed) * (right + alarm) * (right + missed));
            return size > 0 ? (hit * right - alarm * missed) / size : 0;
          },
          4};
}

Metric Metric::counts(std::string_view which, double threshold) {
  const std::string_view known[] = {"true_positives", "false_positives", "false_negatives", "true_negatives"};
  const auto found = std::ranges::find(known, which);
  if (found == std::end(known))
    throw Error(fmt::format("counts: '{}' is unknown; known are {}", which, fmt::join(known, ", ")), ErrorKind::Usage);
  return {std::string(which),
          [threshold](Tensor prediction, Tensor target) {
            return confusion_and_all("counts", prediction, target, threshold);
          },
          [at = found - std::begin(known)](std::span<const double> all, double) {
            return at < 3 ? all[static_cast<size_t>(at)] : all[3] - all[0] - all[1] - all[2];
          },
          4};
}

Metric Metric::pr_auc(int64_t thresholds) {
  Metric metric = rate_at("pr_auc", 0, thresholds, recall_of, precision_of);
  metric.value = [](std::span<const double> sums, double) { return precision_recall_area(sums); };
  return metric;
}

Metric Metric::precision_at_recall(double recall, int64_t thresholds) {
  return rate_at("precision_at_recall", recall, thresholds, recall_of, precision_of);
}
Metric Metric::recall_at_precision(double precision, int64_t thresholds) {
  return rate_at("recall_at_precision", precision, thresholds, precision_of, recall_of);
}
Metric Metric::sensitivity_at_specificity(double specificity, int64_t thresholds) {
  return rate_at("sensitivity_at_specificity", specificity, thresholds, specificity_of, recall_of);
}
Metric Metric::specificity_at_sensitivity(double sensitivity, int64_t thresholds) {
  return rate_at("specificity_at_sensitivity", sensitivity, thresholds, recall_of, specificity_of);
}

Metric Metric::confusion_cell(int64_t classes, int64_t is, int64_t said) {
  expect_classes(classes, "confusion_cell");
  if (std::min(is, said) < 0 || std::max(is, said) >= classes)
    throw Error(fmt::format("confusion_cell: there is no cell {}, {} of {} classes", is, said, classes),
                ErrorKind::Usage);
  return {fmt::format("confusion_{}_{}", is, said),
          [classes](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            return {class_counts(prediction, target, classes, "confusion_cell")};
          },
          [at = static_cast<size_t>(is * classes + said)](std::span<const double> all, double) { return all[at]; }};
}

Metric Metric::mean_iou(int64_t classes) {
  expect_classes(classes, "mean_iou");
  return {"mean_iou",
          [classes](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            return {class_counts(prediction, target, classes, "mean_iou")};
          },
          [classes](std::span<const double> all, double) { return mean_overlap(all, classes); }};
}

Metric Metric::binary_iou(double threshold) {
  return {"binary_iou",
          [threshold](Tensor prediction, Tensor target) {
            return confusion_and_all("binary_iou", prediction, target, threshold);
          },
          [](std::span<const double> all, double) {
            const double wrong = all[1] + all[2];
            return (share(all[0], wrong) + share(all[3] - all[0] - wrong, wrong)) / 2;
          },
          4};
}

Metric Metric::kappa(int64_t classes) {
  expect_classes(classes, "kappa");
  return {"kappa",
          [classes](Tensor prediction, Tensor target) -> std::vector<Tensor> {
            return {class_counts(prediction, target, classes, "kappa")};
          },
          [classes](std::span<const double> all, double) { return above_chance(all, classes); }};
}

Metric Metric::rmse() {
  Metric metric = mse();
  metric.name = "rmse";
  metric.value = [](std::span<const double> sums, double samples) { return std::sqrt(sums[0] / samples); };
  return metric;
}

Metric Metric::r2() {
  return {"r2", [](Tensor prediction, Tensor target) { return moments("r2", prediction, target); },
          [](std::span<const double> m, double) {
            const double around_mean = m[4] - m[2] * m[2] / m[0], left = m[3] - 2 * m[5] + m[4];
            return around_mean > 0 ? 1 - left / around_mean : 0;
          },
          6};
}

Metric Metric::pearson() {
  return {"pearson", [](Tensor prediction, Tensor target) { return moments("pearson", prediction, target); },
          [](std::span<const double> m, double) {
            const double x = m[3] - m[1] * m[1] / m[0], y = m[4] - m[2] * m[2] / m[0];
            return x > 0 && y > 0 ? (m[5] - m[1] * m[2] / m[0]) / std::sqrt(x * y) : 0;
          },
          6};
}

Metric Metric::perplexity() {
  Metric metric = of_loss("perplexity", Loss::sparse_cross_entropy());
  metric.value = [](std::span<const double> sums, double samples) { return std::exp(sums[0] / samples); };
  return metric;
}

Metric Metric::cosine() {
  return own("cosine",
             [](Tensor prediction, Tensor target) { return -Loss::cosine_similarity().values(prediction, target); });
}

Metric Metric::loss(const Loss& loss) { return of_loss(loss.name(), loss); }

namespace {

struct NamedMetric {
  std::string_view name;
  std::vector<std::string_view> aliases;
  Metric (*make)();
};

const std::vector<NamedMetric>& known_metrics() {
  static const std::vector<NamedMetric> kMetrics{
      {"accuracy",
       {"acc", "binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy"},
       [] { return Metric::accuracy(); }},
      {"top_5",
       {"top_k", "top_k_categorical_accuracy", "sparse_top_k_categorical_accuracy"},
       [] { return Metric::top_k(); }},
      {"precision", {}, [] { return Metric::precision(); }},
      {"recall", {"sensitivity"}, [] { return Metric::recall(); }},
      {"specificity", {}, [] { return Metric::specificity(); }},
      {"f1", {"f1_score", "fbeta_score"}, [] { return Metric::f1(); }},
      {"matthews", {"matthews_correlation", "mcc"}, [] { return Metric::matthews(); }},
      {"auc", {"roc_auc"}, [] { return Metric::auc(); }},
      {"pr_auc", {"average_precision"}, [] { return Metric::pr_auc(); }},
      {"true_positives", {}, [] { return Metric::counts("true_positives"); }},
      {"false_positives", {}, [] { return Metric::counts("false_positives"); }},
      {"false_negatives", {}, [] { return Metric::counts("false_negatives"); }},
      {"true_negatives", {}, [] { return Metric::counts("true_negatives"); }},
      {"binary_iou", {"iou"}, [] { return Metric::binary_iou(); }},
      {"mse", {"mean_squared_error"}, [] { return Metric::mse(); }},
      {"mae", {"mean_absolute_error"}, [] { return Metric::mae(); }},
      {"rmse", {"root_mean_squared_error"}, [] { return Metric::rmse(); }},
      {"r2", {"r2_score"}, [] { return Metric::r2(); }},
      {"pearson", {"pearson_correlation"}, [] { return Metric::pearson(); }},
      {"cosine", {"cosine_similarity"}, [] { return Metric::cosine(); }},
      {"perplexity", {}, [] { return Metric::perplexity(); }},
      {"mean", {}, [] { return Metric::mean(); }},
  };
  return kMetrics;
}

}  // namespace

std::vector<std::string> Metric::names() {
  std::vector<std::string> names;
  for (const NamedMetric& metric : known_metrics()) names.emplace_back(metric.name);
  return names;
}

Metric::Metric(std::string_view by_name) {
  const auto is = [&](std::string_view known) { return plain_name(known) == plain_name(by_name); };
  for (const NamedMetric& metric : known_metrics())
    if (is(metric.name) || std::ranges::any_of(metric.aliases, is)) {
      *this = metric.make();
      return;
    }
  if (by_name.starts_with("top_")) {
    int64_t k = 0;
    const auto [end, error] = std::from_chars(by_name.data() + 4, by_name.data() + by_name.size(), k);
    if (error == std::errc() && end == by_name.data() + by_name.size()) {
      *this = top_k(k);
      return;
    }
  }
  // Every loss is a metric too.
  if (Loss::knows(by_name)) {
    *this = loss(Loss(by_name));
    return;
  }
  throw Error(
      fmt::format("there is no metric '{}'; known are {} (top_ of any number), and the losses {}; or make one with "
                  "Metric::own",
                  by_name, fmt::join(names(), ", "), fmt::join(Loss::names(), ", ")),
      ErrorKind::Usage);
}

}  // namespace plimsoll

// Losses and metrics: by Keras' names, with settings, or as a function of tensors.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/model.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/objectives.h"
#include "python/operands.h"

namespace plimsoll::python {
namespace {

std::function<Tensor(Tensor, Tensor)> called(nb::handle function) {
  const auto held = keep(nb::borrow(function));
  PyObject* const kept = function.ptr();
  return [held, kept](const Tensor& prediction, const Tensor& target) {
    const nb::gil_scoped_acquire lock;
    const nb::object made = nb::handle(kept)(to_python(target), to_python(prediction));
    if (!nb::isinstance<Tensor>(made)) refuse_argument({"a loss or metric", "its result"}, "a tensor", made);
    return Tensor(*nb::inst_ptr<Tensor>(made));
  };
}

}  // namespace

Loss loss_of(nb::handle given, const ArgumentPlace& at) {
  if (nb::isinstance<Loss>(given)) return nb::cast<Loss>(given);
  if (PyUnicode_Check(given.ptr())) return {nb::cast<std::string>(given)};
  if (PyCallable_Check(given.ptr()) != 0) return {called(given)};
  refuse_argument(at, "the name of a loss, one of plimsoll.losses, or a function (y_true, y_pred)", given);
}

Metric metric_of(nb::handle given, const ArgumentPlace& at) {
  if (nb::isinstance<Metric>(given)) return nb::cast<Metric>(given);
  if (PyUnicode_Check(given.ptr())) return {nb::cast<std::string>(given)};
  if (PyCallable_Check(given.ptr()) != 0) {
    const std::string name = nb::hasattr(given, "__name__") ? nb::cast<std::string>(given.attr("__name__")) : "metric";
    return Metric::own(name == "<lambda>" ? "metric" : name, called(given));
  }
  refuse_argument(at, "the name of a metric, one of plimsoll.metrics, or a function (y_true, y_pred)", given);
}

void bind_objectives(nb::module_& module) {
  nb::class_<Loss>(module, "Loss", "What training minimises.")
      .def(
          "__init__",
          [](Loss* made, nb::handle loss) {
            new (made) Loss(loss_of(loss, {"Loss", "loss"}));
          },
          nb::arg("loss"), nb::sig("def __init__(self, loss: str | Callable[[Tensor, Tensor], Tensor]) -> None"))
      .def_prop_ro("name", &Loss::name, "Its name.")
      .def(
          "__call__",
          [](const Loss& loss, nb::handle target, nb::handle prediction, nb::handle sample_weight) {
            const nb::handle given[] = {prediction, target, sample_weight};
            const CallPlace place("loss", given);
            const Tensor of = place.tensor("y_pred", prediction), to = place.tensor("y_true", target);
            const Tensor weights = sample_weight.is_none() ? Tensor() : place.tensor("sample_weight", sample_weight);
            return to_python(loss.mean(of, to, weights));
          },
          nb::arg("y_true"), nb::arg("y_pred"), nb::arg("sample_weight") = nb::none(),
          nb::sig("def __call__(self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None) "
                  "-> Tensor"),
          "The mean over all elements.")
      .def("__repr__", [](const Loss& loss) { return "Loss('" + loss.name() + "')"; });
  nb::module_ losses = module.def_submodule("losses", "Losses with the formulas of Keras. Logits, not probabilities.");
  losses.def(
      "SparseCategoricalCrossentropy",
      [](bool from_logits, std::optional<int64_t> ignore_class) {
        return Loss::sparse_cross_entropy({.from_logits = from_logits, .ignore = ignore_class});
      },
      nb::arg("from_logits") = true, nb::arg("ignore_class") = nb::none(),
      "Logits against class numbers, of which one may count for nothing.");
  losses.def(
      "CategoricalCrossentropy",
      [](bool from_logits, double label_smoothing) {
        return Loss::cross_entropy({.from_logits = from_logits, .label_smoothing = label_smoothing});
      },
      nb::arg("from_logits") = true, nb::arg("label_smoothing") = 0.0, "Logits against probabilities of classes.");
  losses.def(
      "BinaryCrossentropy",
      [](bool from_logits, double label_smoothing) {
        return Loss::binary_cross_entropy({.from_logits = from_logits, .label_smoothing = label_smoothing});
      },
      nb::arg("from_logits") = true, nb::arg("label_smoothing") = 0.0, "Logits against probabilities.");
  losses.def(
      "CategoricalFocalCrossentropy",
      [](double alpha, double gamma, bool from_logits) {
        return Loss::focal(gamma, alpha, {.from_logits = from_logits});
      },
      nb::arg("alpha") = 0.25, nb::arg("gamma") = 2.0, nb::arg("from_logits") = true,
      "Cross-entropy that learns from what is hard.");
  losses.def(
      "BinaryFocalCrossentropy",
      [](double gamma, std::optional<double> alpha, bool from_logits) {
        return Loss::binary_focal(gamma, alpha, {.from_logits = from_logits});
      },
      nb::arg("gamma") = 2.0, nb::arg("alpha") = nb::none(), nb::arg("from_logits") = true,
      "The same against probabilities; alpha is the share of the positive ones.");
  losses.def("Dice", &Loss::dice, "Of probabilities, over all of the batch.");
  losses.def("Tversky", &Loss::tversky, nb::arg("alpha") = 0.5, nb::arg("beta") = 0.5,
             "The same; alpha weighs what was missed and beta what was said in vain.");
  losses.def("CategoricalHinge", &Loss::categorical_hinge, "max(largest wrong - right + 1, 0).");
  losses.def("MeanAbsolutePercentageError", &Loss::mape, "Percents of y_true.");
  losses.def("MeanSquaredLogarithmicError", &Loss::msle, "The mean of (log(1 + y_true) - log(1 + y_pred))^2.");
  losses.def("MeanSquaredError", &Loss::mse, "The mean of (y_true - y_pred)^2.");
  losses.def("MeanAbsoluteError", &Loss::mae, "The mean of |y_true - y_pred|.");
  losses.def("Huber", &Loss::huber, nb::arg("delta") = 1.0, "Quadratic up to delta, linear beyond.");
  losses.def("LogCosh", &Loss::log_cosh, "The mean of log(cosh(y_pred - y_true)).");
  losses.def("Hinge", &Loss::hinge, "max(1 - y_true y_pred, 0); targets -1 and 1, or 0 and 1.");
  losses.def("SquaredHinge", &Loss::squared_hinge, "The same, squared.");
  losses.def("Poisson", &Loss::poisson, "y_pred - y_true log(y_pred).");
  losses.def("KLDivergence", &Loss::kl_divergence, "y_true log(y_true / y_pred).");
  losses.def("CosineSimilarity", &Loss::cosine_similarity, "-1: the same direction.");
  losses.def("names", &Loss::names, "The names that compile takes.");

  nb::class_<Metric>(module, "Metric", "A sum over samples that training and evaluation report.")
      .def(
          "__init__",
          [](Metric* made, nb::handle metric) {
            new (made) Metric(metric_of(metric, {"Metric", "metric"}));
          },
          nb::arg("metric"), nb::sig("def __init__(self, metric: str | Callable[[Tensor, Tensor], Tensor]) -> None"))
      .def_ro("name", &Metric::name, "Its name in logs.")
      .def("of", &Metric::of, nb::arg("output"), "The same for one output of several.")
      .def("__repr__", [](const Metric& metric) { return "Metric('" + metric.name + "')"; });
  nb::module_ metrics = module.def_submodule("metrics", "Metrics: right over a whole epoch, whatever its batches.");
  metrics.def("Accuracy", &Metric::accuracy, "Class numbers, probabilities, or one probability against 0.5.");
  metrics.def("TopKCategoricalAccuracy", &Metric::top_k, nb::arg("k") = 5,
              "The right class is among the k largest outputs.");
  metrics.def("Precision", &Metric::precision, nb::arg("threshold") = 0.5,
              "Of what is predicted positive, how much is.");
  metrics.def("Recall", &Metric::recall, nb::arg("threshold") = 0.5, "Of what is positive, how much is predicted so.");
  metrics.def("AUC", &Metric::auc, nb::arg("num_thresholds") = 200, "Area under the ROC curve.");
  metrics.def("F1Score", &Metric::f1, nb::arg("threshold") = 0.5, "The harmonic mean of precision and recall.");
  metrics.def("FBetaScore", &Metric::f_beta, nb::arg("beta"), nb::arg("threshold") = 0.5,
              "The same; recall counts beta times as much.");
  metrics.def("PrecisionAtRecall", &Metric::precision_at_recall, nb::arg("recall"), nb::arg("num_thresholds") = 200,
              "The best precision at a threshold with at least that recall.");
  metrics.def("RecallAtPrecision", &Metric::recall_at_precision, nb::arg("precision"), nb::arg("num_thresholds") = 200,
              "The best recall at a threshold with at least that precision.");
  metrics.def("MeanIoU", &Metric::mean_iou, nb::arg("num_classes"), "The mean of what classes and answers share.");
  metrics.def("RootMeanSquaredError", &Metric::rmse, "The root of the mean of (y_true - y_pred)^2.");
  metrics.def("R2Score", &Metric::r2, "The share of the variance of y_true that is explained.");
  metrics.def("PearsonCorrelation", &Metric::pearson, "The correlation of numbers.");
  metrics.def("CosineSimilarity", &Metric::cosine, "Of the directions of vectors.");
  metrics.def("Perplexity", &Metric::perplexity, "exp(mean cross-entropy) of logits against class numbers.");
  metrics.def("names", &Metric::names, "The names that compile takes.");
  metrics.def("MeanSquaredError", &Metric::mse, "The mean of (y_true - y_pred)^2.");
  metrics.def("MeanAbsoluteError", &Metric::mae, "The mean of |y_true - y_pred|.");
  metrics.def("Mean", &Metric::mean, nb::arg("name") = "mean", "The mean of the output itself.");
}

}  // namespace plimsoll::python

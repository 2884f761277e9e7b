#include <plimsoll/model.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
#include "base/nearest.h"
#include "model/shapes.h"

namespace plimsoll {
namespace {

constexpr double kTiny = 1e-7;  // Keras' epsilon

struct NamedLoss {
  std::string_view name;
  std::vector<std::string_view> aliases;
  Loss (*make)();
};

const std::vector<NamedLoss>& known_losses() {
  static const std::vector<NamedLoss> kLosses{
      {"sparse_cross_entropy", {"sparse_categorical_crossentropy"}, [] { return Loss::sparse_cross_entropy(); }},
      {"cross_entropy", {"categorical_crossentropy"}, [] { return Loss::cross_entropy(); }},
      {"binary_cross_entropy",
       {"binary_crossentropy", "bce", "binary_cross_entropy_with_logits"},
       [] { return Loss::binary_cross_entropy(); }},
      {"mse", {"mean_squared_error", "mse_loss"}, [] { return Loss::mse(); }},
      {"mae", {"mean_absolute_error", "l1_loss", "l1"}, [] { return Loss::mae(); }},
      {"huber", {"huber_loss"}, [] { return Loss::huber(); }},
      {"log_cosh", {"logcosh"}, [] { return Loss::log_cosh(); }},
      {"hinge", {}, [] { return Loss::hinge(); }},
      {"squared_hinge", {}, [] { return Loss::squared_hinge(); }},
      {"poisson", {}, [] { return Loss::poisson(); }},
      {"kl_divergence", {"kld", "kl_div", "kullback_leibler_divergence"}, [] { return Loss::kl_divergence(); }},
      {"cosine_similarity", {"cosine"}, [] { return Loss::cosine_similarity(); }},
      {"nll", {"nll_loss", "negative_log_likelihood"}, [] { return Loss::nll(); }},
      {"binary_focal", {"binary_focal_crossentropy"}, [] { return Loss::binary_focal(); }},
      {"focal", {"categorical_focal_crossentropy"}, [] { return Loss::focal(); }},
      {"dice", {}, [] { return Loss::dice(); }},
      {"tversky", {}, [] { return Loss::tversky(); }},
      {"mape", {"mean_absolute_percentage_error"}, [] { return Loss::mape(); }},
      {"msle", {"mean_squared_logarithmic_error"}, [] { return Loss::msle(); }},
      {"smooth_l1", {"smooth_l1_loss"}, [] { return Loss::smooth_l1(); }},
      {"categorical_hinge", {}, [] { return Loss::categorical_hinge(); }},
      {"soft_margin", {}, [] { return Loss::soft_margin(); }},
      {"poisson_nll", {"poisson_nll_loss"}, [] { return Loss::poisson_nll(); }},
      {"generalized_cross_entropy",
       {"categorical_generalized_cross_entropy"},
       [] { return Loss::generalized_cross_entropy(); }},
      {"contrastive", {}, [] { return Loss::contrastive(); }},
  };
  return kLosses;
}

// Labels 0 and 1 become -1 and 1; labels -1 and 1 stay.
Tensor signs(Tensor labels) { return labels - cast(equal(labels, labels.graph().scalar(0)), DType::F32); }

Tensor unit_vectors(Tensor x) {
  const Tensor squares = reduce_sum(x * x, {-1}, true);
  return x * rsqrt(maximum(squares, x.graph().scalar(1e-12F)));
}

Tensor smooth(Tensor probabilities, double by, double share) {
  return by > 0 ? scale(probabilities, 1 - by, by * share) : probabilities;
}

void expect_smoothing(double by) {
  if (by >= 0 && by < 1) return;
  throw Error(fmt::format("a label smoothing of {} makes no sense; give a number of at least 0 and below 1", by),
              ErrorKind::Usage);
}

double share_of_class(Tensor logits) { return 1 / static_cast<double>(logits.dim(-1).count()); }

}  // namespace

Loss Loss::sparse_cross_entropy() {
  Loss loss("sparse_cross_entropy", [](Tensor logits, Tensor labels) {
    const Tensor chosen = one_hot(labels, logits.dim(-1).fixed()) * log_softmax(logits);
    return -reduce_sum(chosen, {-1});
  });
  loss.mean_ = [](Tensor logits, Tensor labels) { return plimsoll::sparse_cross_entropy(logits, labels, "loss"); };
  loss.takes_classes_ = true;
  return loss;
}

Loss Loss::cross_entropy(double label_smoothing) {
  expect_smoothing(label_smoothing);
  Loss loss("cross_entropy", [label_smoothing](Tensor logits, Tensor targets) {
    const Tensor smoothed = smooth(targets, label_smoothing, share_of_class(logits));
    return -reduce_sum(smoothed * log_softmax(logits), {-1});
  });
  loss.mean_ = [label_smoothing](Tensor logits, Tensor targets) {
    return plimsoll::cross_entropy(logits, smooth(targets, label_smoothing, share_of_class(logits)), "loss");
  };
  return loss;
}

Loss Loss::binary_cross_entropy(double label_smoothing) {
  expect_smoothing(label_smoothing);
  Loss loss("binary_cross_entropy", [label_smoothing](Tensor x, Tensor targets) {
    // max(x, 0) - x y + log(1 + exp(-|x|)): no exponent overflows.
    return relu(x) - x * smooth(targets, label_smoothing, 0.5) + log(exp(-abs(x)) + 1);
  });
  loss.mean_ = [label_smoothing](Tensor logits, Tensor targets) {
    return plimsoll::binary_cross_entropy(logits, smooth(targets, label_smoothing, 0.5), "loss");
  };
  loss.is_binary_ = true;
  return loss;
}

Loss Loss::mse() {
  Loss loss("mse", [](Tensor output, Tensor target) {
    const Tensor error = output - target;
    return error * error;
  });
  loss.mean_ = [](Tensor output, Tensor target) { return mean_squared_error(output, target, "loss"); };
  return loss;
}

Loss Loss::mae() {
  Loss loss("mae", [](Tensor output, Tensor target) { return abs(output - target); });
  loss.mean_ = [](Tensor output, Tensor target) { return mean_absolute_error(output, target, "loss"); };
  return loss;
}

Loss Loss::huber(double delta) {
  if (!(delta > 0)) throw Error(fmt::format("huber: a delta of {} makes no sense; give a positive number", delta));
  Loss loss("huber", [delta](Tensor output, Tensor target) {
    const Tensor error = abs(output - target);
    const Tensor near = clip(error, 0, delta);
    return near * (error - 0.5 * near);
  });
  loss.mean_ = [delta](Tensor output, Tensor target) { return plimsoll::huber(output, target, delta, "loss"); };
  return loss;
}

Loss Loss::log_cosh() {
  return {"log_cosh", [](Tensor output, Tensor target) {
            const Tensor error = abs(output - target);
            return error + log(exp(-2 * error) + 1) - std::log(2.0);
          }};
}

Loss Loss::hinge() {
  return {"hinge", [](Tensor output, Tensor target) { return relu(1 - signs(target) * output); }};
}

Loss Loss::squared_hinge() {
  return {"squared_hinge", [](Tensor output, Tensor target) {
            const Tensor error = relu(1 - signs(target) * output);
            return error * error;
          }};
}

Loss Loss::poisson() {
  return {"poisson", [](Tensor output, Tensor target) { return output - target * log(output + kTiny); }};
}

Loss Loss::kl_divergence() {
  return {"kl_divergence", [](Tensor output, Tensor target) {
            const Tensor is = clip(target, kTiny, 1), guess = clip(output, kTiny, 1);
            return reduce_sum(is * log(is / guess), {-1});
          }};
}

Loss Loss::cosine_similarity() {
  return {"cosine_similarity",
          [](Tensor output, Tensor target) { return -reduce_sum(unit_vectors(target) * unit_vectors(output), {-1}); }};
}

namespace {

// Probabilities that a logarithm can take.
Tensor inner(Tensor probabilities) { return clip(probabilities, kTiny, 1 - kTiny); }

// log(p) of each class, from logits or from probabilities, which are divided by their sum as in Keras.
Tensor log_of_classes(Tensor output, bool from_logits) {
  if (from_logits) return log_softmax(output);
  return log(inner(output / reduce_sum(output, {-1}, true)));
}

Tensor of_class(Tensor values, Tensor labels) {
  return reduce_sum(one_hot(labels, values.dim(-1).fixed()) * values, {-1});
}

void expect_positive_number(double number, std::string_view loss, std::string_view what) {
  if (number > 0) return;
  throw Error(fmt::format("{}: {} of {} makes no sense; give a positive number", loss, what, number), ErrorKind::Usage);
}

}  // namespace

Loss Loss::against_classes(std::string name, std::optional<int64_t> ignore, Function values) {
  Loss loss(std::move(name), std::move(values));
  loss.takes_classes_ = true;
  loss.ignore_ = ignore;
  return loss;
}

Loss Loss::sparse_cross_entropy(const ClassOptions& options) {
  if (options.from_logits && options.label_smoothing == 0 && !options.ignore) return sparse_cross_entropy();
  expect_smoothing(options.label_smoothing);
  return against_classes("sparse_cross_entropy", options.ignore, [options](Tensor output, Tensor labels) {
    const Tensor logs = log_of_classes(output, options.from_logits);
    const Tensor chosen = -of_class(logs, labels);
    if (options.label_smoothing == 0) return chosen;
    return chosen * (1 - options.label_smoothing) - reduce_mean(logs, {-1}) * options.label_smoothing;
  });
}

Loss Loss::cross_entropy(const ClassOptions& options) {
  if (options.ignore) throw Error("cross_entropy: probabilities have no class number to ignore", ErrorKind::Usage);
  if (options.from_logits) return cross_entropy(options.label_smoothing);
  expect_smoothing(options.label_smoothing);
  Loss loss("cross_entropy", [by = options.label_smoothing](Tensor output, Tensor targets) {
    return -reduce_sum(smooth(targets, by, share_of_class(output)) * log_of_classes(output, false), {-1});
  });
  return loss;
}

Loss Loss::binary_cross_entropy(const ClassOptions& options) {
  if (options.ignore) throw Error("binary_cross_entropy: there is no class number to ignore", ErrorKind::Usage);
  if (options.from_logits) return binary_cross_entropy(options.label_smoothing);
  expect_smoothing(options.label_smoothing);
  return {"binary_cross_entropy", [by = options.label_smoothing](Tensor output, Tensor targets) {
            const Tensor p = inner(output), y = smooth(targets, by, 0.5);
            return -(y * log(p) + (1 - y) * log(1 - p));
          }};
}

Loss Loss::nll(std::optional<int64_t> ignore) {
  return against_classes("nll", ignore, [](Tensor logs, Tensor labels) { return -of_class(logs, labels); });
}

Loss Loss::binary_focal(double gamma, std::optional<double> alpha, const ClassOptions& options) {
  expect_smoothing(options.label_smoothing);
  Loss loss("binary_focal", [=](Tensor output, Tensor targets) {
    const Tensor y = smooth(targets, options.label_smoothing, 0.5);
    const Tensor p = inner(options.from_logits ? sigmoid(output) : output);
    const Tensor right = y * p + (1 - y) * (1 - p);
    Tensor factor = pow(1 - right, right.graph().scalar(static_cast<float>(gamma)));
    if (alpha) factor = factor * (y * *alpha + (1 - y) * (1 - *alpha));
    return -factor * (y * log(p) + (1 - y) * log(1 - p));
  });
  loss.is_binary_ = options.from_logits;
  return loss;
}

Loss Loss::focal(double gamma, double alpha, const ClassOptions& options) {
  expect_smoothing(options.label_smoothing);
  return {"focal", [=](Tensor output, Tensor targets) {
            const Tensor y = smooth(targets, options.label_smoothing, share_of_class(output));
            const Tensor p = inner(options.from_logits ? softmax(output) : output / reduce_sum(output, {-1}, true));
            const Tensor factor = pow(1 - p, p.graph().scalar(static_cast<float>(gamma)));
            return -reduce_sum(factor * y * log(p), {-1}) * alpha;
          }};
}

Loss Loss::dice() {
  return {"dice", [](Tensor output, Tensor target) {
            const Tensor both = reduce_sum(output * target), all = reduce_sum(output) + reduce_sum(target);
            return 1 - (2 * both + kTiny) / (all + kTiny);
          }};
}

Loss Loss::tversky(double alpha, double beta) {
  return {"tversky", [=](Tensor output, Tensor target) {
            const Tensor both = reduce_sum(output * target);
            const Tensor only_said = reduce_sum((1 - target) * output), only_is = reduce_sum((1 - output) * target);
            return 1 - both / (both + alpha * only_is + beta * only_said + kTiny);
          }};
}

Loss Loss::mape() {
  return {"mape", [](Tensor output, Tensor target) {
            return 100 *
                   abs((target - output) / maximum(abs(target), target.graph().scalar(static_cast<float>(kTiny))));
          }};
}

Loss Loss::msle() {
  return {"msle", [](Tensor output, Tensor target) {
            const auto logarithm = [](Tensor x) {
              return log(maximum(x, x.graph().scalar(static_cast<float>(kTiny))) + 1);
            };
            return square(logarithm(target) - logarithm(output));
          }};
}

Loss Loss::smooth_l1(double beta) {
  expect_positive_number(beta, "smooth_l1", "a beta");
  return {"smooth_l1", [beta](Tensor output, Tensor target) {
            const Tensor error = abs(output - target), near = clip(error, 0, beta);
            return near * (error - 0.5 * near) / beta;
          }};
}

Loss Loss::categorical_hinge() {
  return {"categorical_hinge", [](Tensor output, Tensor target) {
            const Tensor right = reduce_sum(target * output, {-1}), other = reduce_max((1 - target) * output, {-1});
            return relu(other - right + 1);
          }};
}

Loss Loss::soft_margin() {
  return {"soft_margin", [](Tensor output, Tensor target) { return softplus(-(signs(target) * output)); }};
}

Loss Loss::poisson_nll(bool log_output) {
  return {"poisson_nll", [log_output](Tensor output, Tensor target) {
            return log_output ? exp(output) - target * output : output - target * log(output + 1e-8);
          }};
}

Loss Loss::generalized_cross_entropy(double q) {
  if (!(q > 0 && q < 1))
    throw Error(fmt::format("generalized_cross_entropy: a q of {} makes no sense; give one between 0 and 1", q),
                ErrorKind::Usage);
  return {"generalized_cross_entropy", [q](Tensor output, Tensor target) {
            const Tensor right = reduce_sum(inner(output) * target, {-1});
            return (1 - pow(right, right.graph().scalar(static_cast<float>(q)))) / q;
          }};
}

Loss Loss::contrastive(double margin) {
  expect_positive_number(margin, "contrastive", "a margin");
  return {"contrastive", [margin](Tensor distance, Tensor alike) {
            return alike * square(distance) + (1 - alike) * square(relu(margin - distance));
          }};
}

Tensor triplet_loss(Tensor anchor, Tensor positive, Tensor negative, double margin, bool squared) {
  const auto distance = [&](Tensor to) {
    const Tensor squares = reduce_sum(square(anchor - to), {-1});
    return squared ? squares : sqrt(squares + 1e-12);
  };
  return relu(distance(positive) - distance(negative) + margin);
}

Tensor margin_ranking_loss(Tensor a, Tensor b, Tensor target, double margin) {
  return relu(model::as_floats(target) * (b - a) + margin);
}

Tensor cosine_embedding_loss(Tensor a, Tensor b, Tensor target, double margin) {
  const Tensor cosine = reduce_sum(unit_vectors(a) * unit_vectors(b), {-1});
  return where(greater(model::as_floats(target), a.graph().scalar(0)), 1 - cosine, relu(cosine - margin));
}

Tensor gaussian_nll_loss(Tensor x, Tensor target, Tensor variance, double epsilon) {
  const Tensor v = maximum(variance, x.graph().scalar(static_cast<float>(epsilon)));
  return 0.5 * (log(v) + square(x - target) / v);
}

std::vector<std::string> Loss::names() {
  std::vector<std::string> names;
  for (const NamedLoss& loss : known_losses()) names.emplace_back(loss.name);
  return names;
}

namespace {

const NamedLoss* find_loss(std::string_view name) {
  const auto is = [&](std::string_view known) { return plain_name(known) == plain_name(name); };
  for (const NamedLoss& loss : known_losses())
    if (is(loss.name) || std::ranges::any_of(loss.aliases, is)) return &loss;
  return nullptr;
}

}  // namespace

bool Loss::knows(std::string_view name) { return find_loss(name) != nullptr; }

Loss::Loss(std::string_view name) {
  if (const NamedLoss* const known = find_loss(name)) {
    *this = known->make();
    return;
  }
  throw Error(fmt::format("there is no loss '{}'; known are {}, or give a function of output and target", name,
                          fmt::join(names(), ", ")),
              ErrorKind::Usage);
}

Tensor Loss::target_for(Tensor output, Tensor target) const {
  if (is_own_) return target;
  const auto refuse = [&](std::string_view wanted) {
    throw Error(fmt::format("loss '{}': the output is {} but the target is {}; {}", name_, to_string(output.type()),
                            to_string(target.type()), wanted),
                ErrorKind::Usage);
  };
  if (!takes_classes_) {
    if (!model::same_elements(output.shape(), target.shape()))
      refuse("give a target of the same shape, or sparse_cross_entropy for class numbers");
    return model::as_shape(model::as_floats(target), output.shape());
  }
  Shape rows = output.shape();
  if (rows.rank() < 2) refuse("give one output for each class");
  rows.erase(rows.rank() - 1);
  if (!model::same_elements(rows, target.shape())) refuse("give one class number for each row of the output");
  if (is_float(target.dtype())) refuse("class numbers are whole numbers: i32, i64 or u8");
  return model::as_shape(target.dtype() == DType::I32 ? target : cast(target, DType::I32), rows);
}

// Zero for labels that count for nothing, whatever their number.
Loss::Scored Loss::score(Tensor output, Tensor target) const {
  const Tensor answer = is_own_ ? output : model::as_floats(output);
  const Tensor wanted = target_for(answer, target);
  if (!ignore_) return {values_(answer, wanted), {}};
  const Tensor ignored = cast(answer.graph().scalar(static_cast<float>(*ignore_)), DType::I32);
  const Tensor counts = cast(not_equal(wanted, ignored), DType::F32);
  const Tensor first = cast(answer.graph().scalar(0), DType::I32);  // a class that is there
  return {values_(answer, where(equal(wanted, ignored), first, wanted)) * counts, counts};
}

Tensor Loss::values(Tensor output, Tensor target) const { return score(output, target).values; }

Tensor Loss::mean(Tensor output, Tensor target, Tensor weights) const {
  if (!weights.is_set() && mean_) {
    const Tensor answer = is_own_ ? output : model::as_floats(output);
    return mean_(answer, target_for(answer, target));
  }
  const auto [values, counts] = score(output, target);
  const auto average = [&](Tensor of) {
    if (!counts.is_set()) return reduce_mean(of);
    return reduce_sum(of) / maximum(reduce_sum(counts), counts.graph().scalar(1));
  };
  if (!weights.is_set()) return values.rank() == 0 ? values : average(values);
  if (values.rank() == 0)
    throw Error(fmt::format("{}: it gives one number for the batch, so samples can't be weighed; give one for each "
                            "sample",
                            name_),
                ErrorKind::Usage);
  const Tensor by = model::as_floats(weights);
  if (model::same_elements(weights.shape(), values.shape()))
    return average(values * model::as_shape(by, values.shape()));
  Shape one_each{values.dim(0)};
  for (int i = 1; i < values.rank(); ++i) one_each.push_back(1);
  if (!model::same_elements(weights.shape(), one_each))
    throw Error(
        fmt::format("{}: the weights are {} but the losses {}; give one for each sample, or one for each of them",
                    name_, to_string(weights.type()), to_string(values.type())),
        ErrorKind::Usage);
  return average(values * model::as_shape(by, one_each));
}

Tensor Loss::prediction(Tensor output) const {
  return is_binary_ ? sigmoid(model::as_floats(output)) : model::as_floats(output);
}

}  // namespace plimsoll

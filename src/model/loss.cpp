#include <plimsoll/model.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
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
      {"binary_cross_entropy", {"binary_crossentropy", "bce"}, [] { return Loss::binary_cross_entropy(); }},
      {"mse", {"mean_squared_error"}, [] { return Loss::mse(); }},
      {"mae", {"mean_absolute_error"}, [] { return Loss::mae(); }},
      {"huber", {"huber_loss"}, [] { return Loss::huber(); }},
      {"log_cosh", {"logcosh"}, [] { return Loss::log_cosh(); }},
      {"hinge", {}, [] { return Loss::hinge(); }},
      {"squared_hinge", {}, [] { return Loss::squared_hinge(); }},
      {"poisson", {}, [] { return Loss::poisson(); }},
      {"kl_divergence", {"kld", "kullback_leibler_divergence"}, [] { return Loss::kl_divergence(); }},
      {"cosine_similarity", {}, [] { return Loss::cosine_similarity(); }},
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

std::vector<std::string> Loss::names() {
  std::vector<std::string> names;
  for (const NamedLoss& loss : known_losses()) names.emplace_back(loss.name);
  return names;
}

Loss::Loss(std::string_view name) {
  for (const NamedLoss& loss : known_losses())
    if (loss.name == name || std::find(loss.aliases.begin(), loss.aliases.end(), name) != loss.aliases.end()) {
      *this = loss.make();
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

Tensor Loss::mean(Tensor output, Tensor target, Tensor weights) const {
  const Tensor answer = is_own_ ? output : model::as_floats(output);
  const Tensor wanted = target_for(answer, target);
  if (!weights.is_set() && mean_) return mean_(answer, wanted);
  const Tensor values = values_(answer, wanted);
  if (!weights.is_set()) return values.rank() == 0 ? values : reduce_mean(values);
  if (values.rank() == 0)
    throw Error(fmt::format("{}: it gives one number for the batch, so samples can't be weighed; give one for each "
                            "sample",
                            name_),
                ErrorKind::Usage);
  Shape one_each{Dim::batch()};
  for (int i = 1; i < values.rank(); ++i) one_each.push_back(1);
  return reduce_mean(values * model::as_shape(model::as_floats(weights), one_each));
}

Tensor Loss::prediction(Tensor output) const {
  return is_binary_ ? sigmoid(model::as_floats(output)) : model::as_floats(output);
}

}  // namespace plimsoll

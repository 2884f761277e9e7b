#include "autodiff/updates.h"

#include <cmath>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::autodiff {
namespace {

[[noreturn]] void refuse_setting(const std::string& what) { throw Error("optimiser: " + what, ErrorKind::Usage); }

void expect(bool holds, std::string_view setting, std::string_view what, double value) {
  if (!holds) refuse_setting(fmt::format("{} must be {} but is {}", setting, what, value));
}

void check_state_bits(const Optimiser& o) {
  if (o.state_bits != 32 && o.state_bits != 16 && o.state_bits != 8)
    refuse_setting(fmt::format("state_bits must be 32, 16 or 8 but is {}", o.state_bits));
  const bool has_state = o.kind != Optimiser::Kind::Sgd || o.momentum != 0;
  if (o.state_bits == 8 && has_state && o.kind != Optimiser::Kind::Adam)
    refuse_setting("only adam keeps its state in 8 bits; set state_bits = 16, or take adam");
  if (o.state_bits != 32 && o.kind == Optimiser::Kind::Adafactor)
    refuse_setting("adafactor keeps its state, which is small, in 32 bits; set state_bits = 32");
}

}  // namespace

void check(const Optimiser& o) {
  const auto at_least_zero = [](std::string_view setting, double value) {
    expect(std::isfinite(value) && value >= 0, setting, "zero or more", value);
  };
  const auto positive = [](std::string_view setting, double value) {
    expect(std::isfinite(value) && value > 0, setting, "positive", value);
  };
  const auto below_one = [](std::string_view setting, double value) {
    expect(value >= 0 && value < 1, setting, "at least 0 and below 1", value);
  };
  at_least_zero("learning_rate", o.learning_rate);
  at_least_zero("weight_decay", o.weight_decay);
  at_least_zero("clip_norm", o.clip_norm);
  at_least_zero("clip_value", o.clip_value);
  at_least_zero("global_clip_norm", o.global_clip_norm);
  below_one("momentum", o.momentum);
  below_one("beta1", o.beta1);
  below_one("beta2", o.beta2);
  below_one("rho", o.rho);
  positive("epsilon", o.epsilon);
  positive("epsilon1", o.epsilon1);
  positive("epsilon2", o.epsilon2);
  positive("clip_threshold", o.clip_threshold);
  expect(std::isfinite(o.beta2_decay) && o.beta2_decay < 0, "beta2_decay", "negative", o.beta2_decay);
  expect(std::isnormal(static_cast<float>(o.initial_loss_scale)) && o.initial_loss_scale > 0, "initial_loss_scale",
         "a positive float", o.initial_loss_scale);
  expect(o.scale_growth_steps > 0, "scale_growth_steps", "positive", static_cast<double>(o.scale_growth_steps));
  const int clips = (o.clip_norm != 0) + (o.clip_value != 0) + (o.global_clip_norm != 0);
  if (clips > 1) refuse_setting("set at most one of clip_norm, clip_value and global_clip_norm");
  if (o.epsilon_after_correction && o.kind != Optimiser::Kind::Adam)
    refuse_setting("epsilon_after_correction is a setting of adam alone");
  if (o.momentum != 0 && o.kind != Optimiser::Kind::Sgd && o.kind != Optimiser::Kind::RmsProp)
    refuse_setting("momentum is a setting of sgd and rmsprop alone");
  if (o.nesterov && o.kind != Optimiser::Kind::Sgd) refuse_setting("nesterov is a setting of sgd alone");
  if (o.nesterov && o.momentum == 0) refuse_setting("nesterov needs a momentum; set momentum = 0.9");
  check_state_bits(o);
}

}  // namespace plimsoll::autodiff

namespace plimsoll {

Optimiser Optimiser::sgd(double learning_rate, double momentum, bool nesterov) {
  return {.kind = Kind::Sgd, .learning_rate = learning_rate, .momentum = momentum, .nesterov = nesterov};
}

Optimiser Optimiser::adam(double learning_rate, double beta1, double beta2, double epsilon) {
  return {.kind = Kind::Adam, .learning_rate = learning_rate, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
}

Optimiser Optimiser::adamw(double learning_rate, double weight_decay) {
  return {.kind = Kind::Adam, .learning_rate = learning_rate, .weight_decay = weight_decay};
}

Optimiser Optimiser::rmsprop(double learning_rate, double rho, double momentum, bool centered) {
  return {
      .kind = Kind::RmsProp, .learning_rate = learning_rate, .momentum = momentum, .rho = rho, .centered = centered};
}

Optimiser Optimiser::lion(double learning_rate, double beta1, double beta2) {
  return {.kind = Kind::Lion, .learning_rate = learning_rate, .beta1 = beta1, .beta2 = beta2};
}

Optimiser Optimiser::adafactor(double learning_rate) {
  return {.kind = Kind::Adafactor, .learning_rate = learning_rate};
}

}  // namespace plimsoll

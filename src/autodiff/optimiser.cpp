#include "autodiff/updates.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "base/nearest.h"
#include "ops/updates/rule.h"

namespace plimsoll::autodiff {
namespace {

[[noreturn]] void refuse_setting(const std::string& what) { throw Error("optimiser: " + what, ErrorKind::Usage); }

void expect(bool holds, std::string_view setting, std::string_view what, double value) {
  if (!holds) refuse_setting(fmt::format("{} must be {} but is {}", setting, what, value));
}

void check_state_bits(const Optimiser& o) {
  if (o.state_bits != 32 && o.state_bits != 16 && o.state_bits != 8)
    refuse_setting(fmt::format("state_bits must be 32, 16 or 8 but is {}", o.state_bits));
  const ops::OptimiserRule& rule = rule_of(o);
  if (o.state_bits != 32 && !rule.whole_state.empty())
    refuse_setting(
        fmt::format("{} keeps its state in 32 bits: it {}; set state_bits = 32", rule.name, rule.whole_state));
  if (o.state_bits != 8 || !o.keeps_state() || rule.has_byte_state) return;
  std::vector<std::string_view> able;
  for (const ops::OptimiserRule* each : ops::all_rules())
    if (each->has_byte_state) able.push_back(each->name);
  refuse_setting(fmt::format("only {} keeps its state in 8 bits; set state_bits = 16, or take {}",
                             fmt::join(able, " and "), fmt::join(able, " or ")));
}

}  // namespace

const ops::OptimiserRule& rule_of(const Optimiser& optimiser) {
  for (const ops::OptimiserRule* rule : ops::all_rules())
    if (rule->name == optimiser.name()) return *rule;
  throw Error(fmt::format("there is no optimiser '{}'", optimiser.name()));
}

void check(const Optimiser& o) {
  const auto at_least_zero = [](std::string_view setting, double value) {
    expect(std::isfinite(value) && value >= 0, setting, "zero or more", value);
  };
  at_least_zero("learning_rate", o.learning_rate);
  at_least_zero("weight_decay", o.weight_decay);
  at_least_zero("clip_norm", o.clip_norm);
  at_least_zero("clip_value", o.clip_value);
  at_least_zero("global_clip_norm", o.global_clip_norm);
  expect(o.average >= 0 && o.average < 1, "average", "at least 0 and below 1", o.average);
  for (const WeightGroup& group : o.groups) {
    at_least_zero("rate_factor", group.rate_factor);
    if (group.weight_decay) at_least_zero("weight_decay", *group.weight_decay);
    if (group.patterns.empty()) refuse_setting("a group has no patterns; say which weights belong to it");
  }
  expect(std::isnormal(static_cast<float>(o.initial_loss_scale)) && o.initial_loss_scale > 0, "initial_loss_scale",
         "a positive float", o.initial_loss_scale);
  expect(o.scale_growth_steps > 0, "scale_growth_steps", "positive", static_cast<double>(o.scale_growth_steps));
  const int clips = (o.clip_norm != 0) + (o.clip_value != 0) + (o.global_clip_norm != 0);
  if (clips > 1) refuse_setting("set at most one of clip_norm, clip_value and global_clip_norm");
  check_state_bits(o);
  if (const ops::OptimiserRule& rule = rule_of(o); rule.check != nullptr)
    rule.check(ops::RuleSettings(o.name(), o.settings()));
}

}  // namespace plimsoll::autodiff

namespace plimsoll {
namespace {

using Setting = std::pair<std::string_view, double>;

// Settings that every optimiser has.
struct CommonSetting {
  std::string_view name;
  double Optimiser::*value;
};
constexpr CommonSetting kCommon[] = {{"learning_rate", &Optimiser::learning_rate},
                                     {"weight_decay", &Optimiser::weight_decay},
                                     {"clip_norm", &Optimiser::clip_norm},
                                     {"clip_value", &Optimiser::clip_value},
                                     {"global_clip_norm", &Optimiser::global_clip_norm},
                                     {"average", &Optimiser::average},
                                     {"initial_loss_scale", &Optimiser::initial_loss_scale}};

double Optimiser::*common_setting(std::string_view name) {
  for (const CommonSetting& common : kCommon)
    if (common.name == name) return common.value;
  return nullptr;
}

#define PLIMSOLL_DEFAULT(type, setting, value) \
  Setting { #setting, value }

// What an optimiser of the list has of its own.
std::vector<Setting> defaults_of(std::string_view name) {
  std::vector<Setting> all;
#define OPTIMISER(optimiser, description, ...) \
  if (name == #optimiser) all = {PLIMSOLL_EACH(PLIMSOLL_DEFAULT, __VA_ARGS__)};
#define VARIANT(base, optimiser, description, ...)
#include <plimsoll/optimisers.inc>
#undef OPTIMISER
#undef VARIANT
  std::erase_if(all, [](const Setting& setting) { return common_setting(setting.first) != nullptr; });
  return all;
}

#undef PLIMSOLL_DEFAULT

// "momentum is a setting of sgd and rmsprop alone".
std::string describe_unknown(std::string_view optimiser, std::string_view setting, std::span<const Setting> own) {
  std::vector<std::string_view> others, names;
  for (const ops::OptimiserRule* rule : ops::all_rules())
    for (const Setting& each : defaults_of(rule->name))
      if (each.first == setting) others.push_back(rule->name);
  if (others.size() == 1) return fmt::format("{} is a setting of {} alone", setting, others[0]);
  if (!others.empty()) {
    const std::string_view last = others.back();
    others.pop_back();
    return fmt::format("{} is a setting of {} and {} alone", setting, fmt::join(others, ", "), last);
  }
  for (const Setting& each : own) names.push_back(each.first);
  for (const CommonSetting& common : kCommon) names.push_back(common.name);
  return fmt::format("{} has no setting '{}'; it has {}", optimiser, setting, fmt::join(names, ", "));
}

}  // namespace

#define PLIMSOLL_PARAMETER(type, setting, value) type setting
#define PLIMSOLL_GIVEN(type, setting, value) \
  Setting { #setting, static_cast < double>(setting) }
#define OPTIMISER(optimiser, description, ...)                                            \
  Optimiser Optimiser::optimiser(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__)) {        \
    return make(#optimiser, std::vector{PLIMSOLL_EACH(PLIMSOLL_GIVEN, __VA_ARGS__)});     \
  }                                                                                       \
  Optimiser Optimiser::optimiser(double learning_rate, const OptimiserOptions& options) { \
    return std::move(Optimiser::optimiser(learning_rate).set(options));                   \
  }
#define VARIANT(base, optimiser, description, ...)                                        \
  Optimiser Optimiser::optimiser(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__)) {        \
    return make(#base, std::vector{PLIMSOLL_EACH(PLIMSOLL_GIVEN, __VA_ARGS__)});          \
  }                                                                                       \
  Optimiser Optimiser::optimiser(double learning_rate, const OptimiserOptions& options) { \
    return std::move(Optimiser::optimiser(learning_rate).set(options));                   \
  }
#include <plimsoll/optimisers.inc>
#undef PLIMSOLL_PARAMETER
#undef PLIMSOLL_GIVEN
#undef OPTIMISER
#undef VARIANT

Optimiser Optimiser::make(std::string_view base, std::span<const Setting> settings) {
  Optimiser made(base);
  made.settings_ = defaults_of(base);
  for (const auto& [name, value] : settings) made.set(name, value);
  return made;
}

Optimiser& Optimiser::set(const OptimiserOptions& options) {
  if (options.weight_decay) weight_decay = *options.weight_decay;
  couples_decay = options.couples_decay;
  no_decay = options.no_decay;
  groups = options.groups;
  clip_norm = options.clip_norm;
  clip_value = options.clip_value;
  global_clip_norm = options.global_clip_norm;
  average = options.average;
  return *this;
}

std::vector<std::string_view> Optimiser::names() {
  return {
#define OPTIMISER(optimiser, description, ...) #optimiser,
#define VARIANT(base, optimiser, description, ...) #optimiser,
#include <plimsoll/optimisers.inc>
#undef OPTIMISER
#undef VARIANT
  };
}

Optimiser Optimiser::named(std::string_view name) {
  const std::string wanted = plain_name(name);
#define OPTIMISER(optimiser, description, ...) \
  if (wanted == plain_name(#optimiser)) return Optimiser::optimiser();
#define VARIANT(base, optimiser, description, ...) OPTIMISER(optimiser, description)
#include <plimsoll/optimisers.inc>
#undef OPTIMISER
#undef VARIANT
  throw Error(fmt::format("optimiser '{}' is unknown; known are {}", name, fmt::join(names(), ", ")), ErrorKind::Usage);
}

bool Optimiser::has(std::string_view setting) const {
  return common_setting(setting) != nullptr ||
         std::ranges::find(settings_, setting, &Setting::first) != settings_.end();
}

double Optimiser::get(std::string_view setting) const {
  if (double Optimiser::*const common = common_setting(setting)) return this->*common;
  const auto found = std::ranges::find(settings_, setting, &Setting::first);
  if (found == settings_.end())
    throw Error("optimiser: " + describe_unknown(name_, setting, settings_), ErrorKind::Usage);
  return found->second;
}

Optimiser& Optimiser::set(std::string_view setting, double value) {
  if (double Optimiser::*const common = common_setting(setting)) {
    this->*common = value;
    return *this;
  }
  const auto found = std::ranges::find(settings_, setting, &Setting::first);
  if (found == settings_.end())
    throw Error("optimiser: " + describe_unknown(name_, setting, settings_), ErrorKind::Usage);
  found->second = value;
  return *this;
}

bool Optimiser::keeps_state() const {
  const ops::OptimiserRule& rule = autodiff::rule_of(*this);
  return rule.keeps_state == nullptr || rule.keeps_state(ops::RuleSettings(name_, settings_));
}

}  // namespace plimsoll

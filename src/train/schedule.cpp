#include <plimsoll/callback.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

[[noreturn]] void refuse_schedule(const std::string& what) { throw Error(what, ErrorKind::Usage); }

void expect_rate(double rate) {
  if (!(rate >= 0 && std::isfinite(rate)))
    refuse_schedule(fmt::format("a learning rate of {} makes no sense; give a number that is not negative", rate));
}

void expect_steps(int64_t steps) {
  if (steps < 1) refuse_schedule(fmt::format("a schedule over {} steps makes no sense; give a positive number", steps));
}

double half_wave(double fraction, double alpha) {
  return (1 - alpha) * 0.5 * (1 + std::cos(std::numbers::pi * fraction)) + alpha;
}

double part_of(int64_t step, int64_t steps) { return static_cast<double>(step) / static_cast<double>(steps); }

// "steps=1000,warmup=100": numbers by name, each taken once.
class Settings {
 public:
  Settings(std::string_view schedule, std::string_view text) : text_(text) {
    std::string_view rest = schedule;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
      const size_t equals = item.find('=');
      // A word alone is a switch.
      values_.emplace_back(item.substr(0, equals), equals == std::string_view::npos ? "1" : item.substr(equals + 1));
    }
  }

  std::optional<double> find(std::string_view name) {
    for (auto item = values_.begin(); item != values_.end(); ++item)
      if (item->first == name) {
        const double number = parse_number(item->second);
        values_.erase(item);
        return number;
      }
    return std::nullopt;
  }
  double take(std::string_view name, double otherwise) { return find(name).value_or(otherwise); }
  int64_t steps(std::string_view name) {
    const auto found = find(name);
    if (!found) refuse_schedule(fmt::format("schedule '{}': {} is missing; give {}=1000", text_, name, name));
    return whole(*found);
  }
  int64_t whole(double number) const {
    if (number != std::floor(number) || std::abs(number) > 1e15)
      refuse_schedule(fmt::format("schedule '{}': {} is no whole number", text_, number));
    return static_cast<int64_t>(number);
  }
  // The others, as numbers on both sides.
  std::vector<std::pair<double, double>> take_pairs() {
    std::vector<std::pair<double, double>> pairs;
    for (const auto& [name, value] : std::exchange(values_, {}))
      pairs.emplace_back(parse_number(name), parse_number(value));
    return pairs;
  }
  void expect_all_taken() const {
    if (!values_.empty())
      refuse_schedule(fmt::format("schedule '{}': '{}' is not one of its settings", text_, values_.front().first));
  }

 private:
  double parse_number(std::string_view text) const {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
      refuse_schedule(fmt::format("schedule '{}': '{}' is no number", text_, text));
    return number;
  }
  std::string_view text_;
  std::vector<std::pair<std::string_view, std::string_view>> values_;
};

}  // namespace

RateSchedule RateSchedule::constant(double rate) {
  expect_rate(rate);
  return [rate](int64_t) { return rate; };
}

RateSchedule RateSchedule::exponential(double rate, int64_t steps, double factor, bool staircase) {
  expect_rate(rate);
  expect_steps(steps);
  if (!(factor > 0))
    refuse_schedule(fmt::format("a decay by the factor {} makes no sense; give a positive one", factor));
  return [=](int64_t step) {
    const double part = part_of(step, steps);
    return rate * std::pow(factor, staircase ? std::floor(part) : part);
  };
}

RateSchedule RateSchedule::cosine(double rate, int64_t steps, const Cosine& options) {
  expect_rate(rate);
  expect_rate(options.warmup_from);
  expect_steps(steps);
  if (options.warmup_steps < 0) expect_steps(options.warmup_steps);
  return [=](int64_t step) {
    if (step < options.warmup_steps)
      return options.warmup_from + (rate - options.warmup_from) * part_of(step, options.warmup_steps);
    return rate * half_wave(part_of(std::min(step - options.warmup_steps, steps), steps), options.alpha);
  };
}

RateSchedule RateSchedule::cosine_restarts(double rate, int64_t first_steps, const Restarts& options) {
  expect_rate(rate);
  expect_steps(first_steps);
  if (!(options.longer >= 1))
    refuse_schedule(fmt::format("periods that get longer by {} make no sense; give at least 1", options.longer));
  return [=](int64_t step) {
    double part = part_of(step, first_steps), period = std::floor(part);
    if (options.longer == 1) {
      part -= period;
    } else {
      period = std::floor(std::log(1 - part * (1 - options.longer)) / std::log(options.longer));
      const double before = (1 - std::pow(options.longer, period)) / (1 - options.longer);
      part = (part - before) / std::pow(options.longer, period);
    }
    const double height = std::pow(options.lower, period);
    return rate * ((1 - options.alpha) * 0.5 * height * (1 + std::cos(std::numbers::pi * part)) + options.alpha);
  };
}

RateSchedule RateSchedule::piecewise(std::vector<int64_t> boundaries, std::vector<double> values) {
  if (values.size() != boundaries.size() + 1)
    refuse_schedule(fmt::format("{} boundaries need {} rates but there are {}", boundaries.size(),
                                boundaries.size() + 1, values.size()));
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) refuse_schedule("the boundaries of a schedule must go up");
  for (const double rate : values) expect_rate(rate);
  return [boundaries = std::move(boundaries), values = std::move(values)](int64_t step) {
    const auto next = std::lower_bound(boundaries.begin(), boundaries.end(), step);
    return values[static_cast<size_t>(next - boundaries.begin())];
  };
}

RateSchedule RateSchedule::polynomial(double rate, int64_t steps, double end, double power, bool cycle) {
  expect_rate(rate);
  expect_rate(end);
  expect_steps(steps);
  return [=](int64_t step) {
    const double rounds = cycle ? std::max(1.0, std::ceil(part_of(step, steps))) : 1;
    const double part = std::min(part_of(step, steps) / rounds, 1.0);
    return (rate - end) * std::pow(1 - part, power) + end;
  };
}

RateSchedule RateSchedule::inverse_time(double rate, int64_t steps, double factor, bool staircase) {
  expect_rate(rate);
  expect_steps(steps);
  if (!(factor >= 0)) refuse_schedule(fmt::format("a factor of {} makes no sense; give zero or more", factor));
  return [=](int64_t step) {
    const double part = part_of(step, steps);
    return rate / (1 + factor * (staircase ? std::floor(part) : part));
  };
}

RateSchedule RateSchedule::one_cycle(double highest, int64_t steps, const OneCycle& options) {
  expect_rate(highest);
  expect_steps(steps);
  if (!(options.rise >= 0 && options.rise <= 1 && options.start_divisor > 0 && options.end_divisor > 0))
    refuse_schedule("a rise is a share from 0 to 1, and divisors are positive");
  const double start = highest / options.start_divisor, end = start / options.end_divisor;
  const double top = options.rise * static_cast<double>(steps) - 1, last = static_cast<double>(steps) - 1;
  const auto along = [](double from, double to, double part) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
  };
  return [=](int64_t step) {
    const double at = std::min(static_cast<double>(step), last);
    if (at <= top) return along(start, highest, top > 0 ? at / top : 1);
    return along(highest, end, last > top ? (at - top) / (last - top) : 1);
  };
}

RateSchedule RateSchedule::parse(std::string_view text, double rate) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  Settings settings(colon == std::string_view::npos ? "" : text.substr(colon + 1), text);
  const auto finish = [&](RateSchedule schedule) {
    settings.expect_all_taken();
    return schedule;
  };
  if (kind == "constant") return finish(constant(rate));
  if (kind == "exponential") {
    const int64_t steps = settings.steps("steps");
    const double factor = settings.take("factor", 0.96);
    return finish(exponential(rate, steps, factor, settings.take("staircase", 0) != 0));
  }
  if (kind == "cosine") {
    const int64_t steps = settings.steps("steps");
    Cosine options;
    options.warmup_steps = settings.whole(settings.take("warmup", 0));
    options.alpha = settings.take("alpha", 0);
    return finish(cosine(rate, steps, options));
  }
  if (kind == "restarts") {
    const int64_t steps = settings.steps("steps");
    Restarts options;
    options.longer = settings.take("longer", options.longer);
    options.lower = settings.take("lower", options.lower);
    options.alpha = settings.take("alpha", 0);
    return finish(cosine_restarts(rate, steps, options));
  }
  if (kind == "polynomial") {
    const int64_t steps = settings.steps("steps");
    const double end = settings.take("end", 1e-4), power = settings.take("power", 1);
    return finish(polynomial(rate, steps, end, power, settings.take("cycle", 0) != 0));
  }
  if (kind == "inverse-time") {
    const int64_t steps = settings.steps("steps");
    const double factor = settings.take("factor", 0.5);
    return finish(inverse_time(rate, steps, factor, settings.take("staircase", 0) != 0));
  }
  if (kind == "one-cycle") {
    const int64_t steps = settings.steps("steps");
    OneCycle options;
    options.rise = settings.take("rise", options.rise);
    return finish(one_cycle(rate, steps, options));
  }
  if (kind == "piecewise") {
    std::vector<int64_t> boundaries;
    std::vector<double> values{rate};
    for (const auto& [boundary, value] : settings.take_pairs()) {
      boundaries.push_back(settings.whole(boundary));
      values.push_back(value);
    }
    return piecewise(std::move(boundaries), std::move(values));
  }
  refuse_schedule(
      fmt::format("there is no schedule '{}'; known are constant, exponential:steps=1000,factor=0.96[,staircase], "
                  "cosine:steps=1000[,warmup=100][,alpha=0], restarts:steps=1000[,longer=2][,lower=1], "
                  "polynomial:steps=1000[,end=1e-4][,power=1][,cycle], inverse-time:steps=1000[,factor=0.5], "
                  "one-cycle:steps=1000[,rise=0.3], piecewise:1000=0.01,2000=0.001",
                  kind));
}

}  // namespace plimsoll

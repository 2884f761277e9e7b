#include "graph/init.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "base/nearest.h"
#include "base/random.h"

namespace plimsoll {
namespace {

constexpr const char* kNames[] = {"constant", "uniform", "normal", "truncated_normal", "scaled", "identity"};

template <size_t N>
double polynomial(const double (&terms)[N], double x) {
  double sum = terms[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * x + terms[i];
  return sum;
}

// The inverse of the normal distribution, by quotients of polynomials (Wichura 1988, algorithm AS 241, PPND7): right to
// 7 digits. It takes one random number for each result and mostly needs no logarithm.
constexpr double kMiddle = 0.425;
bool is_in_middle(double p) { return std::abs(p - 0.5) <= kMiddle; }

double middle_quantile(double p) {
  const double q = p - 0.5;
  const double r = kMiddle * kMiddle - q * q;
  return q * polynomial({3.3871327179, 50.434271938, 159.29113202, 59.109374720}, r) /
         polynomial({1.0, 17.895169469, 78.757757664, 67.187563600}, r);
}

double tail_quantile(double p) {
  const bool is_lower = p < 0.5;
  const double r = std::sqrt(-std::log(is_lower ? p : 1 - p));
  constexpr double kFar = 5;
  const double value = r <= kFar ? polynomial({1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103}, r - 1.6) /
                                       polynomial({1.0, 0.73700164250, 0.12021132975}, r - 1.6)
                                 : polynomial({6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997}, r - kFar) /
                                       polynomial({1.0, 0.24197894225, 0.012258202635}, r - kFar);
  return is_lower ? -value : value;
}

constexpr double kBelowMinusTwo = 0.022750131948179208;  // share of a normal below two deviations

// Deviation of a unit normal cut at two deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

// The random number of element i, in [0, 1).
double unit_at(uint64_t key, int64_t i) { return unit_real(mix_bits(key, static_cast<uint64_t>(i))); }

// The quantile of share_of(random number) for each element. A block is first computed as if all of it lay in the
// middle, in a loop that the compiler vectorises; then the elements in the tails are recomputed.
template <class Share>
void fill_normals(const Init& init, uint64_t key, int64_t first, int64_t count, float* out, const Share& share_of) {
  constexpr int64_t kBlock = 512;
  double shares[kBlock];
  int32_t tails[kBlock];
  const auto value = [&](double quantile) { return static_cast<float>(init.a + init.b * quantile); };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    float* const to = out + begin;
    for (int64_t i = 0; i < length; ++i) shares[i] = share_of(unit_at(key, first + begin + i));
    for (int64_t i = 0; i < length; ++i) to[i] = value(middle_quantile(shares[i]));
    int64_t found = 0;
    for (int64_t i = 0; i < length; ++i) {
      tails[found] = static_cast<int32_t>(i);
      found += is_in_middle(shares[i]) ? 0 : 1;
    }
    for (int64_t k = 0; k < found; ++k) to[tails[k]] = value(tail_quantile(shares[tails[k]]));
  }
}

}  // namespace

namespace {

struct NamedInit {
  std::string_view name;
  std::vector<std::string_view> aliases;
  Init init;
};

const std::vector<NamedInit>& known_inits() {
  static const std::vector<NamedInit> kInits{
      {"zeros", {}, Init::zeros()},
      {"ones", {}, Init::ones()},
      {"constant", {}, Init::zeros()},
      {"uniform", {"random_uniform"}, Init::uniform(-0.05, 0.05)},
      {"normal", {"random_normal"}, Init::normal(0, 0.05)},
      {"truncated_normal", {"trunc_normal"}, Init::truncated_normal(0, 0.05)},
      {"variance_scaling", {}, Init::variance_scaling()},
      {"glorot_uniform", {"xavier_uniform"}, Init::glorot_uniform()},
      {"glorot_normal", {"xavier_normal"}, Init::glorot_normal()},
      {"he_uniform", {"kaiming_uniform"}, Init::he_uniform()},
      {"he_normal", {"kaiming_normal"}, Init::he_normal()},
      {"lecun_uniform", {}, Init::lecun_uniform()},
      {"lecun_normal", {}, Init::lecun_normal()},
      {"identity", {"eye"}, Init::identity()},
  };
  return kInits;
}

struct Fans {
  double in, out;
};
Fans fans_of(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) {
    const auto size = static_cast<double>(shape[0].fixed());
    return {size, size};
  }
  const auto first = static_cast<double>(shape[0].fixed()), second = static_cast<double>(shape[1].fixed());
  if (shape.rank() == 2) return {first, second};
  const double field = static_cast<double>(element_count(shape).fixed()) / (first * second);
  return {second * field, first * field};
}

}  // namespace

Init Init::variance_scaling(double scale, Fan fan, Curve curve) {
  if (!(std::isfinite(scale) && scale > 0))
    throw Error(fmt::format("variance_scaling: a scale of {} makes no sense; give a positive number", scale),
                ErrorKind::Usage);
  return {Kind::Scaled, scale, static_cast<double>(static_cast<int>(fan) * 3 + static_cast<int>(curve))};
}

Init Init::named(std::string_view name) {
  for (const NamedInit& known : known_inits())
    if (plain_name(known.name) == plain_name(name) || std::ranges::any_of(known.aliases, [&](std::string_view other) {
          return plain_name(other) == plain_name(name);
        }))
      return known.init;
  throw Error(fmt::format("initial value '{}' is unknown; known are {}", name, fmt::join(names(), ", ")),
              ErrorKind::Usage);
}

std::vector<std::string_view> Init::names() {
  std::vector<std::string_view> all;
  for (const NamedInit& known : known_inits()) all.push_back(known.name);
  return all;
}

Init Init::glorot_uniform(int64_t fan_in, int64_t fan_out) {
  const double limit = std::sqrt(6.0 / static_cast<double>(std::max<int64_t>(1, fan_in + fan_out)));
  return uniform(-limit, limit);
}
Init Init::he_normal(int64_t fan_in) {
  return truncated_normal(0, std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(1, fan_in))) / kTruncatedDeviation);
}
Init Init::lecun_normal(int64_t fan_in) {
  return truncated_normal(0, std::sqrt(1.0 / static_cast<double>(std::max<int64_t>(1, fan_in))) / kTruncatedDeviation);
}

std::string to_string(const Init& init) {
  const char* name = kNames[static_cast<size_t>(init.kind)];
  return init.kind == Init::Kind::Constant ? fmt::format("{}({})", name, init.a)
                                           : fmt::format("{}({},{})", name, init.a, init.b);
}

namespace graph {

Init resolve(const Init& init, const Shape& shape) {
  if (init.kind == Init::Kind::Identity) {
    if (shape.rank() != 2)
      throw Error(fmt::format("only a matrix can start as the identity, and {} is none", to_string(shape)));
    return {init.kind, init.a, static_cast<double>(shape[1].fixed())};
  }
  if (init.kind != Init::Kind::Scaled) return init;
  const auto code = static_cast<int>(init.b);
  const auto fan = static_cast<Init::Fan>(code / 3);
  const Fans fans = fans_of(shape);
  const double by = fan == Init::Fan::In ? fans.in : fan == Init::Fan::Out ? fans.out : (fans.in + fans.out) / 2;
  const double deviation = std::sqrt(init.a / std::max(1.0, by));
  switch (static_cast<Init::Curve>(code % 3)) {
    case Init::Curve::Uniform:
      return Init::uniform(-std::sqrt(3.0) * deviation, std::sqrt(3.0) * deviation);
    case Init::Curve::Normal:
      return Init::normal(0, deviation);
    case Init::Curve::TruncatedNormal:
      return Init::truncated_normal(0, deviation / kTruncatedDeviation);
  }
  return init;
}

Init parse_init(std::string_view text) {
  const size_t open = text.find('(');
  if (open != std::string_view::npos && text.back() == ')') {
    for (size_t kind = 0; kind < std::size(kNames); ++kind) {
      if (text.substr(0, open) != kNames[kind]) continue;
      const std::string numbers(text.substr(open + 1, text.size() - open - 2));
      Init init{static_cast<Init::Kind>(kind), 0, 0};
      char* end = nullptr;
      init.a = std::strtod(numbers.c_str(), &end);
      if (init.kind != Init::Kind::Constant && *end == ',') init.b = std::strtod(end + 1, &end);
      if (!numbers.empty() && *end == '\0') return init;
    }
  }
  throw Error(fmt::format("'{}' is not an initial value; write constant(0), uniform(-1,1) or normal(0,0.02)", text));
}

void fill(const Init& init, uint64_t seed, std::string_view name, int64_t first, int64_t count, float* out) {
  const uint64_t key = mix_bits(seed, hash_text(name));
  switch (init.kind) {
    case Init::Kind::Constant:
      std::fill_n(out, count, static_cast<float>(init.a));
      return;
    case Init::Kind::Uniform:
      for (int64_t i = 0; i < count; ++i)
        out[i] = static_cast<float>(init.a + (init.b - init.a) * unit_at(key, first + i));
      return;
    case Init::Kind::Normal:
      return fill_normals(init, key, first, count, out, [](double unit) { return unit + 0x1.0p-54; });
    case Init::Kind::TruncatedNormal:
      return fill_normals(init, key, first, count, out,
                          [](double unit) { return kBelowMinusTwo + (1 - 2 * kBelowMinusTwo) * unit; });
    case Init::Kind::Identity: {
      const auto columns = static_cast<int64_t>(init.b);
      for (int64_t i = 0; i < count; ++i)
        out[i] = (first + i) / columns == (first + i) % columns ? static_cast<float>(init.a) : 0.0F;
      return;
    }
    case Init::Kind::Scaled:  // resolve() made another of it
      assert(false);
      return;
  }
}

}  // namespace graph

}  // namespace plimsoll

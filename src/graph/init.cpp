#include "graph/init.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"

namespace plimsoll {
namespace {

constexpr const char* kNames[] = {"constant", "uniform", "normal", "truncated_normal"};

// Two independent normals from two uniforms would be cheaper; one keeps every element a function of its own index.
double normal_at(uint64_t key, uint64_t index) {
  const double u = 1.0 - unit_real(mix_bits(key, 2 * index));
  const double v = unit_real(mix_bits(key, 2 * index + 1));
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

double truncated_normal_at(uint64_t key, uint64_t index) {
  for (uint64_t attempt = 0;; ++attempt) {
    const double value = normal_at(mix_bits(key, attempt), index);
    if (std::abs(value) <= 2) return value;
  }
}

// Deviation of a unit normal cut at two deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

}  // namespace

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
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(first + i);
    double value = init.a;
    if (init.kind == Init::Kind::Uniform) value += (init.b - init.a) * unit_real(mix_bits(key, index));
    if (init.kind == Init::Kind::Normal) value += init.b * normal_at(key, index);
    if (init.kind == Init::Kind::TruncatedNormal) value += init.b * truncated_normal_at(key, index);
    out[i] = static_cast<float>(value);
  }
}

}  // namespace plimsoll

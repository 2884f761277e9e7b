#include "graph/init.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"

namespace plimsoll {
namespace {

constexpr const char* kNames[] = {"constant", "uniform", "normal", "truncated_normal"};

// A normal number from 64 random bits, by Box and Muller: floats and no branches, so that the compiler makes vectors of
// it, and no library, whose last bits differ between machines.
float normal_of(uint32_t high, uint32_t low) {
  // In (0, 1], as 2^e m with m from 0.7 to 1.4; its logarithm by the series of 2 atanh.
  const float u = (static_cast<float>(static_cast<int32_t>(high >> 1)) + 0.5F) * 0x1p-31F;
  const uint32_t bits = std::bit_cast<uint32_t>(u) - 0x3f3504f3U;
  const auto e = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const auto m = std::bit_cast<float>((bits & 0x7fffffU) + 0x3f3504f3U);
  const float s = (m - 1) / (m + 1);
  const float t = s * s;
  const float log = e * 0.69314718F + 2 * s * (1 + t * (1 / 3.0F + t * (0.2F + t * (1 / 7.0F + t * (1 / 9.0F)))));
  // The cosine of a whole turn times v is the sine of what v lacks to a quarter.
  const float v = static_cast<float>(static_cast<int32_t>(low)) * 0x1p-32F;
  const float x = (0.25F - std::abs(v)) * 6.2831853F;
  const float q = x * x;
  const float sine =
      x * (1 + q * (-1 / 6.0F + q * (1 / 120.0F + q * (-1 / 5040.0F + q * (1 / 362880.0F - q * (1 / 39916800.0F))))));
  return std::sqrt(std::max(0.0F, -2 * log)) * sine;
}

float normal_at(uint64_t key, uint64_t index) {
  const uint64_t bits = mix_bits(key, index);
  return normal_of(static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits));
}

// What lies beyond two deviations is drawn again, each time with another key.
float redraw(uint64_t key, uint64_t index) {
  for (uint64_t attempt = 1;; ++attempt) {
    const float value = normal_at(mix_bits(key, attempt), index);
    if (std::abs(value) <= 2) return value;
  }
}

void fill_normal(const Init& init, uint64_t key, int64_t first, int64_t count, float* out) {
  constexpr int64_t kAtOnce = 256;
  uint32_t high[kAtOnce], low[kAtOnce];
  const auto mean = static_cast<float>(init.a), deviation = static_cast<float>(init.b);
  for (int64_t begin = 0; begin < count; begin += kAtOnce, out += kAtOnce) {
    const int64_t some = std::min(kAtOnce, count - begin);
    const auto index = static_cast<uint64_t>(first + begin);
    for (int64_t i = 0; i < some; ++i) {
      const uint64_t bits = mix_bits(key, index + static_cast<uint64_t>(i));
      high[i] = static_cast<uint32_t>(bits >> 32);
      low[i] = static_cast<uint32_t>(bits);
    }
    for (int64_t i = 0; i < some; ++i) out[i] = normal_of(high[i], low[i]);
    if (init.kind == Init::Kind::TruncatedNormal)
      for (int64_t i = 0; i < some; ++i)
        if (std::abs(out[i]) > 2) out[i] = redraw(key, index + static_cast<uint64_t>(i));
    for (int64_t i = 0; i < some; ++i) out[i] = mean + deviation * out[i];
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
  if (init.kind == Init::Kind::Normal || init.kind == Init::Kind::TruncatedNormal)
    return fill_normal(init, key, first, count, out);
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(first + i);
    double value = init.a;
    if (init.kind == Init::Kind::Uniform) value += (init.b - init.a) * unit_real(mix_bits(key, index));
    out[i] = static_cast<float>(value);
  }
}

}  // namespace plimsoll

// How a variable starts: a description, so that values can be made in place when memory for them exists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

struct Init {
  enum class Kind : uint8_t { Constant, Uniform, Normal, TruncatedNormal };
  Kind kind = Kind::Constant;
  double a = 0;  // Constant: the value; Uniform: low; Normal: mean
  double b = 0;  // Uniform: high; Normal: standard deviation

  static Init constant(double value) { return {Kind::Constant, value, 0}; }
  static Init zeros() { return constant(0); }
  static Init ones() { return constant(1); }
  static Init uniform(double low, double high) { return {Kind::Uniform, low, high}; }
  static Init normal(double mean, double deviation) { return {Kind::Normal, mean, deviation}; }
  // Normal, values beyond two deviations drawn again; `deviation` is that of the untruncated curve.
  static Init truncated_normal(double mean, double deviation) { return {Kind::TruncatedNormal, mean, deviation}; }
  // Keras' VarianceScaling family.
  static Init glorot_uniform(int64_t fan_in, int64_t fan_out);
  static Init he_normal(int64_t fan_in);
  static Init lecun_normal(int64_t fan_in);

  friend bool operator==(const Init&, const Init&) = default;
};

std::string to_string(const Init& init);  // "uniform(-0.05,0.05)"
Init parse_init(std::string_view text);   // throws Error

// Elements [first, first + count) of a float variable. Depends on (seed, name, index) only: any chunking, any order and
// any machine gives the same numbers.
void fill(const Init& init, uint64_t seed, std::string_view name, int64_t first, int64_t count, float* out);

}  // namespace plimsoll

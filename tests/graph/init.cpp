#include "graph/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll::graph {
namespace {

std::vector<float> draw(const Init& init, int64_t count, uint64_t seed = 1, const char* name = "w") {
  std::vector<float> values(static_cast<size_t>(count));
  fill(init, seed, name, 0, count, values.data());
  return values;
}

double deviation(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float v : values) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

TEST(Init, DrawsFromTheCurveThatItNames) {
  EXPECT_NEAR(deviation(draw(Init::normal(0, 0.5), 20000)), 0.5, 0.01);
  EXPECT_NEAR(deviation(draw(Init::uniform(-1, 1), 20000)), 1 / std::sqrt(3.0), 0.01);
  // he_normal of fan-in 50 is truncated, yet has the deviation sqrt(2 / 50) after truncation.
  const std::vector<float> he = draw(Init::he_normal(50), 20000);
  EXPECT_NEAR(deviation(he), 0.2, 0.005);
  for (const float v : he) EXPECT_LE(std::abs(v), 2 * 0.2 / 0.8796 + 1e-5);
  for (const float v : draw(Init::glorot_uniform(2, 4), 1000)) EXPECT_LE(std::abs(v), 1.0F);
  for (const float v : draw(Init::constant(3), 10)) EXPECT_EQ(v, 3.0F);
}

// Shares of a unit normal below -3, -2, ... 3, counted and known.
TEST(Init, NormalsHaveTheirShares) {
  const int64_t count = 400'000;
  const std::vector<float> values = draw(Init::normal(0, 1), count);
  for (double at = -3; at <= 3; at += 0.5) {
    const auto below = std::count_if(values.begin(), values.end(), [&](float v) { return v < at; });
    const double share = 0.5 * std::erfc(-at / std::sqrt(2.0));
    const double spread = std::sqrt(share * (1 - share) / count);
    EXPECT_NEAR(static_cast<double>(below) / count, share, 4 * spread) << at;
  }
  for (const float v : values) EXPECT_TRUE(std::isfinite(v));
}

TEST(Init, EveryElementIsAFunctionOfItsIndex) {
  const Init init = Init::truncated_normal(0, 1);
  const std::vector<float> whole = draw(init, 1000);
  std::vector<float> part(10);
  fill(init, 1, "w", 500, 10, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 500));
  EXPECT_NE(draw(init, 1000, 2), whole);
  EXPECT_NE(draw(init, 1000, 1, "v"), whole);
}

TEST(Init, PrintsAndParsesBack) {
  for (const Init& init : {Init::zeros(), Init::constant(-0.1), Init::uniform(-0.05, 0.05), Init::he_normal(3)})
    EXPECT_EQ(parse_init(to_string(init)), init) << to_string(init);
  for (const char* text : {"", "zeros", "uniform(1", "uniform(a,b)", "wild(1)", "constant()"})
    EXPECT_THROW(parse_init(text), Error) << text;
}

}  // namespace
}  // namespace plimsoll::graph

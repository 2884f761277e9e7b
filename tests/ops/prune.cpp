// Masks of pruning against those of tfmot (bench/golden_tfmot.py, run by hand), and against a sorted copy.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

// One weight under one schedule.
class Pruned {
 public:
  Pruned(const Shape& shape, const graph::Attrs& settings) : count_(element_count(shape).fixed()) {
    w_ = graph_.variable("w", DType::F32, shape, Init::zeros());
    mask_ = graph_.variable("mask", DType::U8, {(count_ + 7) / 8}, Init::constant(255));
    step_ = graph_.placeholder("step", DType::I64, {});
    ops::prune(w_, mask_, step_, settings);
    evaluator_.set(mask_.id(), Contents(static_cast<size_t>((count_ + 7) / 8), std::byte{255}));
  }

  void run(int64_t step, const std::vector<float>& weights) {
    Contents number(sizeof step);
    std::memcpy(number.data(), &step, sizeof step);
    evaluator_.set_floats(w_.id(), weights);
    evaluator_.set(step_.id(), number);
    evaluator_.run();
  }
  std::vector<float> weights() const { return evaluator_.floats(w_.id()); }
  bool keeps(int64_t i) const {
    const Contents bytes = evaluator_.contents(mask_.id());
    return ((std::to_integer<unsigned>(bytes[static_cast<size_t>(i / 8)]) >> (i % 8)) & 1) != 0;
  }
  std::string hex(int64_t bytes) const {
    std::string text;
    for (int64_t b = 0; b < bytes; ++b) {
      unsigned byte = 0;
      for (int64_t i = 8 * b; i < std::min(count_, 8 * b + 8); ++i) byte |= static_cast<unsigned>(keeps(i)) << (i % 8);
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", byte);
      text += digits;
    }
    return text;
  }

 private:
  int64_t count_;
  Graph graph_;
  Tensor w_, mask_, step_;
  Evaluator evaluator_{graph_, 1};
};

graph::Attrs parse_settings(const std::string& text) {
  graph::Attrs attrs;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals), value = item.substr(equals + 1);
    if (name == "initial" || name == "final" || name == "power")
      attrs.set(name, std::stod(value));
    else
      attrs.set(name, int64_t{std::stoll(value)});
  }
  return attrs;
}

std::vector<float> golden_weights(int64_t count, int64_t step) {
  std::vector<float> weights;
  for (int64_t i = 0; i < count; ++i)
    weights.push_back(static_cast<float>((i * 7919 + 104729 * step) % 2003 - 1001) / 1000.0F);
  return weights;
}

TEST(Prune, MasksAreThoseOfTfmot) {
  std::ifstream file(PLIMSOLL_PRUNED_DIR "/masks.txt");
  std::string name, settings, dims, mask, before;
  int64_t step = 0;
  int lines = 0;
  std::unique_ptr<Pruned> pruned;
  Shape shape;
  while (file >> name >> settings >> dims >> step >> mask) {
    if (name != before) {
      shape = {};
      std::istringstream sizes(dims);
      for (std::string size; std::getline(sizes, size, 'x');) shape.push_back(std::stoll(size));
      pruned = std::make_unique<Pruned>(shape, parse_settings(settings));
      before = name;
    }
    const int64_t count = element_count(shape).fixed();
    const std::vector<float> weights = golden_weights(count, step);
    pruned->run(step, weights);
    EXPECT_EQ(pruned->hex((count + 7) / 8), mask) << name << " at step " << step;
    const std::vector<float> after = pruned->weights();
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(after[static_cast<size_t>(i)], pruned->keeps(i) ? weights[static_cast<size_t>(i)] : 0) << name << i;
    ++lines;
  }
  EXPECT_EQ(lines, 39);
}

// Magnitudes over the whole range of floats, with many ties.
std::vector<float> wild_weights(int64_t count, uint64_t seed) {
  std::vector<float> weights;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix_bits(seed, static_cast<uint64_t>(i));
    const float size = std::ldexp(static_cast<float>(1 + bits % 7), static_cast<int>(bits / 8 % 280) - 145);
    weights.push_back(bits % 3 == 0 ? 0.0F : bits % 2 == 0 ? size : -size);
  }
  return weights;
}

TEST(Prune, TheThresholdIsThatOfASortedCopyForAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (const int64_t count : {1, 8, 1000, 70'001}) {
    for (const double share : {0.0, 0.2, 0.5, 0.8, 0.999}) {
      const std::vector<float> weights = wild_weights(count, 7);
      std::vector<float> sorted;
      for (const float w : weights) sorted.push_back(std::abs(w));
      std::ranges::sort(sorted, std::greater());
      const auto kept = std::max(std::nearbyint(static_cast<float>(count) * (1 - static_cast<float>(share))), 1.0F);
      const float threshold = sorted[static_cast<size_t>(kept) - 1];
      for (const int used : {1, 3}) {
        omp_set_num_threads(used);
        Pruned pruned({count}, {{"initial", share}, {"final", share}, {"frequency", int64_t{1}}});
        pruned.run(5, weights);
        const std::vector<float> after = pruned.weights();
        for (size_t i = 0; i < weights.size(); ++i)
          ASSERT_EQ(after[i], std::abs(weights[i]) >= threshold ? weights[i] : 0) << count << " " << share << " " << i;
      }
      omp_set_num_threads(threads);
    }
  }
}

TEST(Prune, WhatMakesNoSenseIsRefused) {
  const auto refusal = [](const Shape& shape, const graph::Attrs& settings) -> std::string {
    try {
      Pruned(shape, settings);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({4, 4}, {}), "accepted");
  EXPECT_THAT(refusal({4, 4}, {{"final", 1.0}}), HasSubstr("a share of 1 zeros"));
  EXPECT_THAT(refusal({4, 4}, {{"final", -0.1}}), HasSubstr("a share of -0.1 zeros"));
  EXPECT_THAT(refusal({4, 4}, {{"begin", int64_t{9}}, {"end", int64_t{8}}}), HasSubstr("ends before it begins"));
  EXPECT_THAT(refusal({4, 4}, {{"frequency", int64_t{0}}}), HasSubstr("frequency of 0"));
  EXPECT_THAT(refusal({4, 4, 3, 3}, {{"block_width", int64_t{4}}}), HasSubstr("need a matrix"));
}

}  // namespace
}  // namespace plimsoll::testing

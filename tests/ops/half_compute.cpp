// Products in bf16: the numbers of f32 on rounded operands, for any number of threads, in the workspace announced.
#include <omp.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/half.h"
#include "kernels/half_product.h"
#include "kernels/thread_count.h"
#include "ops/draw.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

float rounded(float number) { return from_bf16(to_bf16(number)); }

Evaluated filled(DType dtype, const Dims& dims, uint64_t seed) {
  const ConcreteType type{dtype, dims, {}, false};
  Evaluated value{type, std::make_shared<GuardedBuffer>(type.bytes())};
  const std::vector<float> numbers = draw(type.count(), seed);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::BF16)
      static_cast<uint16_t*>(value.buffer->data())[i] = to_bf16(numbers[i]);
    else
      static_cast<float*>(value.buffer->data())[i] = rounded(numbers[i]);
  }
  return value;
}

// A node of one operator, sizes and settings, which can be run in f32 and in bf16.
struct ProductNode {
  std::string name;
  const char* op;
  Attrs attrs;
  std::vector<Dims> in, out;
  int64_t batch = 1;

  const Op& the_op() const { return *ops::find_op(op); }
  std::optional<HalfCompute> half() const {
    const auto types = [](const std::vector<Dims>& list) {
      std::vector<ConcreteType> all;
      for (const Dims& dims : list) all.push_back({DType::F32, dims, {}, false});
      return all;
    };
    const std::vector<ConcreteType> from = types(in), to = types(out);
    return the_op().half_compute({attrs, from, to, batch, batch, false});
  }

  // Output 0. Of the inputs that may be bf16, those of `narrow` are.
  std::vector<float> run(bool in_half, uint32_t narrow, DType result, bool accumulate = false) const {
    Attrs settings = attrs;
    if (in_half) settings.set("compute", std::string("bf16"));
    std::vector<Evaluated> inputs;
    std::vector<ConcreteType> from, to;
    for (size_t i = 0; i < in.size(); ++i) {
      inputs.push_back(filled((narrow >> i & 1) != 0 ? DType::BF16 : DType::F32, in[i], i + 1));
      from.push_back(inputs.back().type);
    }
    for (size_t i = 0; i < out.size(); ++i) to.push_back({i == 0 ? result : DType::F32, out[i], {}, false});
    const Prepared prepared = the_op().prepare({settings, from, to, batch, batch, accumulate});
    std::vector<const void*> reads;
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = in_layout(inputs[i], prepared.in.empty() ? Layout() : prepared.in[i]);
      reads.push_back(inputs[i].buffer->data());
    }
    std::vector<Evaluated> results;
    std::vector<void*> writes;
    for (size_t i = 0; i < to.size(); ++i) {
      to[i].layout = prepared.out.empty() ? Layout() : prepared.out[i];
      results.push_back({to[i], std::make_shared<GuardedBuffer>(to[i].bytes())});
      // Sums of earlier micro-batches, where they are added to.
      if (accumulate) results.back().buffer->assign(Contents(static_cast<size_t>(to[i].bytes()), std::byte{0}));
      writes.push_back(results.back().buffer->data());
    }
    GuardedBuffer workspace(prepared.workspace_bytes);
    const StepState state;
    prepared.kernel->run({reads.data(), writes.data(), workspace.data(), &state});
    EXPECT_TRUE(workspace.is_intact()) << name << ": more workspace than announced";
    for (const Evaluated& one : results) EXPECT_TRUE(one.buffer->is_intact()) << name;
    const Evaluated plain = in_layout(results[0], Layout());
    return to_floats(plain.buffer->copy(), result);
  }
};

ProductNode matmul_of(const char* name, const Dims& a, const Dims& b, const Dims& y, const Attrs& attrs = {},
                      bool bias = false) {
  ProductNode node{name, "matmul", attrs, {a, b}, {y}};
  if (bias) node.in.push_back({y[y.rank() - 1]});
  return node;
}

std::vector<ProductNode> convolutions(const char* name, const Dims& x, const Dims& kernel, const Dims& y,
                                      const Attrs& window) {
  Attrs of_input = window, of_kernel = window, with_relu = window;
  of_input.set("shape", Shape::from(x));
  of_kernel.set("kernel", Shape::from(kernel));
  of_kernel.set("bias", int64_t{1});
  with_relu.set("activation", std::string("relu"));
  const int64_t batch = x[0];
  return {{fmt::format("{}, forward", name), "conv2d", window, {x, kernel}, {y}, batch},
          {fmt::format("{}, relu", name), "conv2d", with_relu, {x, kernel, {kernel[0]}}, {y}, batch},
          {fmt::format("{}, input gradient", name), "conv2d_input_grad", of_input, {y, kernel}, {x}, batch},
          {fmt::format("{}, filter gradient", name),
           "conv2d_kernel_grad",
           of_kernel,
           {x, y},
           {kernel, {kernel[0]}},
           batch}};
}

std::vector<ProductNode> nodes() {
  const Attrs tb{{"transpose_b", int64_t{1}}}, ta{{"transpose_a", int64_t{1}}};
  std::vector<ProductNode> all{
      matmul_of("plain", {70, 130}, {130, 200}, {70, 200}),
      matmul_of("odd sizes", {97, 331}, {331, 67}, {97, 67}),
      matmul_of("bias and tanh", {64, 64}, {64, 96}, {64, 96}, {{"activation", std::string("tanh")}}, true),
      matmul_of("b transposed", {400, 257}, {100, 257}, {400, 100}, tb),
      matmul_of("a transposed", {333, 75}, {333, 80}, {75, 80}, ta),
      matmul_of("batched", {6, 64, 65}, {6, 70, 65}, {6, 64, 70}, tb),
      matmul_of("few, large", {2, 300, 520}, {1, 520, 260}, {2, 300, 260})};
  const Attrs padded{{"pads", Shape{1, 1, 1, 1}}}, strided{{"pads", Shape{1, 1, 1, 1}}, {"strides", Shape{2, 2}}};
  for (const auto& list : {convolutions("3x3", {4, 32, 24, 24}, {48, 32, 3, 3}, {4, 48, 24, 24}, padded),
                           convolutions("strided", {6, 16, 33, 33}, {64, 16, 3, 3}, {6, 64, 17, 17}, strided),
                           convolutions("large filter", {2, 256, 5, 5}, {256, 256, 3, 3}, {2, 256, 5, 5}, padded),
                           convolutions("1x1", {5, 64, 7, 7}, {32, 64, 1, 1}, {5, 32, 7, 7}, {}),
                           convolutions("odd channels", {7, 6, 14, 14}, {16, 6, 5, 5}, {7, 16, 10, 10}, {})})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

double largest(const std::vector<float>& numbers) {
  double most = 0;
  for (const float number : numbers) most = std::max(most, std::abs(static_cast<double>(number)));
  return most;
}

// Sums run in another order, and a result in bf16 is rounded once more.
void expect_close(const std::vector<float>& half, const std::vector<float>& wide, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(half.size(), wide.size());
  double worst = 0;
  for (size_t i = 0; i < half.size(); ++i) {
    ASSERT_TRUE(std::isfinite(half[i])) << what;
    worst = std::max(worst, std::abs(static_cast<double>(half[i]) - static_cast<double>(wide[i])));
  }
  EXPECT_LT(worst, tolerance * largest(wide)) << what;
  EXPECT_GT(largest(wide), 0) << what;
}

class HalfComputeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!multiplies_bf16()) GTEST_SKIP() << "this processor does not multiply bf16";
  }
};

TEST_F(HalfComputeTest, GivesTheNumbersOfF32OnRoundedOperands) {
  for (const ProductNode& node : nodes()) {
    SCOPED_TRACE(node.name);
    const std::optional<HalfCompute> half = node.half();
    ASSERT_TRUE(half) << "computed in f32";
    const std::vector<float> wide = node.run(false, 0, DType::F32);
    for (const uint32_t narrow : {half->takes, half->needs, half->needs | 1U, half->takes & (half->needs | 2U)})
      expect_close(node.run(true, narrow, DType::F32), wide, 1e-5, node.name);
    if (half->gives) expect_close(node.run(true, half->takes, DType::BF16), wide, 1.0 / 256, node.name);
  }
}

TEST_F(HalfComputeTest, GivesTheSameBitsForAnyThreads) {
  for (const ProductNode& node : nodes()) {
    SCOPED_TRACE(node.name);
    const uint32_t narrow = node.half()->takes;
    std::vector<float> one;
    for (int threads = 1; threads <= 8; ++threads) {
      const ThreadCount these(threads);
      const std::vector<float> many = node.run(true, narrow, DType::F32);
      if (threads == 1) one = many;
      EXPECT_TRUE(many == one) << threads << " threads";
    }
  }
}

TEST_F(HalfComputeTest, AddsWhatSumsOverTheBatch) {
  for (const ProductNode& node : nodes()) {
    if (std::string_view(node.op) != "conv2d_kernel_grad" && node.name != "a transposed") continue;
    const uint32_t narrow = node.half()->takes;
    expect_close(node.run(true, narrow, DType::F32, true), node.run(true, narrow, DType::F32), 1e-6, node.name);
  }
}

// Which products stay in f32 is a rule of sizes, not a measurement.
TEST_F(HalfComputeTest, LeavesToF32WhatIsAsFastThere) {
  // Its channels can't be cut into ranges of whole blocks, and threads that share it would wait for each other.
  const Attrs padded{{"pads", Shape{1, 1, 1, 1}}};
  const auto uncut = convolutions("uncut", {2, 512, 3, 3}, {16, 512, 3, 3}, {2, 16, 3, 3}, padded);
  EXPECT_FALSE(uncut.back().half());
  EXPECT_FALSE(matmul_of("short", {10, 100}, {100, 100}, {10, 100}).half());
  for (const ProductNode& node : convolutions("one channel", {4, 1, 9, 9}, {16, 1, 3, 3}, {4, 16, 7, 7}, {}))
    EXPECT_FALSE(node.half()) << node.name;
  for (const ProductNode& node :
       convolutions("depthwise", {4, 32, 9, 9}, {32, 1, 3, 3}, {4, 32, 7, 7}, {{"groups", int64_t{32}}}))
    EXPECT_FALSE(node.half()) << node.name;
}

}  // namespace
}  // namespace plimsoll::testing

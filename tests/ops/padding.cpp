// What a layout pads is no number: whatever counts, sums or looks at numbers gives the same for every layout, with
// poison in the padding.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/dnnl_layout.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "ops/padding.h"

namespace plimsoll::testing {
namespace {

using FormatTag = dnnl::memory::format_tag;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  const char* name;
  Dims dims;
  FormatTag tag;
};

// Every order of blocks that oneDNN has for images and filters, with channels that fill none.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"nChw4c", {2, 10, 3, 2}, FormatTag::nChw4c},          {"nChw8c", {2, 10, 3, 2}, FormatTag::nChw8c},
      {"nChw16c", {2, 10, 3, 2}, FormatTag::nChw16c},        {"nChw16c of pixels", {3, 24, 1, 1}, FormatTag::nChw16c},
      {"NChw16n16c", {3, 24, 2, 2}, FormatTag::NChw16n16c},  {"OIhw8i8o", {20, 10, 3, 3}, FormatTag::OIhw8i8o},
      {"OIhw8o8i", {20, 10, 3, 3}, FormatTag::OIhw8o8i},     {"OIhw16i16o", {20, 10, 3, 3}, FormatTag::OIhw16i16o},
      {"OIhw16o16i", {20, 10, 3, 3}, FormatTag::OIhw16o16i}, {"OIhw4i16o4i", {20, 10, 3, 3}, FormatTag::OIhw4i16o4i},
      {"IOhw16i16o", {20, 40, 3, 3}, FormatTag::IOhw16i16o}, {"Ohwi8o", {20, 3, 3, 3}, FormatTag::Ohwi8o},
      {"Ohwi16o", {20, 3, 3, 3}, FormatTag::Ohwi16o}};
  return all;
}

using Observe = std::function<Tensor(Tensor)>;

const std::vector<std::pair<const char*, Observe>>& observers() {
  static const std::vector<std::pair<const char*, Observe>> all{
      {"observe_range", [](Tensor x) { return ops::observe_range(x); }},
      {"count_bins", [](Tensor x) { return ops::count_bins(x, 64, 3); }},
      {"all_finite", [](Tensor x) { return ops::all_finite(x); }},
      {"sum_squares",
       [](Tensor x) {
         return ops::sum_squares(Gradient{x, {}}, {});
       }},
      {"reduce_sum", [](Tensor x) { return ops::reduce_sum(x); }},
      {"reduce_sum of images",
       [](Tensor x) {
         return ops::reduce_sum(x, {2, 3});
       }},
      {"reduce_mean", [](Tensor x) { return ops::reduce_mean(x); }},
      {"reduce_max of channels", [](Tensor x) { return ops::reduce_max(x, {1}); }},
      {"reduce_max", [](Tensor x) { return ops::reduce_max(x); }},
      {"reduce_min", [](Tensor x) { return ops::reduce_min(x); }},
      {"argmax", [](Tensor x) { return ops::argmax(x, 1); }},
      {"softmax", [](Tensor x) { return ops::softmax(x); }}};
  return all;
}

// All numbers are above 1, so that a zero from the padding would be the smallest, and in a bin of its own.
std::vector<float> numbers_of(const Dims& dims) {
  std::vector<float> numbers(static_cast<size_t>(element_count(dims)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 2 + std::sin(static_cast<float>(i));
  return numbers;
}

Evaluated value_of(const Dims& dims, const std::vector<float>& numbers, const Layout& layout) {
  const ConcreteType plain{DType::F32, dims, {}, false};
  Evaluated value{plain, std::make_shared<GuardedBuffer>(plain.bytes())};
  std::memcpy(value.buffer->data(), numbers.data(), numbers.size() * sizeof(float));
  return in_layout(value, layout);
}

void poison_padding(const Evaluated& value, float poison) {
  const std::vector<bool> is_padding = find_padding(value.type);
  ASSERT_NE(std::count(is_padding.begin(), is_padding.end(), true), 0);
  auto* numbers = static_cast<float*>(value.buffer->data());
  for (size_t i = 0; i < is_padding.size(); ++i)
    if (is_padding[i]) numbers[i] = poison;
}

std::vector<float> observe(const Observe& build, const Evaluated& value) {
  Graph graph;
  Shape shape;
  for (const int64_t dim : value.type.dims) shape.push_back(dim);
  const Tensor y = build(graph.placeholder("x", DType::F32, shape));
  const graph::Node& node = graph.body().nodes().back();
  const ConcreteType out_type{y.dtype(), at_batch(y.shape(), 1), {}, false};
  const Prepared prepared =
      node.op->prepare({graph.body().attrs(node), std::span(&value.type, 1), std::span(&out_type, 1), 1, 1, false});
  const Evaluated in = in_layout(value, prepared.in.empty() ? Layout() : prepared.in[0]);
  Evaluated out{out_type, nullptr};
  if (!prepared.out.empty()) out.type.layout = prepared.out[0];
  out.buffer = std::make_shared<GuardedBuffer>(out.type.bytes());
  GuardedBuffer workspace(prepared.workspace_bytes);
  const void* const ins[] = {in.buffer->data()};
  void* const outs[] = {out.buffer->data()};
  const StepState state;
  prepared.kernel->run({ins, outs, workspace.data(), &state});
  return to_floats(in_layout(out, {}).buffer->copy(), y.dtype());
}

TEST(Padding, IsIgnoredByWhatCountsSumsAndLooks) {
  for (const auto& [name, dims, tag] : cases()) {
    const std::vector<float> numbers = numbers_of(dims);
    const Layout layout{DnnlDesc(dnnl::memory::desc(to_dnnl(dims), dnnl::memory::data_type::f32, tag))};
    const Evaluated plain = value_of(dims, numbers, {}), blocked = value_of(dims, numbers, layout);
    for (const float poison : {0.0F, kNaN, 1e30F}) {
      poison_padding(blocked, poison);
      for (const auto& [what, build] : observers()) {
        SCOPED_TRACE(std::string(what) + " of " + name + " with padding of " + std::to_string(poison));
        const std::vector<float> expected = observe(build, plain), got = observe(build, blocked);
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5 * std::abs(expected[i])) << i;
      }
    }
  }
}

// The twin: a number that is not finite is found in every place that is none.
TEST(Padding, HidesNoNumber) {
  for (const auto& [name, dims, tag] : cases()) {
    const Layout layout{DnnlDesc(dnnl::memory::desc(to_dnnl(dims), dnnl::memory::data_type::f32, tag))};
    for (size_t at = 0; at < static_cast<size_t>(element_count(dims)); at += 7) {
      std::vector<float> numbers = numbers_of(dims);
      numbers[at] = kNaN;
      const Evaluated blocked = value_of(dims, numbers, layout);
      ASSERT_EQ(observe([](Tensor x) { return ops::all_finite(x); }, blocked).front(), 0) << name << " at " << at;
      ASSERT_EQ(observe([](Tensor x) { return ops::observe_range(x); }, blocked).back(), 1) << name << " at " << at;
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing

// Arithmetic on i32 and i64: exact beyond what floats hold, rounded down, wrapped around, and defined for zero
// divisors.
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

template <class T>
struct Integers {
  std::vector<T> run(const std::vector<T>& a, const std::vector<T>& b, Tensor (*build)(Tensor, Tensor)) {
    Graph graph;
    const auto size = [](const auto& list) { return Shape{static_cast<int64_t>(list.size())}; };
    const Tensor x = graph.placeholder("x", dtype_of<T>(), size(a)), y = graph.placeholder("y", dtype_of<T>(), size(b));
    const Tensor result = build(x, y);
    EXPECT_EQ(result.dtype(), dtype_of<T>());
    Evaluator evaluator(graph, 1);
    const auto bytes = [](const std::vector<T>& list) {
      const auto raw = std::as_bytes(std::span(list));
      return Contents(raw.begin(), raw.end());
    };
    evaluator.set(x.id(), bytes(a));
    evaluator.set(y.id(), bytes(b));
    evaluator.run();
    const Contents contents = evaluator.contents(result.id());
    std::vector<T> numbers(contents.size() / sizeof(T));
    std::memcpy(numbers.data(), contents.data(), contents.size());
    return numbers;
  }
};

template <class T>
class IntegersTest : public ::testing::Test, public Integers<T> {
 public:
  static constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
};
using Types = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(IntegersTest, Types);

TYPED_TEST(IntegersTest, QuotientsAreRoundedDown) {
  using T = TypeParam;
  const auto quotients = this->run({7, -7, 7, -7, 6, 5, this->kLeast, this->kLeast}, {2, 2, -2, -2, 3, 0, -1, 2},
                                   [](Tensor x, Tensor y) { return x / y; });
  EXPECT_EQ(quotients, (std::vector<T>{3, -4, -4, 3, 2, 0, this->kLeast, this->kLeast / 2}));
  const auto rests = this->run({7, -7, 7, -7, 6, 5, this->kLeast}, {2, 2, -2, -2, 3, 0, -1},
                               [](Tensor x, Tensor y) { return mod(x, y); });
  EXPECT_EQ(rests, (std::vector<T>{1, 1, -1, -1, 0, 0, 0}));
  EXPECT_EQ(this->run({7, -7}, {0}, [](Tensor x, Tensor) { return x / 2; }), (std::vector<T>{3, -4}));
}

TYPED_TEST(IntegersTest, SumsAndProductsWrapAround) {
  using T = TypeParam;
  const T least = this->kLeast, most = this->kMost;
  EXPECT_EQ(this->run({most, 16777216}, {1}, [](Tensor x, Tensor y) { return x + y; }),
            (std::vector<T>{least, 16777217}));
  EXPECT_EQ(this->run({least, 5}, {1}, [](Tensor x, Tensor y) { return x - y; }), (std::vector<T>{most, 4}));
  EXPECT_EQ(this->run({most, 46341}, {2}, [](Tensor x, Tensor y) { return x * y; }), (std::vector<T>{-2, 92682}));
  EXPECT_EQ(this->run({least, -3}, {1}, [](Tensor x, Tensor) { return abs(-x); }), (std::vector<T>{least, 3}));
  EXPECT_EQ(this->run({16777217, -1}, {1}, [](Tensor x, Tensor) { return 1 - x * 2; }), (std::vector<T>{-33554433, 3}));
}

TYPED_TEST(IntegersTest, ReductionsAreExact) {
  using T = TypeParam;
  std::vector<T> numbers(3 * 50'000);
  T sum = 0;
  for (size_t i = 0; i < numbers.size(); ++i) sum += numbers[i] = static_cast<T>(i % 20'011) - 9'000;
  EXPECT_EQ(this->run(numbers, {1}, [](Tensor x, Tensor) { return reduce_sum(x); }), std::vector<T>{sum});
  EXPECT_EQ(this->run(numbers, {1}, [](Tensor x, Tensor) { return reduce_max(x); }), std::vector<T>{11'010});
  EXPECT_EQ(this->run(numbers, {1}, [](Tensor x, Tensor) { return reduce_min(x); }), std::vector<T>{-9'000});
  // Of columns: each piece of the rows has its own results.
  T columns[3] = {};
  for (size_t i = 0; i < numbers.size(); ++i) columns[i % 3] += numbers[i];
  EXPECT_EQ(this->run(numbers, {1},
                      [](Tensor x, Tensor) {
                        return reduce_sum(reshape(x, {50'000, 3}), {0});
                      }),
            (std::vector<T>{columns[0], columns[1], columns[2]}));
}

TEST(IntegersRefuse, WhatIsNotWhole) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::I32, {3});
  EXPECT_THROW(x * 0.5, Error);
  EXPECT_THROW(x + 1.5, Error);
  EXPECT_THROW(x / 0, Error);
  EXPECT_THROW(x + graph.placeholder("y", DType::I64, {3}), Error);
}

TEST(Tensors, AreChangedByAssigningOperators) {
  Graph graph;
  const Tensor a = graph.placeholder("a", DType::F32, {2}), b = graph.placeholder("b", DType::F32, {2});
  Tensor x = a;
  x += b;
  x *= 3;
  x -= a;
  x /= b;
  x = 1.0F / x;
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(a.id(), {1, 4});
  evaluator.set_floats(b.id(), {2, -8});
  evaluator.run();
  // 1 / ((3 (a + b) - a) / b)
  EXPECT_EQ(evaluator.floats(x.id()), (std::vector<float>{0.25F, 0.5F}));
  EXPECT_EQ(evaluator.floats(a.id()), (std::vector<float>{1, 4}));
}

}  // namespace
}  // namespace plimsoll::testing

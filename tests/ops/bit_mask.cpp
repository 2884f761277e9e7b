// Masks and what passes them, bit by bit and element by element, against their definition.
#include <cmath>

#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "ops/ops.h"
#include "support/error_of.h"

namespace plimsoll::testing {
namespace {

constexpr int64_t kBatch = 3;

struct Case {
  Shape shape;
  int axis;
  int64_t convolved = 0;  // so many channels come out of a convolution: in blocks
};

// y, its mask, and the sum of two values where the mask lets it pass.
void expect_definition(const Case& c, double low, double high) {
  Graph graph;
  ops::SampleBuilder s(graph);
  const Tensor x = s.input(c.shape);
  const Tensor y = c.convolved > 0 ? conv2d(x, s.input({c.convolved, c.shape[1].fixed(), 1, 1})) : scale(x, 2);
  const Tensor more = s.input(y.shape());
  const Tensor mask = ops::bit_mask(y, c.axis, low, high);
  const Tensor one = ops::masked(mask, y, {}, c.axis);
  const Tensor sum = ops::masked(mask, more, y, c.axis);
  Evaluator evaluator(graph, kBatch);
  for (const ops::SampleBuilder::Input& input : s.inputs())
    evaluator.set(input.tensor.id(),
                  sample_contents(input.tensor.type(), std::string(input.tensor.name()), -1, 1, kBatch));
  evaluator.run();

  const std::vector<float> of_y = evaluator.floats(y.id()), of_more = evaluator.floats(more.id());
  const std::vector<float> of_one = evaluator.floats(one.id()), of_sum = evaluator.floats(sum.id());
  const Contents bits = evaluator.contents(mask.id());
  const Dims dims = at_batch(y.shape(), kBatch);
  int64_t inner = 1;
  for (int i = c.axis + 1; i < dims.rank(); ++i) inner *= dims[i];
  const int64_t channels = dims[c.axis], groups = (channels + 7) / 8;
  std::vector<unsigned> expected(bits.size(), 0);
  bool any = false, all = true;
  for (size_t i = 0; i < of_y.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t pixel = at % inner, channel = at / inner % channels, outer = at / inner / channels;
    const bool passes = of_y[i] > static_cast<float>(low) && of_y[i] < static_cast<float>(high);
    expected[static_cast<size_t>((outer * groups + channel / 8) * inner + pixel)] |= passes ? 1U << channel % 8 : 0;
    any = any || passes;
    all = all && passes;
    ASSERT_EQ(of_one[i], passes ? of_y[i] : 0.0F) << i;
    ASSERT_EQ(of_sum[i], passes ? of_more[i] + of_y[i] : 0.0F) << i;
  }
  EXPECT_TRUE(any && !all);
  for (size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(static_cast<unsigned>(bits[i]), expected[i]) << "byte " << i;
}

TEST(BitMask, IsItsDefinition) {
  const Dim batch = Dim::batch();
  for (const Case& c : {Case{{batch, 64}, 1},
                        {{batch, 13}, 1},
                        {{batch, 5, 9}, 2},
                        {{batch, 5, 9}, 1},
                        {{19, batch}, 0},
                        {{batch, 16, 1, 1}, 1},
                        {{batch, 3, 17, 5}, 1},
                        {{batch, 20, 37, 41}, 1},
                        {{batch, 8, 7, 9}, 1, 8},
                        {{batch, 8, 7, 9}, 1, 16},
                        {{batch, 8, 7, 9}, 1, 24},
                        {{batch, 8, 7, 9}, 1, 6},
                        {{batch, 8, 64, 96}, 1, 32},
                        {{batch, 8, 4, 12}, 3, 16}}) {
    SCOPED_TRACE(to_string(c.shape) + " axis " + std::to_string(c.axis) + ", convolved " + std::to_string(c.convolved));
    expect_definition(c, 0, std::numeric_limits<double>::infinity());
    expect_definition(c, -0.25, 0.5);
  }
}

// As the gradients of relu and clip do.
TEST(BitMask, InfinityPassesUnlessThereIsAnUpperEdgeAndNanNever) {
  Graph graph;
  const Tensor y = graph.placeholder("y", DType::F32, {4});
  const Tensor open = ops::bit_mask(y, 0), closed = ops::bit_mask(y, 0, 0, 6);
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(y.id(), {INFINITY, -INFINITY, NAN, 1});
  evaluator.run();
  EXPECT_EQ(evaluator.contents(open.id()), Contents{std::byte{0b1001}});
  EXPECT_EQ(evaluator.contents(closed.id()), Contents{std::byte{0b1000}});
}

TEST(BitMask, RefusesWhatDoesNotGoTogether) {
  Graph graph;
  const Tensor y = graph.placeholder("y", DType::F32, {Dim::batch(), 12});
  EXPECT_NE(error_of([&] { ops::bit_mask(y, 0); }).find("axis 0 of [B,12] can't be packed"), std::string::npos);
  EXPECT_NE(error_of([&] {
              ops::masked(graph.placeholder("m", DType::U8, {Dim::batch(), 3}), y, {}, 1);
            }).find("the mask of f32[B,12] is u8[B,2]"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::testing

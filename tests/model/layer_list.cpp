// The layers of the list: their shapes, numbers, weights, and what they refuse.
#include <plimsoll/layers.h>

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/ops.h>
#include <plimsoll/session.h>
#include "graph/body.h"
#include "support/error_of.h"

namespace plimsoll {
namespace {

using layers::Layer;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// What a layer gives for 0, 1, 2 ... in that shape.
struct Given {
  Shape shape;
  std::vector<float> numbers;
};
Given give(const Layer& layer, Shape shape, int64_t batch = 1, bool training = false) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, shape);
  const Tensor y = layer(x, training);
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = {y}, .batch = batch});
  std::vector<float> numbers(static_cast<size_t>(element_count(shape).at(batch)));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto results = step({Feed(x, numbers)});
  const std::span<const float> floats = results[0].floats();
  return {y.shape(), {floats.begin(), floats.end()}};
}

Shape shape_of(const Layer& layer, Shape shape) {
  Graph graph;
  return layer(graph.placeholder("x", DType::F32, shape), false).shape();
}

std::string refusal(const Layer& layer, Shape shape) {
  return error_of([&] { shape_of(layer, shape); });
}

const Dim B = Dim::batch();

TEST(LayerList, EveryLineHasAFunctionAndALayer) {
  EXPECT_GT(layers::functions().size(), 50U);
  for (const layers::LayerFunction& function : layers::functions()) {
    EXPECT_FALSE(function.description.empty()) << function.name;
    for (const layers::LayerArgument& argument : function.arguments)
      EXPECT_FALSE(argument.type.empty()) << function.name;
  }
}

TEST(LayerList, ShapesOfConvolutions) {
  EXPECT_EQ(shape_of(layers::conv1d(8, 3, {.strides = {2}, .padding = "same"}), {B, 4, 9}), (Shape{B, 8, 5}));
  EXPECT_EQ(shape_of(layers::conv1d(8, 3, {.padding = "causal"}), {B, 4, 9}), (Shape{B, 8, 9}));
  EXPECT_EQ(shape_of(layers::conv3d(8, {3}, {.padding = "same"}), {B, 2, 4, 5, 6}), (Shape{B, 8, 4, 5, 6}));
  EXPECT_EQ(shape_of(layers::conv3d(8, {2}, {.strides = {2}}), {B, 2, 4, 6, 8}), (Shape{B, 8, 2, 3, 4}));
  EXPECT_EQ(shape_of(layers::conv1d_transpose(8, 3, {.strides = {2}, .padding = "same"}), {B, 4, 5}),
            (Shape{B, 8, 10}));
  EXPECT_EQ(shape_of(layers::conv3d_transpose(8, {2}, {.strides = {2}}), {B, 4, 2, 3, 4}), (Shape{B, 8, 4, 6, 8}));
  EXPECT_EQ(shape_of(layers::separable_conv1d(8, 3), {B, 4, 9}), (Shape{B, 8, 7}));
  EXPECT_EQ(shape_of(layers::separable_conv2d(8, 3, {.strides = 2}), {B, 4, 9, 9}), (Shape{B, 8, 4, 4}));
  EXPECT_EQ(shape_of(layers::depthwise_conv1d(3, {}, 2), {B, 4, 9}), (Shape{B, 8, 7}));
  EXPECT_THAT(refusal(layers::conv1d(8, 3), {B, 4, 9, 9}), HasSubstr("a line [batch, channels, length]"));
  EXPECT_THAT(refusal(layers::conv1d(8, 3, {.padding = "full"}), {B, 4, 9}), HasSubstr("padding can't be 'full'"));
  EXPECT_THAT(refusal(layers::conv3d(8, {3, 3}), {B, 2, 4, 5, 6}),
              HasSubstr("give one number, or one for each of 3 axes"));
  EXPECT_THAT(refusal(layers::conv1d(8, 3, {.groups = 3}), {B, 4, 9}), HasSubstr("can't be split into 3 groups"));
}

// What comes later does not change what came before.
TEST(LayerList, ACausalConvolutionSeesThePast) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {B, 1, 4});
  const Tensor y = layers::conv1d(x, 1, 3, {.padding = "causal", .kernel = Init::ones()});
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = {y}, .batch = 1});
  const auto results = step({Feed(x, std::vector<float>{1, 10, 100, 1000})});
  EXPECT_THAT(results[0].floats(), Pointwise(FloatNear(1e-4F), {1.0F, 11.0F, 111.0F, 1110.0F}));
}

TEST(LayerList, Pools) {
  EXPECT_THAT(give(layers::max_pool1d(2), {B, 1, 4}).numbers, ElementsAre(1, 3));
  EXPECT_THAT(give(layers::average_pool1d(2), {B, 1, 4}).numbers, ElementsAre(0.5F, 2.5F));
  EXPECT_THAT(give(layers::max_pool3d({2}), {B, 1, 2, 2, 2}).numbers, ElementsAre(7));
  EXPECT_THAT(give(layers::average_pool3d({2}, {.padding = "same"}), {B, 1, 3, 2, 2}).numbers, ElementsAre(3.5F, 9.5F))
      << "padding does not count";
  EXPECT_THAT(give(layers::global_max_pool(), {B, 2, 3}).numbers, ElementsAre(2, 5));
  EXPECT_THAT(give(layers::global_average_pool(), {B, 2, 3}).numbers, ElementsAre(1, 4));
  EXPECT_EQ(shape_of(layers::global_max_pool(), {B, 2, 3, 4}), (Shape{B, 2}));
  // Windows of PyTorch: [0, 2), [1, 3), [3, 5) of five for three.
  EXPECT_THAT(give(layers::adaptive_average_pool({3}), {B, 1, 5}).numbers, ElementsAre(0.5F, 2, 3.5F));
  EXPECT_THAT(refusal(layers::adaptive_max_pool({9}), {B, 1, 5}), HasSubstr("fewer than 9 elements"));
  EXPECT_THAT(refusal(layers::global_max_pool(), {B, 2}), HasSubstr("a line, an image or a volume"));
}

TEST(LayerList, Shapes) {
  EXPECT_EQ(shape_of(layers::reshape({3, -1}), {B, 6, 2}), (Shape{B, 3, 4}));
  EXPECT_THAT(refusal(layers::reshape({5, -1}), {B, 6, 2}), HasSubstr("has 12 elements, which is not"));
  EXPECT_EQ(shape_of(layers::permute({2, 1}), {B, 6, 2}), (Shape{B, 2, 6}));
  EXPECT_THAT(refusal(layers::permute({1, 1}), {B, 6, 2}), HasSubstr("is no order of the 2 axes"));
  EXPECT_THAT(give(layers::repeat_vector(2), {B, 2}).numbers, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(give(layers::up_sampling(), {B, 1, 2}).numbers, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(give(layers::up_sampling({1, 2}), {B, 1, 1, 2}).numbers, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(shape_of(layers::up_sampling({3}, "bilinear"), {B, 1, 2, 4}), (Shape{B, 1, 6, 12}));
  EXPECT_THAT(give(layers::zero_padding({1}, {2}), {B, 1, 2}).numbers, ElementsAre(0, 0, 1, 0, 0));
  EXPECT_THAT(give(layers::cropping({1}), {B, 1, 4}).numbers, ElementsAre(1, 2));
  EXPECT_THAT(refusal(layers::cropping({2}), {B, 1, 4}), HasSubstr("nothing is left"));
  EXPECT_EQ(shape_of(layers::center_crop({2, 4}), {B, 3, 5, 6}), (Shape{B, 3, 2, 4}));
  EXPECT_EQ(shape_of(layers::resizing({2, 4}), {B, 3, 5, 6}), (Shape{B, 3, 2, 4}));
  EXPECT_EQ(shape_of(layers::time_distributed(layers::dense(7)), {B, 5, 3}), (Shape{B, 5, 7}));
  EXPECT_EQ(shape_of(layers::time_distributed(layers::conv2d(4, 3)), {B, 5, 3, 8, 8}), (Shape{B, 5, 4, 6, 6}));
}

TEST(LayerList, NoiseIsForTrainingAlone) {
  const Shape image{B, 8, 2, 2};
  for (const Layer& layer : {layers::spatial_dropout(0.5), layers::gaussian_noise(1), layers::gaussian_dropout(0.5),
                             layers::alpha_dropout(0.5), layers::dropout(0.5)}) {
    const std::vector<float> still = give(layer, image).numbers;
    EXPECT_EQ(still[5], 5);
    EXPECT_NE(give(layer, image, 1, true).numbers, still);
  }
  const std::vector<float> dropped = give(layers::spatial_dropout(0.5), image, 1, true).numbers;
  for (size_t c = 1; c < 8; ++c)
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(dropped[c * 4 + i], dropped[c * 4] == 0 ? 0 : 2 * static_cast<float>(c * 4 + i)) << "whole channels";
  EXPECT_THAT(refusal(layers::gaussian_dropout(1), image), HasSubstr("at least 0 and below 1"));
}

TEST(LayerList, NormsAndElements) {
  EXPECT_THAT(give(layers::unit_norm(), {B, 2}, 1).numbers, ElementsAre(0, 1));
  EXPECT_THAT(give(layers::rescaling(2, 1), {B, 3}).numbers, ElementsAre(1, 3, 5));
  EXPECT_THAT(give(layers::normalization({1, 2}, {2, 4}), {B, 2}).numbers, ElementsAre(-0.5F, -0.25F));
  EXPECT_THAT(refusal(layers::normalization({1}, {0}), {B, 2}), HasSubstr("a deviation must be positive"));
  EXPECT_EQ(shape_of(layers::discretization({0.5, 1.5}), {B, 3}), (Shape{B, 3}));
  EXPECT_THAT(give(layers::category_encoding(4), {B, 3}).numbers, ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(give(layers::category_encoding(3, "count"), {B, 3}).numbers, ElementsAre(1, 1, 1));
  EXPECT_THAT(give(layers::prelu({1}, Init::constant(0.5)), {B, 3}).numbers, ElementsAre(0, 1, 2));
  EXPECT_EQ(shape_of(layers::instance_norm(), {B, 3, 4, 4}), (Shape{B, 3, 4, 4}));
  EXPECT_EQ(shape_of(layers::rms_norm(), {B, 3}), (Shape{B, 3}));
  EXPECT_EQ(shape_of(layers::einsum_dense("btd,dhk->bthk", {6, 2, 5}, {2, 5}), {B, 3, 6}), (Shape{B, 3, 2, 5}));
}

TEST(LayerList, Merges) {
  Graph graph;
  const Tensor a = graph.placeholder("a", DType::F32, {B, 2}), b = graph.placeholder("b", DType::F32, {B, 2});
  MemoryLine line;
  const std::vector<Tensor> all{layers::add({a, b}),     layers::subtract({a, b}), layers::multiply({a, b}),
                                layers::average({a, b}), layers::maximum({a, b}),  layers::minimum({a, b}),
                                layers::dot({a, b})};
  Session session(graph, line);
  Step step = session.step({.fetch = all, .batch = 1});
  const auto results = step({Feed(a, std::vector<float>{1, 4}), Feed(b, std::vector<float>{3, 2})});
  const std::vector<std::vector<float>> expected{{4, 6}, {-2, 2}, {3, 8}, {2, 3}, {3, 4}, {1, 2}, {11}};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_THAT(results[i].floats(), Pointwise(FloatNear(1e-6F), expected[i])) << i;
  EXPECT_THAT(error_of([&] { layers::subtract({a}); }), HasSubstr("it takes two tensors but has 1"));
  EXPECT_THAT(error_of([&] { layers::average({}); }), HasSubstr("at least 1 tensors"));
}

TEST(LayerList, ASpectralNormDividesByTheLargestSingularValue) {
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {2, 2}, Init::zeros());
  const Tensor divided = layers::spectral_norm(w, 30);
  EXPECT_THAT(error_of([&] { layers::spectral_norm(graph.scalar(1)); }), HasSubstr("is no matrix"));
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = {divided}});
  const std::vector<float> numbers{3, 0, 0, 1};
  session.set(w, numbers);
  const auto results = step({});
  EXPECT_THAT(results[0].floats(), Pointwise(FloatNear(1e-4F), {1.0F, 0.0F, 0.0F, 1.0F / 3}));
}

TEST(LayerList, FansAreThoseOfTheShape) {
  Graph graph;
  const auto init_of = [&](const char* name, const Shape& shape, const Init& init) {
    return graph.body().variable_of(graph.variable(name, DType::F32, shape, init).id()).stored->init;
  };
  EXPECT_EQ(init_of("a", {30, 20}, Init::glorot_uniform()).b, Init::glorot_uniform(30, 20).b);
  EXPECT_EQ(init_of("b", {16, 4, 3, 3}, Init::he_normal()), Init::he_normal(4 * 9));
  EXPECT_EQ(init_of("c", {30, 20}, Init::named("xavier_uniform")).kind, Init::Kind::Uniform);
  EXPECT_EQ(init_of("d", {3, 3}, Init::identity()).b, 3);
  EXPECT_THAT(error_of([&] { init_of("e", {3}, Init::identity()); }),
              HasSubstr("only a matrix can start as the identity"));
  EXPECT_THAT(error_of([&] { Init::named("kaiming"); }), HasSubstr("'kaiming' is unknown; known are zeros"));
}

// A struct with a call is a layer: a model in two lines.
struct Block {
  Tensor operator()(Tensor x, bool training) const { return layers::dropout(layers::dense(x, 3), 0.1, training); }
};
TEST(LayerList, AStructIsALayer) { EXPECT_EQ(shape_of(Block(), {B, 5}), (Shape{B, 3})); }

}  // namespace
}  // namespace plimsoll

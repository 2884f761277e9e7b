// The element-wise engine against a naive loop: broadcasting, conversions, layouts, chains.
#include "kernels/elementwise.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <plimsoll/optimiser.h>
#include "base/random.h"
#include "kernels/dnnl_layout.h"
#include "ops/evaluate.h"
#include "ops/fused.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using namespace kernels;

std::vector<float> reals(int64_t count, uint64_t seed, float low = -2, float high = 2) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = low + (high - low) * static_cast<float>(unit_real(mix_bits(seed, i)));
  return values;
}

// The element of `from` that stands at flat index `i` of `to`.
int64_t broadcast_index(const Dims& from, const Dims& to, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int d = to.rank() - 1; d >= to.rank() - from.rank(); --d) {
    const int64_t size = from[d - to.rank() + from.rank()];
    if (size != 1) at += i % to[d] * stride;
    stride *= size;
    i /= to[d];
  }
  return at;
}

std::vector<float> run(Graph& graph, Tensor y, const std::vector<std::pair<Tensor, std::vector<float>>>& feeds) {
  Evaluator evaluator(graph, 1);
  for (const auto& [tensor, values] : feeds) evaluator.set_floats(tensor.id(), values);
  evaluator.run();
  return evaluator.floats(y.id());
}

TEST(Elementwise, BroadcastsLikeANaiveLoop) {
  const std::vector<std::pair<Dims, Dims>> cases{{{3, 10}, {10}},
                                                 {{700, 10}, {10}},
                                                 {{700, 10}, {700, 1}},
                                                 {{9, 768}, {768}},
                                                 {{9, 768}, {9, 1}},
                                                 {{5, 3000}, {3000}},
                                                 {{5, 3000}, {5, 1}},
                                                 {{4, 8, 49}, {8, 1}},
                                                 {{4, 100, 49}, {100, 1}},
                                                 {{2, 33, 300}, {33, 1}},
                                                 {{2, 3, 5, 7}, {3, 1, 7}},
                                                 {{50, 3, 5, 7}, {50, 1, 5, 1}},
                                                 {{1, 5}, {7, 1}},
                                                 {{40, 1, 30}, {1, 50, 1}},
                                                 {{}, {4097}},
                                                 {{1, 1, 1}, {2, 1100}},
                                                 {{4097}, {4097}},
                                                 {{1}, {1}},
                                                 {{}, {}},
                                                 {{6, 1, 2000}, {5, 1}}};
  for (const auto& [a_dims, b_dims] : cases) {
    SCOPED_TRACE(to_string(a_dims) + " - " + to_string(b_dims));
    for (const bool swap : {false, true}) {
      Graph graph;
      const Dims& p = swap ? b_dims : a_dims;
      const Dims& q = swap ? a_dims : b_dims;
      const Tensor a = graph.placeholder("a", DType::F32, Shape::from(p));
      const Tensor b = graph.placeholder("b", DType::F32, Shape::from(q));
      const Tensor y = sub(a, b);
      const std::vector<float> x0 = reals(element_count(p), 1);
      const std::vector<float> x1 = reals(element_count(q), 2);
      const std::vector<float> got = run(graph, y, {{a, x0}, {b, x1}});
      const Dims out = at_batch(y.shape(), 1);
      ASSERT_EQ(static_cast<int64_t>(got.size()), element_count(out));
      for (int64_t i = 0; i < element_count(out); ++i)
        ASSERT_EQ(got[static_cast<size_t>(i)], x0[static_cast<size_t>(broadcast_index(p, out, i))] -
                                                   x1[static_cast<size_t>(broadcast_index(q, out, i))])
            << i;
    }
  }
}

TEST(Elementwise, ShapesThatDoNotFitAreRefused) {
  Graph graph;
  const Tensor a = graph.placeholder("a", DType::F32, {3, 4});
  const Tensor b = graph.placeholder("b", DType::F32, {3});
  const Tensor n = graph.placeholder("n", DType::I32, {3, 4});
  EXPECT_THROW(add(a, b), Error);
  EXPECT_THROW(add(a, n), Error);
  EXPECT_THROW(relu(n), Error);
  EXPECT_THROW(dropout(a, 1.5), Error);
  EXPECT_THROW(clip(a, 1, 0), Error);
  EXPECT_THROW(where(a, a, a), Error);
}

TEST(Elementwise, ConversionsRoundAndSaturate) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0,    -0.7F, 0.7F,  1.99F,  -1.99F, 127.9F, 128, -129,  255.5F, 256,
                             3e9F, -3e9F, 1e19F, -1e19F, inf,    -inf,   NAN, 65504, 1e-7F};
  const auto through = [&](DType dtype) {
    std::vector<std::byte> bytes(x.size() * 8);
    std::vector<float> back(x.size());
    store_of(dtype)(x.data(), bytes.data(), x.size());
    load_of(dtype)(bytes.data(), back.data(), x.size());
    return back;
  };
  const std::vector<float> i8 = through(DType::I8);
  const std::vector<float> u8 = through(DType::U8);
  const std::vector<float> i32 = through(DType::I32);
  const std::vector<float> i64 = through(DType::I64);
  const std::vector<float> truth = through(DType::Bool);
  for (size_t i = 0; i < x.size(); ++i) {
    SCOPED_TRACE(x[i]);
    const double whole = std::isnan(x[i]) ? 0 : std::trunc(x[i]);
    EXPECT_EQ(i8[i], std::clamp(whole, -128.0, 127.0));
    EXPECT_EQ(u8[i], std::clamp(whole, 0.0, 255.0));
    EXPECT_EQ(i32[i], static_cast<float>(std::clamp(whole, -2147483648.0, 2147483647.0)));
    EXPECT_EQ(i64[i], static_cast<float>(std::clamp(whole, -0x1.0p63, 0x1.0p63)));
    EXPECT_EQ(truth[i], x[i] != 0 ? 1 : 0);
  }
  // Every half and every bfloat survives.
  for (const DType dtype : {DType::F16, DType::BF16}) {
    std::vector<uint16_t> all(65536), again(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(65536);
    load_of(dtype)(all.data(), wide.data(), all.size());
    store_of(dtype)(wide.data(), again.data(), all.size());
    for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(std::isnan(wide[i]) || all[i] == again[i]) << i;
  }
  // Ties go to the even neighbour.
  const std::vector<float> ties{1 + 0x1.0p-8F, 1 + 3 * 0x1.0p-8F};
  std::vector<float> back(2);
  uint16_t halves[2];
  store_of(DType::BF16)(ties.data(), halves, 2);
  load_of(DType::BF16)(halves, back.data(), 2);
  EXPECT_EQ(back[0], 1.0F);
  EXPECT_EQ(back[1], 1 + 0x1.0p-6F);
}

TEST(Elementwise, LargeIntegersAreCastExactly) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::I32, {3});
  const Tensor y = cast(x, DType::I64);
  const Tensor z = cast(y, DType::I32);
  Evaluator evaluator(graph, 1);
  const int32_t numbers[] = {16777217, -2147483647, 2147483647};
  Contents contents(sizeof numbers);
  std::memcpy(contents.data(), numbers, sizeof numbers);
  evaluator.set(x.id(), contents);
  evaluator.run();
  EXPECT_EQ(evaluator.contents(z.id()), contents);
  int64_t wide[3];
  std::memcpy(wide, evaluator.contents(y.id()).data(), sizeof wide);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(wide[i], numbers[i]);
}

TEST(Elementwise, HalvesAreComputedAsFloats) {
  Graph graph;
  const Tensor a = graph.placeholder("a", DType::F32, {7, 130});
  const Tensor b = graph.placeholder("b", DType::F32, {130});
  const Tensor y = cast(mul(cast(a, DType::F16), cast(b, DType::F16)), DType::F32);
  const std::vector<float> x0 = reals(7 * 130, 1), x1 = reals(130, 2);
  const std::vector<float> got = run(graph, y, {{a, x0}, {b, x1}});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], x0[i] * x1[i % 130], 5e-3);
}

// A blocked layout, eight channels at a time.
Layout blocked(DType dtype, const Dims& dims) {
  return Layout(dnnl::memory::desc(to_dnnl(dims), to_dnnl(dtype), dnnl::memory::format_tag::nChw8c));
}

TEST(Elementwise, ABlockedLayoutPassesThrough) {
  const Dims dims{2, 16, 3, 5};
  const Op* op = ops::find_op("add");
  const Attrs attrs;
  const ConcreteType plain{DType::F32, dims, {}, false};
  ConcreteType other = plain;
  other.layout = blocked(DType::F32, dims);
  const ConcreteType number{DType::F32, {}, {}, false};
  const ConcreteType channels{DType::F32, {16, 1, 1}, {}, false};
  const auto ask = [&](const ConcreteType& a, const ConcreteType& b) {
    const std::vector<ConcreteType> in{a, b};
    return op->prepare(Facts{attrs, in, std::span(&plain, 1), 2, 2, false});
  };
  for (const Prepared& prepared : {ask(other, plain), ask(plain, other), ask(other, other)}) {
    ASSERT_EQ(prepared.in.size(), 2U);
    EXPECT_EQ(prepared.in[0], other.layout);
    EXPECT_EQ(prepared.in[1], other.layout);
    EXPECT_EQ(prepared.out[0], other.layout);
  }
  const Prepared scaled = ask(number, other);
  ASSERT_EQ(scaled.in.size(), 2U);
  EXPECT_TRUE(scaled.in[0].is_plain());
  EXPECT_EQ(scaled.out[0], other.layout);
  EXPECT_TRUE(ask(other, channels).in.empty());
  EXPECT_TRUE(ask(plain, plain).in.empty());

  // A comparison keeps the order for its one-byte result.
  const std::vector<ConcreteType> in{other, other};
  const ConcreteType truth{DType::Bool, dims, {}, false};
  const Prepared compared = ops::find_op("less")->prepare(Facts{attrs, in, std::span(&truth, 1), 2, 2, false});
  ASSERT_EQ(compared.out.size(), 1U);
  EXPECT_EQ(compared.out[0], blocked(DType::Bool, dims));

  // Padded channels, and operators that use the index of an element, fall back to the plain layout.
  const Dims odd{2, 3, 3, 5};
  ConcreteType padded{DType::F32, odd, blocked(DType::F32, odd), false};
  const ConcreteType odd_plain{DType::F32, odd, {}, false};
  EXPECT_TRUE(ops::find_op("relu")
                  ->prepare(Facts{attrs, std::span(&padded, 1), std::span(&odd_plain, 1), 2, 2, false})
                  .in.empty());
  const Attrs drop{{"rate", 0.5}, {"key", int64_t{1}}, {"per_sample", int64_t{240}}};
  EXPECT_TRUE(ops::find_op("dropout")
                  ->prepare(Facts{drop, std::span(&other, 1), std::span(&plain, 1), 2, 2, false})
                  .in.empty());
}

// A chain run as one node, against its steps run as nodes.
TEST(Elementwise, AFusedChainEqualsItsSteps) {
  for (const int64_t rows : {1, 7, 3000}) {
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {rows, 10});
    const Tensor bias = graph.placeholder("bias", DType::F32, {10});
    const Tensor gate = graph.placeholder("gate", DType::F32, {rows, 1});
    const Tensor sum = add(x, bias);
    const Tensor active = gelu(sum);
    const Tensor gated = mul(active, gate);
    const Tensor narrow = cast(gated, DType::BF16);
    const Tensor wide = cast(narrow, DType::F32);
    const Tensor y = sub(wide, x);
    const Tensor mask = greater(y, bias);
    const std::vector<ops::FusedStep> steps{{ops::find_op("add"), {}, {0, 1}},
                                            {ops::find_op("gelu"), {}, {3}},
                                            {ops::find_op("mul"), {}, {4, 2}},
                                            {ops::find_op("cast"), {{"dtype", std::string("bf16")}}, {5}},
                                            {ops::find_op("cast"), {{"dtype", std::string("f32")}}, {6}},
                                            {ops::find_op("sub"), {}, {7, 0}},
                                            {ops::find_op("greater"), {}, {8, 1}}};
    const std::vector inputs{x, bias, gate};
    const graph::Outputs one = ops::fused(inputs, steps, {3, 6, 8, 9});
    Evaluator evaluator(graph, 1);
    evaluator.set_floats(x.id(), reals(rows * 10, 1));
    evaluator.set_floats(bias.id(), reals(10, 2));
    evaluator.set_floats(gate.id(), reals(rows, 3));
    evaluator.run();
    EXPECT_EQ(evaluator.contents(one[0].id()), evaluator.contents(sum.id()));
    EXPECT_EQ(evaluator.contents(one[1].id()), evaluator.contents(narrow.id()));
    EXPECT_EQ(evaluator.contents(one[2].id()), evaluator.contents(y.id()));
    EXPECT_EQ(evaluator.contents(one[3].id()), evaluator.contents(mask.id()));
  }
}

TEST(Elementwise, FusedProgramsAreChecked) {
  Graph graph;
  const std::vector inputs{graph.placeholder("x", DType::F32, {4, 10}), graph.placeholder("b", DType::F32, {10})};
  const Op* relu = ops::find_op("relu");
  const Op* add = ops::find_op("add");
  EXPECT_THROW(ops::fused(inputs, {{relu, {}, {5}}}, {2}), Error);                        // unknown register
  EXPECT_THROW(ops::fused(inputs, {{relu, {}, {0}}}, {0}), Error);                        // an input as output
  EXPECT_THROW(ops::fused(inputs, {{relu, {}, {1}}}, {2}), Error);                        // smaller than the whole
  EXPECT_THROW(ops::fused(inputs, {{ops::find_op("matmul"), {}, {0, 1}}}, {2}), Error);   // not element-wise
  EXPECT_THROW(ops::fused(inputs, {{relu, {}, {0}}, {add, {}, {2, 1}}}, {3, 3}), Error);  // twice
  EXPECT_NO_THROW(ops::fused(inputs, {{relu, {}, {0}}, {add, {}, {2, 1}}}, {2, 3}));
  const Attrs drop{{"rate", 0.5}, {"key", int64_t{1}}, {"per_sample", int64_t{0}}};
  EXPECT_THROW(ops::fused(inputs, {{ops::find_op("dropout"), drop, {1}}, {add, {}, {0, 2}}}, {3}), Error);
}

TEST(Elementwise, LargeOutputsAreRight) {
  // Above the size from which outputs are written past the caches.
  const int64_t count = 7 * MiB + 5;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {count});
  const Tensor y = scale(x, 3, 1);
  const std::vector<float> in = reals(count, 1);
  const std::vector<float> got = run(graph, y, {{x, in}});
  // Processors without a multiply-add round twice.
  const bool rounds_once = (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2)) != 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const float product = in[i] * 3.0F;
    ASSERT_EQ(got[i], rounds_once ? std::fma(in[i], 3.0F, 1.0F) : product + 1.0F) << i;
  }
}

TEST(Elementwise, LargeOutputsOfSeveralStepsAreRight) {
  // One of them is read by a later step, one by none.
  const int64_t count = 7 * MiB + 5;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {count});
  const std::vector inputs{x};
  const graph::Outputs got =
      ops::fused(inputs, {{ops::find_op("neg"), {}, {0}}, {ops::find_op("relu"), {}, {1}}}, {1, 2});
  const std::vector<float> in = reals(count, 1);
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), in);
  evaluator.run();
  const std::vector<float> negated = evaluator.floats(got[0].id());
  const std::vector<float> active = evaluator.floats(got[1].id());
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(negated[i], -in[i]) << i;
    ASSERT_EQ(active[i], std::max(-in[i], 0.0F)) << i;
  }
}

TEST(Elementwise, FunctionsAreAccurate) {
  struct Case {
    Tensor (*function)(Tensor, Name);
    double (*expected)(double);
    float low, high;
    double ulps;
  };
  const std::vector<Case> cases{{exp, std::exp, -100, 88, 4},
                                {log, std::log, 1e-3F, 100, 4},
                                {tanh, std::tanh, -10, 10, 6},
                                {sqrt, std::sqrt, 0, 100, 1},
                                {sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 20, 6}};
  for (size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE(c);
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {10001});
    const Tensor y = cases[c].function(x, {});
    const std::vector<float> in = reals(10001, 1, cases[c].low, cases[c].high);
    const std::vector<float> got = run(graph, y, {{x, in}});
    double worst = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const double expected = cases[c].expected(in[i]);
      if (std::abs(expected) < 1e-37) continue;
      const auto near = static_cast<float>(std::abs(expected));
      const double ulp = std::nextafter(near, std::numeric_limits<float>::infinity()) - near;
      worst = std::max(worst, std::abs(got[i] - expected) / ulp);
    }
    EXPECT_LE(worst, cases[c].ulps);
  }
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {100001});
  const Tensor y = erf(x);
  const std::vector<float> in = reals(100001, 1, -5, 5);
  const std::vector<float> got = run(graph, y, {{x, in}});
  for (size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(got[i], std::erf(static_cast<double>(in[i])), 2e-7) << in[i];
}

TEST(Elementwise, GeluIsAsExactAsItSaysBelowZero) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {100001});
  const std::vector<float> in = reals(100001, 1, -9, 0);
  const std::vector<float> got = run(graph, gelu(x), {{x, in}});
  const bool rounds_once = (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2)) != 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double number = in[i];
    ASSERT_NEAR(got[i], number / 2 * std::erfc(-number / std::sqrt(2.0)), rounds_once ? 6e-8 : 7e-8) << in[i];
  }
}

TEST(Elementwise, NaNsAndInfinitiesSurvive) {
  const float inf = std::numeric_limits<float>::infinity();
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {9});
  const std::vector<float> in{NAN, inf, -inf, 0, 1000, -1000, -1, NAN, NAN};
  const std::vector<Tensor> all{relu(x),
                                clip(x, -1, 1),
                                leaky_relu(x),
                                sigmoid(x),
                                tanh(x),
                                gelu(x),
                                gelu(x, true),
                                silu(x),
                                exp(x),
                                log(x),
                                sqrt(x),
                                rsqrt(x),
                                erf(x),
                                abs(x),
                                maximum(x, graph.scalar(0)),
                                minimum(graph.scalar(0), x),
                                dropout(x, 0)};
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), in);
  evaluator.run();
  for (const Tensor& y : all) {
    SCOPED_TRACE(std::string(y.name()));
    const std::vector<float> got = evaluator.floats(y.id());
    EXPECT_TRUE(std::isnan(got[0]));
    EXPECT_TRUE(std::isnan(got[8]));
  }
  const std::vector<float> e = evaluator.floats(all[8].id());
  EXPECT_EQ(e[1], inf);
  EXPECT_EQ(e[2], 0);
  EXPECT_EQ(e[4], inf);
  EXPECT_EQ(e[5], 0);
  const std::vector<float> l = evaluator.floats(all[9].id());
  EXPECT_EQ(l[1], inf);
  EXPECT_EQ(l[3], -inf);
  EXPECT_TRUE(std::isnan(l[6]));
  const std::vector<float> t = evaluator.floats(all[4].id());
  EXPECT_EQ(t[1], 1);
  EXPECT_EQ(t[5], -1);
  const std::vector<float> s = evaluator.floats(all[3].id());
  EXPECT_EQ(s[2], 0);
  EXPECT_EQ(s[4], 1);
}

TEST(Dropout, MasksFollowSeedStepAndSample) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 1000});
  const Tensor y = dropout(x, 0.3);
  const Tensor z = dropout(x, 0.3);
  const auto mask = [&](uint64_t seed, int64_t step, int64_t first, int64_t batch, Tensor of) {
    Evaluator evaluator(graph, batch, 8, first);
    evaluator.state = {seed, step, first};
    evaluator.set_floats(x.id(), std::vector<float>(static_cast<size_t>(batch) * 1000, 1.0F));
    evaluator.run();
    return evaluator.floats(of.id());
  };
  const std::vector<float> whole = mask(1, 0, 0, 8, y);
  const auto kept = std::count_if(whole.begin(), whole.end(), [](float v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 8000, 0.7, 0.02);
  for (const float v : whole) EXPECT_TRUE(v == 0 || v == 1 / 0.7F);
  EXPECT_EQ(whole, mask(1, 0, 0, 8, y));
  EXPECT_NE(whole, mask(2, 0, 0, 8, y));
  EXPECT_NE(whole, mask(1, 1, 0, 8, y));
  EXPECT_NE(whole, mask(1, 0, 0, 8, z));
  const std::vector<float> tail = mask(1, 0, 5, 3, y);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 5000));
}

}  // namespace
}  // namespace plimsoll::testing

// Operators that a program or a loaded library registers: the op test runs on them as on all others. To run it on a
// library of one's own, name that in PLIMSOLL_OP_LIBRARY.
#include <plimsoll/own_op.h>

#include <cmath>
#include <cstdlib>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

// Before the op test lists what there is.
const bool kLoaded = [] {
  const char* own = std::getenv("PLIMSOLL_OP_LIBRARY");
  return dlopen(PLIMSOLL_OWN_OPS, RTLD_NOW) != nullptr && (own == nullptr || dlopen(own, RTLD_NOW) != nullptr);
}();

// y = x sin(w) along rows, and the sums of the rows of x in a workspace on the way.
const OwnOp kSwirl = register_op({
    .name = "own_swirl",
    .shape =
        [](const OpInputs& n) {
          if (n.types.size() != 2 || n.types[0].shape.rank() != 2 || !(n.types[1].shape == Shape{n.types[0].shape[1]}))
            throw Error("takes [rows, columns] and [columns]");
          return std::vector<TensorType>{n.types[0], {DType::F32, {n.types[0].shape[0]}}};
        },
    .kernel =
        [](const KernelCall& call) noexcept {
          const std::span<const float> x = call.in[0].as<float>(), w = call.in[1].as<float>();
          const std::span<float> y = call.out[0].as<float>(), sums = call.out[1].as<float>();
          auto* sines = reinterpret_cast<float*>(call.workspace.data());
          for (size_t j = 0; j < w.size(); ++j) sines[j] = std::sin(w[j]);
          for (size_t i = 0; i < sums.size(); ++i) {
            sums[i] = 0;
            for (size_t j = 0; j < w.size(); ++j) {
              sums[i] += x[i * w.size() + j];
              y[i * w.size() + j] = x[i * w.size() + j] * sines[j];
            }
          }
        },
    .gradient =
        [](const OpGradient& g) {
          std::vector<Tensor> dx(2);
          if (g.dy[0].is_set()) {
            dx[0] = g.dy[0] * sin(g.x[1]);
            dx[1] = sum_to(g.dy[0] * g.x[0] * cos(g.x[1]), g.x[1].shape());
          }
          if (g.dy[1].is_set()) {
            const Tensor of_sums = broadcast_to(expand_dims(g.dy[1], 1), g.x[0].shape());
            dx[0] = dx[0].is_set() ? dx[0] + of_sums : of_sums;
          }
          return dx;
        },
    .workspace = [](const OpSizes& n) { return n.in[1][0] * static_cast<Bytes>(sizeof(float)); },
    .flops = [](const OpSizes& n) { return 2.0 * static_cast<double>(n.in[0][0] * n.in[0][1]); },
    .is_by_sample = true,
    .samples = {{"rows", {{DType::F32, {Dim::batch(), 3}}, {DType::F32, {3}}}}},
});

// The identity, whose gradient is kept within one.
const CustomGradient kClipped =
    custom_gradient([](std::span<const Tensor> x) { return x[0] * 1.0; },
                    [](const OpGradient& g) { return std::vector<Tensor>{clip(g.dy[0], -1, 1)}; });

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OwnOp, OfALoadedLibraryIsFoundAndCalled) {
  ASSERT_TRUE(kLoaded) << dlerror();
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {3});
  const Tensor y = find_own_op("own_leak")({x}, {{"slope", 0.5}}, "leak");
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), {-4, 0, 3});
  evaluator.run();
  EXPECT_EQ(evaluator.floats(y.id()), (std::vector<float>{-2, 0, 3}));
  EXPECT_EQ(y.name(), "leak");
}

TEST(OwnOp, PrintsAndParsesBack) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3});
  kSwirl({x, graph.variable("w", DType::F32, {3}, Init::ones())});
  Graph again;
  graph::parse_graph(to_string(graph), ops::find_op, again);
  EXPECT_EQ(to_string(again), to_string(graph));
}

TEST(OwnOp, RefusesWhatItsRulesRefuse) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {4});
  EXPECT_EQ(refusal([&] { kSwirl({x, x}, {}, "s"); }), "own_swirl 's': takes [rows, columns] and [columns]");
  EXPECT_THAT(refusal([&] { find_own_op("own_leak")({x}); }), HasSubstr("the setting 'slope' is missing"));
  EXPECT_THAT(refusal([&] { kSwirl({cast(x, DType::I32), x}); }), HasSubstr("must be f32"));
  EXPECT_THAT(refusal([] { find_own_op("own_swril"); }), HasSubstr("registered are"));
}

TEST(OwnOp, IsRegisteredOnceAndWhole) {
  const auto define = [](std::string name) {
    return OpDefinition{.name = std::move(name),
                        .shape = [](const OpInputs& n) { return std::vector<TensorType>{n.types[0]}; },
                        .kernel = [](const KernelCall&) noexcept {}};
  };
  EXPECT_THAT(refusal([&] { register_op(define("own_swirl")); }), HasSubstr("there is an operator of that name"));
  EXPECT_THAT(refusal([&] { register_op(define("relu")); }), HasSubstr("there is an operator of that name"));
  EXPECT_THAT(refusal([&] { register_op(define("Own op")); }), HasSubstr("small letters"));
  OpDefinition without = define("own_nothing");
  without.kernel = nullptr;
  EXPECT_THAT(refusal([&] { register_op(without); }), HasSubstr("the kernel is missing"));
  EXPECT_THAT(refusal([] { custom_gradient({}, {}); }), HasSubstr("missing"));
}

TEST(OwnOp, ACustomGradientReplacesThatOfTheFunction) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {2});
  const Tensor y = kClipped({x});
  const Gradient dx = gradients(reduce_sum(y * y), std::vector<Tensor>{x})[0];
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), {0.25, 3});
  evaluator.run();
  EXPECT_EQ(evaluator.floats(y.id()), (std::vector<float>{0.25, 3}));
  EXPECT_EQ(evaluator.floats(dx.value.id()), (std::vector<float>{0.5, 1}));  // 2 x, but at most 1
}

}  // namespace
}  // namespace plimsoll::testing

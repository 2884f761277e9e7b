// Misuse of the library: each mistake is one clear Error, none is accepted and none crashes.
#include <cmath>
#include <limits>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "kernels/update.h"
#include "ops/ops.h"
#include "session/engine.h"
#include "support/error_of.h"
#include "support/forced.h"

namespace plimsoll::session {
namespace {

using namespace ops;

using testing::error_of;
using ::testing::HasSubstr;
using testing::make_engine;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Net {
  Graph graph;
  Tensor x, labels, unused, w, logits, loss;
  Updates updates;
  Net() {
    x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
    labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
    unused = graph.placeholder("unused", DType::F32, {3});
    w = graph.variable("w", DType::F32, {8, 4}, Init::glorot_uniform(8, 4));
    logits = matmul(x, w);
    loss = sparse_cross_entropy(logits, labels, "loss");
    updates = minimize(loss, Optimiser::sgd(0.1));
  }
  Request train(int64_t batch = 4) const { return {{loss}, updates.nodes, batch}; }
};

class Misuse : public ::testing::Test {
 protected:
  Net net_;
  MemoryLine line_;
  Engine session_ = make_engine(net_.graph, line_, {net_.train()});
  std::vector<float> x_ = std::vector<float>(32, 0.5F);
  std::vector<int32_t> labels_ = std::vector<int32_t>(4, 1);

  std::string refusal(std::vector<Feed> feeds) {
    const std::string by_number = error_of([&] { session_.run_step(0, feeds); });
    const Tensor fetches[] = {net_.loss};
    EXPECT_NE(error_of([&] { session_.run(fetches, feeds); }), "no error");
    return by_number;
  }
};

TEST_F(Misuse, RightFeedsAreTaken) {
  const Feed feeds[] = {{net_.x, x_}, {net_.labels, labels_}};
  EXPECT_TRUE(std::isfinite(session_.run_step(0, feeds)[0].floats()[0]));
  // Other ways to write the same, and one more that the step does not read.
  const float unused[3] = {1, 2, 3};
  const Feed more[] = {{net_.labels, std::span<const int32_t>(labels_)},
                       {net_.unused, unused},
                       {net_.x, DType::F32, static_cast<const void*>(x_.data()), 128}};
  EXPECT_TRUE(std::isfinite(session_.run_step(0, more)[0].floats()[0]));
}

TEST_F(Misuse, FeedOfAnotherType) {
  const std::vector<float> as_floats(4, 1.0F);
  EXPECT_EQ(refusal({{net_.x, x_}, {net_.labels, as_floats}}),
            "feed 'labels' has numbers of f32 but the placeholder is i32[B]");
  const std::vector<int64_t> as_i64(2, 1);
  EXPECT_THAT(refusal({{net_.x, x_}, {net_.labels, as_i64}}), HasSubstr("numbers of i64"));
}

TEST_F(Misuse, FeedOfAnotherGraph) {
  Net other;
  EXPECT_THAT(refusal({{other.x, x_}, {net_.labels, labels_}}), HasSubstr("feed 0 is for a tensor that is unset or"));
  EXPECT_THAT(refusal({{net_.x, x_}, {Tensor(), labels_}}), HasSubstr("feed 1 is for a tensor that is unset or"));
}

TEST_F(Misuse, FeedOfAComputedValue) {
  EXPECT_THAT(refusal({{net_.x, x_}, {net_.labels, labels_}, {net_.logits, x_}}), HasSubstr("is no placeholder"));
}

TEST_F(Misuse, FeedWithoutMemory) {
  EXPECT_THAT(refusal({{net_.x, static_cast<const float*>(nullptr), 128}, {net_.labels, labels_}}),
              HasSubstr("feed 'x' has 128 bytes at a null address"));
}

TEST_F(Misuse, FeedTwice) {
  EXPECT_EQ(refusal({{net_.x, x_}, {net_.labels, labels_}, {net_.x, x_}}), "placeholder 'x' is fed twice");
}

TEST_F(Misuse, FeedMissingOrOfAnotherSize) {
  EXPECT_THAT(refusal({{net_.x, x_}}), HasSubstr("placeholder 'labels' i32[B] needs a feed"));
  x_.pop_back();
  EXPECT_THAT(refusal({{net_.x, x_}, {net_.labels, labels_}}), HasSubstr("has 124 bytes but f32[4,8] needs 128"));
}

TEST_F(Misuse, FetchOfNothingOrOfAnotherGraph) {
  // The other graph's loss has the number of this one's: it must not be taken for it.
  Net other;
  const Feed feeds[] = {{net_.x, x_}, {net_.labels, labels_}};
  for (const Tensor& fetch : {other.loss, Tensor()}) {
    const Tensor fetches[] = {fetch};
    EXPECT_THAT(error_of([&] { session_.run(fetches, feeds); }), HasSubstr("a fetch is unset or belongs to another"));
    EXPECT_THAT(error_of([&] { Engine(net_.graph, line_, {{{fetch}, {}, 4}}); }), HasSubstr("a fetch is unset"));
  }
}

TEST_F(Misuse, UpdatesThatAreNone) {
  const Feed feeds[] = {{net_.x, x_}, {net_.labels, labels_}};
  const NodeId forward = net_.graph.body().value(net_.logits.id()).producer;
  for (const NodeId update : {NodeId{-1}, NodeId{100000}, forward})
    EXPECT_THAT(error_of([&] {
                  session_.run(Request{{net_.loss}, {update}, 4}, feeds);
                }),
                HasSubstr("is no update of the graph"))
        << update;
}

TEST_F(Misuse, ABatchOfNothing) {
  for (const int64_t batch : {0, -1})
    EXPECT_THAT(error_of([&] { Engine(net_.graph, line_, {net_.train(batch)}); }), HasSubstr("batch"));
  const std::vector<float> no_x;
  const std::vector<int32_t> no_labels;
  const Feed feeds[] = {{net_.x, no_x}, {net_.labels, no_labels}};
  const Tensor fetches[] = {net_.loss};
  EXPECT_THAT(error_of([&] { session_.run(fetches, feeds); }), HasSubstr("batch"));
}

TEST_F(Misuse, AStepThatIsNotThere) {
  const Feed feeds[] = {{net_.x, x_}, {net_.labels, labels_}};
  EXPECT_EQ(error_of([&] { session_.run_step(7, feeds); }), "there is no step 7: the session has 1");
  std::vector<int64_t> too_few(1);
  EXPECT_THAT(error_of([&] { session_.run_timed(0, feeds, too_few); }), HasSubstr("have no room"));
}

TEST_F(Misuse, AViewAfterClose) {
  const Feed feeds[] = {{net_.x, x_}, {net_.labels, labels_}};
  const View view = session_.run_step(0, feeds)[0];
  EXPECT_TRUE(std::isfinite(view.floats()[0]));
  session_.close();
  EXPECT_THAT(error_of([&] { view.floats(); }), HasSubstr("its session was closed"));
  EXPECT_THAT(error_of([&] { view.data(); }), HasSubstr("its session was closed"));
  EXPECT_THAT(error_of([&] { session_.run_step(0, feeds); }), HasSubstr("closed"));
}

TEST_F(Misuse, AViewAfterItsSession) {
  const Feed feeds[] = {{net_.x, x_}, {net_.labels, labels_}};
  MemoryLine own_line;
  std::optional<Engine> session;
  session.emplace(net_.graph, own_line, std::vector<Request>{net_.train()});
  const View view = session->run_step(0, feeds)[0];
  session.reset();
  EXPECT_THAT(error_of([&] { view.floats(); }), HasSubstr("its session was closed"));
}

TEST_F(Misuse, AViewAsAnotherType) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  const Tensor best = argmax(x);
  MemoryLine own_line;
  Engine session = make_engine(graph, own_line, {{{best}, {}, 2}});
  const std::vector<float> numbers{1, 5, 2, 0, 9, 1, 1, 1};
  const Feed feeds[] = {{x, numbers}};
  const auto views = session.run_step(0, feeds);
  EXPECT_EQ(error_of([&] { views[0].floats(); }), "the value is i32[2] and can't be read as f32; cast it in the graph");
  EXPECT_EQ(views[0].as<int32_t>()[0], 1);
  EXPECT_EQ(views[0].as<int32_t>()[1], 0);
}

TEST(MisuseLives, AGraphThatIsGone) {
  std::optional<Net> net(std::in_place);
  MemoryLine line;
  Engine session = make_engine(net->graph, line, {net->train()});
  const std::vector<float> x(32, 0.5F);
  const std::vector<int32_t> labels(4, 1);
  const std::vector<Feed> feeds{{net->x, x}, {net->labels, labels}};
  session.run_step(0, feeds);
  const Tensor w = net->w;
  const Tensor fetches[] = {net->loss};
  net.reset();
  const std::string gone = "the graph of this session is gone; keep the graph for as long as the session is used";
  EXPECT_EQ(error_of([&] { session.run_step(0, feeds); }), gone);
  EXPECT_EQ(error_of([&] { session.run(fetches, feeds); }), gone);
  EXPECT_EQ(error_of([&] { session.peek(w); }), gone);
  session.close();
}

TEST(MisuseLives, ALineThatIsGone) {
  Net net;
  std::optional<MemoryLine> line(std::in_place, 64 * MiB);
  Engine session(net.graph, *line, {net.train()});
  line.reset();
  const std::vector<float> x(16, 0.5F);
  const std::vector<int32_t> labels(2, 1);
  const Feed feeds[] = {{net.x, x}, {net.labels, labels}};
  const Tensor fetches[] = {net.loss};
  EXPECT_TRUE(std::isfinite(session.run(fetches, feeds)[0].floats()[0]));
  EXPECT_GT(session.line().used(), 0);
  session.close();
  EXPECT_EQ(session.line().used(), 0);
}

TEST_F(Misuse, VariablesWithoutMemory) {
  EXPECT_THAT(error_of([&] { session_.get(net_.w, nullptr, 128); }), HasSubstr("is null"));
  EXPECT_THAT(error_of([&] { session_.set(net_.w, nullptr, 128); }), HasSubstr("is null"));
  EXPECT_THAT(error_of([&] { session_.get(Tensor(), x_.data(), 128); }), HasSubstr("only variables"));
}

// Every function of ops.h with unset operands.
TEST(MisuseOperators, UnsetOperands) {
  const Tensor none;
  const std::function<void()> calls[] = {
      [&] { matmul(none, none); },
      [&] { dense(none, none); },
      [&] { conv2d(none, none); },
      [&] { conv2d_transpose(none, none); },
      [&] {
        max_pool(none, {2, 2}, {});
      },
      [&] {
        average_pool(none, {2, 2}, {});
      },
      [&] { global_average_pool(none); },
      [&] { global_max_pool(none); },
      [&] { batch_norm(none, none, none, none, none, true); },
      [&] { layer_norm(none, none, none); },
      [&] { group_norm(none, none, none, 1); },
      [&] {
        resize(none, {2, 2});
      },
      [&] { gather(none, none); },
      [&] {
        ops::scatter_rows(none, none, {2, 2});
      },
      [&] { attention(none, none, none); },
      [&] { relu(none); },
      [&] { clip(none, 0, 1); },
      [&] { relu6(none); },
      [&] { leaky_relu(none); },
      [&] { sigmoid(none); },
      [&] { plimsoll::tanh(none); },
      [&] { gelu(none); },
      [&] { silu(none); },
      [&] { dropout(none, 0.5); },
      [&] { add(none, none); },
      [&] { scale(none, 2); },
      [&] { plimsoll::exp(none); },
      [&] { where(none, none, none); },
      [&] { equal(none, none); },
      [&] { cast(none, DType::F16); },
      [&] { ops::bit_mask(none, 1); },
      [&] { ops::masked(none, none, none, 1); },
      [&] { softmax(none); },
      [&] { reduce_sum(none); },
      [&] { sum_to(none, {2}); },
      [&] { argmax(none); },
      [&] { reshape(none, {2}); },
      [&] { flatten(none); },
      [&] { squeeze(none, 0); },
      [&] { expand_dims(none, 0); },
      [&] { broadcast_to(none, {2}); },
      [&] { transpose(none, {0}); },
      [&] { concat({}, 0); },
      [&] { concat({none}, 0); },
      [&] { split(none, {1}, 0); },
      [&] { slice(none, 0, 0, 1); },
      [&] { pad(none, {0}, {0}); },
      [&] { tile(none, {1}); },
      [&] { one_hot(none, 2); },
      [&] { sparse_cross_entropy(none, none); },
      [&] { cross_entropy(none, none); },
      [&] { binary_cross_entropy(none, none); },
      [&] { mean_squared_error(none, none); },
      [&] { huber(none, none); },
      [&] { linear_cross_entropy(none, none, none); },
      [&] { kernels::add_update(*ops::find_op("sgd"), {none}, {}, none, {}, {}, {}, {}); },
      [&] {
        kernels::add_update(*ops::find_op("adam"), {none, none, none}, {}, none, none, {}, {}, {});
      },
      [&] {
        kernels::add_update(*ops::find_op("rmsprop"), {none, none}, {}, none, {}, {}, {}, {});
      },
      [&] { ops::count_step(none); },
      [&] { ops::sum_squares({}, {2}); },
      [&] { gradients(none, {}); },
      [&] { minimize(none, Optimiser::sgd()); },
  };
  for (size_t i = 0; i < std::size(calls); ++i) EXPECT_NE(error_of(calls[i]), "no error") << "call " << i;
  EXPECT_EQ(error_of(calls[15]), "relu: input 0 is unset; give it a tensor of the graph");
}

TEST(MisuseOperators, TensorsOfTwoGraphs) {
  Graph one, two;
  const Tensor a = one.placeholder("a", DType::F32, {2});
  const Tensor b = two.placeholder("b", DType::F32, {2});
  EXPECT_EQ(error_of([&] { add(a, b); }), "add: input 1 belongs to another graph; build all of a model in one graph");
  EXPECT_THAT(error_of([&] { gradients(reduce_sum(a), std::vector{b}); }), HasSubstr("another graph than the loss"));
  EXPECT_THAT(error_of([&] { minimize(reduce_sum(a), Optimiser::sgd(), std::vector{b}); }),
              HasSubstr("another graph than the loss"));
}

TEST(MisuseOperators, SettingsThatAreNoNumbers) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4, 6, 6});
  const Tensor c = graph.variable("c", DType::F32, {4}, Init::ones());
  const Tensor last = graph.variable("last", DType::F32, {6}, Init::ones());
  const Tensor kernel = graph.variable("kernel", DType::F32, {4, 4, 3, 3}, Init::ones());
  const std::function<void()> calls[] = {
      [&] { dropout(x, -0.1); },
      [&] { dropout(x, 1.1); },
      [&] { dropout(x, kNaN); },
      [&] { batch_norm(x, c, c, c, c, true, 0.9, 0); },
      [&] { batch_norm(x, c, c, c, c, true, -0.5); },
      [&] { batch_norm(x, c, c, c, c, true, kNaN); },
      [&] { layer_norm(x, last, last, -1); },
      [&] { group_norm(x, c, c, 2, kNaN); },
      [&] { group_norm(x, c, c, 0); },
      [&] { leaky_relu(x, kInfinity); },
      [&] { clip(x, kNaN, 1); },
      [&] { clip(x, 2, 1); },
      [&] { scale(x, kNaN); },
      [&] { huber(x, x, 0); },
      [&] { attention(x, x, x, {}, false, kNaN); },
      [&] {
        conv2d(x, kernel, {}, Window{.strides = {0, 1}});
      },
      [&] {
        conv2d(x, kernel, {}, Window{.strides = {-1, 1}});
      },
      [&] {
        conv2d(x, kernel, {}, Window{.pads = {-1, 0, 0, 0}});
      },
      [&] {
        conv2d(x, kernel, {}, Window{.dilations = {0, 1}});
      },
      [&] { conv2d(x, kernel, {}, Window{.groups = 0}); },
      [&] { conv2d_transpose(x, kernel, {}, Window{.groups = 0}); },
      [&] {
        max_pool(x, {0, 2}, {});
      },
      [&] {
        max_pool(x, {-2, 2}, {});
      },
      [&] {
        same_pads({6, 6}, {3, 3}, Window{.strides = {0, 0}});
      },
      [&] { one_hot(cast(x, DType::I32), 0); },
      [&] { slice(x, 0, 0, 1, 0); },
      [&] { slice(x, 2, -1, 2); },
      [&] {
        tile(x, {1, 1, 1, -2});
      },
      [&] {
        pad(x, {0, 0, -1, 0}, {0, 0, 0, 0});
      },
      [&] { graph.placeholder("negative", DType::F32, {-3}); },
      [&] { graph.placeholder("batches", DType::F32, {Dim::batch(0)}); },
      [&] { graph.variable("spread", DType::F32, {3}, Init::normal(0, -1)); },
      [&] { graph.variable("nan", DType::F32, {3}, Init::constant(kNaN)); },
  };
  for (size_t i = 0; i < std::size(calls); ++i) EXPECT_NE(error_of(calls[i]), "no error") << "call " << i;
}

TEST(MisuseOptimiser, SettingsThatAreNoNumbers) {
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {3}, Init::ones());
  const Tensor loss = reduce_sum(mul(w, w));
  const auto refused = [&](const auto& change) {
    Optimiser optimiser = Optimiser::adam();
    change(optimiser);
    return error_of([&] { minimize(loss, optimiser); });
  };
  EXPECT_EQ(refused([](Optimiser& o) { o.learning_rate = -0.1; }),
            "optimiser: learning_rate must be zero or more but is -0.1");
  EXPECT_THAT(refused([](Optimiser& o) { o.learning_rate = kNaN; }), HasSubstr("learning_rate"));
  EXPECT_THAT(refused([](Optimiser& o) { o.learning_rate = kInfinity; }), HasSubstr("learning_rate"));
  EXPECT_THAT(refused([](Optimiser& o) { o.set("beta1", 1); }), HasSubstr("beta1 must be at least 0 and below 1"));
  EXPECT_THAT(refused([](Optimiser& o) { o.set("beta2", -1); }), HasSubstr("beta2"));
  EXPECT_THAT(refused([](Optimiser& o) { o = Optimiser::sgd().set("momentum", 1.5); }), HasSubstr("momentum"));
  EXPECT_THAT(refused([](Optimiser& o) { o = Optimiser::rmsprop().set("rho", kNaN); }), HasSubstr("rho"));
  EXPECT_THAT(refused([](Optimiser& o) { o.set("epsilon", 0); }), HasSubstr("epsilon must be positive"));
  EXPECT_THAT(refused([](Optimiser& o) { o.weight_decay = -1; }), HasSubstr("weight_decay"));
  EXPECT_THAT(refused([](Optimiser& o) { o.clip_norm = -1; }), HasSubstr("clip_norm"));
  EXPECT_THAT(refused([](Optimiser& o) { o.global_clip_norm = kNaN; }), HasSubstr("global_clip_norm"));
  EXPECT_THAT(refused([](Optimiser& o) { o.clip_value = kInfinity; }), HasSubstr("clip_value"));
}

TEST(MisuseOptimiser, NothingToTrain) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3});
  EXPECT_EQ(error_of([&] { minimize(reduce_sum(x), Optimiser::sgd()); }),
            "minimize: there is nothing to train: 'reduce_sum' depends on none of 0 weights");
  graph.variable("apart", DType::F32, {3}, Init::ones());
  EXPECT_THAT(error_of([&] { minimize(reduce_sum(x, {}, false, "other"), Optimiser::sgd()); }),
              HasSubstr("depends on none of 1 weights"));
  const Tensor computed = mul(x, x);
  EXPECT_THAT(error_of([&] { minimize(reduce_sum(computed), Optimiser::sgd(), std::vector{computed}); }),
              HasSubstr("is no variable of f32"));
  EXPECT_THAT(error_of([&] { minimize(argmax(reduce_sum(x, {0})), Optimiser::sgd()); }), HasSubstr("has no gradient"));
}

TEST(MisuseScopes, ReuseOfAnAbsentVariable) {
  Graph graph;
  const Scope scope(graph, "fc", Scope::Mode::Reuse);
  EXPECT_EQ(error_of([&] { graph.variable("w", DType::F32, {3}, Init::ones()); }),
            "variable 'fc/w' does not exist and can't be reused; make it in a scope without reuse first");
}

// A gradient that must go through 16 bits is either right or refused while it is built.
TEST(MisuseTypes, TrainingThroughHalves) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3});
  const Tensor w = graph.variable("w", DType::F32, {3, 3}, Init::ones());
  EXPECT_THAT(error_of([&] { matmul(cast(x, DType::F16), cast(w, DType::F16)); }), HasSubstr("cast it to f32 first"));
  const Tensor bias = graph.variable("bias", DType::F32, {3}, Init::constant(0.5));
  const Tensor half = relu(add(cast(matmul(x, w), DType::F16), cast(bias, DType::F16)));
  const Tensor loss = reduce_mean(cast(half, DType::F32));
  const Updates updates = minimize(loss, Optimiser::sgd(0.25));
  MemoryLine line;
  Engine session = make_engine(graph, line, {{{loss}, updates.nodes, 4}});
  const std::vector<float> numbers(12, 1.0F);
  const Feed feeds[] = {{x, numbers}};
  EXPECT_NEAR(session.run_step(0, feeds)[0].floats()[0], 3.5, 1e-3);
  std::vector<float> now(3);
  session.get(bias, now.data(), 12);
  for (const float number : now) EXPECT_NEAR(number, 0.5 - 0.25 / 3, 1e-3);
}

}  // namespace
}  // namespace plimsoll::session

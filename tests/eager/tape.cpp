#include <plimsoll/eager.h>

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/session.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TapeTest : public testing::Test {
 protected:
  MemoryLine line_{256 * MiB};
  Eager eager_{line_};
};

TEST_F(TapeTest, DifferentiatesWhatIsWatched) {
  const Tensor x = tensor({1.0F, 2.0F, 3.0F}), other = tensor({5.0F, 5.0F, 5.0F});
  Tape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = reduce_sum(x * x + other);
  EXPECT_THAT(tape.gradient(y, x).to_vector<float>(), ElementsAre(2, 4, 6));
  EXPECT_FALSE(tape.gradient(y, other).is_set()) << "not watched";
}

TEST_F(TapeTest, VariablesAreWatchedByThemselves) {
  const Tensor w = eager_.variable("w", {2}, Init::constant(3));
  const Tensor unused = eager_.variable("unused", {2}, Init::constant(3));
  Tape tape;
  const Tensor y = reduce_sum(w * w);
  const std::vector<Gradient> gradients = tape.gradient(y, std::vector{w, unused});
  EXPECT_THAT(gradients[0].value.to_vector<float>(), ElementsAre(6, 6));
  EXPECT_FALSE(gradients[1].is_set());
}

TEST_F(TapeTest, WhatWasComputedBeforeIsAConstant) {
  const Tensor w = eager_.variable("w", {}, Init::constant(3));
  const Tensor before = w * 2;
  Tape tape;
  EXPECT_FLOAT_EQ(tape.gradient(before * w, w).item<float>(), 6);
}

TEST_F(TapeTest, WatchingStartsWhenItIsAsked) {
  const Tensor x = scalar(3.0F);
  Tape tape;
  const Tensor before = x * 2;
  tape.watch(x);
  EXPECT_FLOAT_EQ(tape.gradient(before * x, x).item<float>(), 6);
}

TEST_F(TapeTest, WhatComesBeforeWatchingCountsForOtherSourcesAlone) {
  const Tensor x = scalar(3.0F);
  const Tensor w = eager_.variable("w", {}, Init::constant(5));
  Tape tape({.persistent = true});
  const Tensor before = x * w;
  tape.watch(x);
  const Tensor loss = before + x * 2;
  EXPECT_FLOAT_EQ(tape.gradient(loss, x).item<float>(), 2);
  const std::vector<Gradient> both = tape.gradient(loss, std::vector{x, w});
  EXPECT_FLOAT_EQ(both[0].value.item<float>(), 2);
  EXPECT_FLOAT_EQ(both[1].value.item<float>(), 3);
}

TEST_F(TapeTest, ASecondUseIsRefusedUnlessPersistent) {
  const Tensor w = eager_.variable("w", {}, Init::constant(3));
  Tape once;
  const Tensor y = w * w;
  EXPECT_FLOAT_EQ(once.gradient(y, w).item<float>(), 6);
  EXPECT_THAT([&] { once.gradient(y, w); }, ThrowsMessage<Error>(HasSubstr("persistent")));
}

TEST_F(TapeTest, NestedTapesGiveHigherDerivatives) {
  const Tensor x = scalar(2.0F);
  Tape outer;
  outer.watch(x);
  Tensor first;
  {
    Tape inner;
    inner.watch(x);
    first = inner.gradient(x * x * x, x);
  }
  const Tensor second = outer.gradient(first, x);
  EXPECT_FLOAT_EQ(first.item<float>(), 12);
  EXPECT_FLOAT_EQ(second.item<float>(), 12);
}

TEST_F(TapeTest, StopGradientStops) {
  const Tensor w = eager_.variable("w", {}, Init::constant(3));
  Tape tape;
  EXPECT_FLOAT_EQ(tape.gradient(stop_gradient(w * w) * w, w).item<float>(), 9);
}

TEST_F(TapeTest, ATargetOfSeveralElementsIsSummed) {
  const Tensor w = eager_.variable("w", {3}, Init::constant(2));
  Tape tape({.persistent = true});
  const Tensor y = w * w;
  EXPECT_THAT(tape.gradient(y, w).to_vector<float>(), ElementsAre(4, 4, 4));
  EXPECT_THAT(tape.gradient(y, w, tensor({1.0F, 0.0F, 2.0F})).to_vector<float>(), ElementsAre(4, 0, 8));
}

TEST_F(TapeTest, RowSparseGradientsStaySo) {
  const Tensor table = eager_.variable("table", {5, 2}, Init::constant(1));
  Tape tape;
  const Tensor loss = reduce_sum(gather(table, tensor({1, 3, 1})));
  const std::vector<Gradient> gradients = tape.gradient(loss, std::vector{table});
  ASSERT_TRUE(gradients[0].is_sparse());
  EXPECT_THAT(gradients[0].rows.to_vector<int32_t>(), ElementsAre(1, 3, 1));
  Optimiser::sgd(1).apply(gradients, {table});
  EXPECT_THAT(table.to_vector<float>(), ElementsAre(1, 1, -1, -1, 1, 1, 0, 0, 1, 1));
}

TEST_F(TapeTest, LookingInTheMiddleChangesNothing) {
  const Model net = sequential({layers::dense(32, {.activation = "relu"}), layers::dense(4)});
  const Tensor x = normal({16, 8});
  const auto gradients = [&](bool looks) {
    Tape tape;
    const Tensor y = net(x, true);
    if (looks) static_cast<void>(to_string(y));
    const Tensor loss = reduce_mean(y * y);
    if (looks) static_cast<void>(loss.item<float>());
    std::vector<std::vector<float>> all;
    for (const Gradient& gradient : tape.gradient(loss, net.weights()))
      all.push_back(gradient.value.to_vector<float>());
    return all;
  };
  static_cast<void>(net(x));
  EXPECT_EQ(gradients(false), gradients(true));
}

TEST_F(TapeTest, AVariableThatIsAssignedUnderTheTapeKeepsItsOldDerivative) {
  const Tensor w = eager_.variable("w", {}, Init::constant(3));
  Tape tape({.persistent = true});
  const Tensor y = w * w * w;
  static_cast<void>(y.item<float>());
  w.assign(scalar(100.0F));
  static_cast<void>(w.item<float>());
  // The product w * w of the old w is what the derivative reads.
  EXPECT_FLOAT_EQ(y.item<float>(), 27);
}

// The same step in a session and eagerly.
TEST_F(TapeTest, GivesTheBitsOfASession) {
  const auto build = [] {
    return sequential(
        {layers::conv2d(8, 3, {.activation = "relu"}), layers::max_pool(), layers::flatten(), layers::dense(10)},
        "net");
  };
  std::vector<float> images(4 * 1 * 12 * 12);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 17) / 17;
  const std::vector<int32_t> labels{3, 1, 4, 1};

  std::vector<std::vector<float>> from_session;
  std::vector<float> losses, eager_losses;
  {
    Graph graph;
    const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 1, 12, 12});
    const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
    const Tensor loss = sparse_cross_entropy(build()(x, true), y);
    std::vector<Tensor> weights;
    const Updates updates = minimize(loss, Optimiser::adam(0.01));
    SessionOptions options;
    options.seed = 1;
    Session session(graph, line_, options);
    Step step = session.step({.fetch = {loss}, .update = updates, .batch = 4});
    for (int i = 0; i < 5; ++i) losses.push_back(step({{x, images}, {y, labels}})[0].item<float>());
    for (const char* name : {"net/conv2d/kernel", "net/dense/kernel"}) {
      const Tensor w = graph.find(name);
      std::vector<float> values(static_cast<size_t>(element_count(w.shape()).fixed()));
      session.get(w, values);
      from_session.push_back(values);
    }
  }
  const Model net = build();
  const Tensor x = tensor(images, {4, 1, 12, 12}), y = tensor(labels, {4});
  const Optimiser adam = Optimiser::adam(0.01);
  for (int i = 0; i < 5; ++i) {
    Tape tape;
    const Tensor loss = sparse_cross_entropy(net(x, true), y);
    adam.apply(tape.gradient(loss, net.weights()), net.weights());
    eager_losses.push_back(loss.item<float>());
  }
  EXPECT_EQ(losses, eager_losses);
  EXPECT_EQ(net.weights()[0].to_vector<float>(), from_session[0]);
  EXPECT_EQ(net.weights()[2].to_vector<float>(), from_session[1]);
}

TEST_F(TapeTest, OptimisersCountTheirStepsApart) {
  const Tensor a = eager_.variable("a", {1}, Init::constant(1)), b = eager_.variable("b", {1}, Init::constant(1));
  const auto step = [](const Optimiser& optimiser, const Tensor& w) {
    Tape tape;
    const Tensor loss = reduce_sum(w * w);
    optimiser.apply(tape.gradient(loss, std::vector{w}), {w});
  };
  for (int i = 0; i < 3; ++i) step(Optimiser::adam(0.1), a);
  for (int i = 0; i < 3; ++i) step(Optimiser::adam(0.1), b);
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  Optimiser changed = Optimiser::adam(0);  // another rate takes effect
  step(changed, a);
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

// Updates are pending until a result is read: each has the rate that it was recorded with.
TEST(TapeUpdates, ARateThatChangesCountsFromThenOn) {
  MemoryLine line(64 * MiB);
  Eager eager(line);
  const Tensor w = eager.variable("w", {4}, Init::constant(1));
  for (const double rate : {0.1, 0.2, 0.3}) Optimiser::sgd(rate).apply(std::vector<Gradient>{{ones({4}), {}}}, {w});
  EXPECT_NEAR(w.to_vector<float>()[0], 1 - 0.6, 1e-6);
}

TEST(TapeUpdates, AStepThatNobodyLooksAtRunsWhenTheNextBegins) {
  MemoryLine line(64 * MiB);
  Eager eager(line);
  const Tensor w = eager.variable("w", {4}, Init::constant(1));
  for (int step = 0; step < 10; ++step) {
    const Tape tape;
    EXPECT_EQ(eager.facts().pending, 0) << step;
    Optimiser::sgd(0.05).apply(std::vector<Gradient>{{w * 2, {}}}, {w});
    EXPECT_GT(eager.facts().pending, 0) << step;
  }
}

TEST_F(TapeTest, RefusesWhatMakesNoSense) {
  const Tensor w = eager_.variable("w", {}, Init::constant(3));
  Graph graph;
  const Tensor symbolic = graph.placeholder<float>("x", {});
  Tape tape;
  EXPECT_THAT([&] { tape.watch(symbolic); }, ThrowsMessage<Error>(HasSubstr("belongs to a graph")));
  EXPECT_THAT([&] { tape.watch(scalar(1)); }, ThrowsMessage<Error>(HasSubstr("cast it to f32")));
  EXPECT_THAT([&] { tape.gradient(Tensor(), w); }, ThrowsMessage<Error>(HasSubstr("is unset")));
  EXPECT_THAT([&] { Optimiser::adam().apply(std::vector<Gradient>(), std::vector<Tensor>()); },
              ThrowsMessage<Error>(HasSubstr("there are no weights")));
}

TEST(TapeEnds, WithItsEager) {
  const MemoryLine line(64 * MiB);
  std::optional<Eager> eager(std::in_place, line);
  Tape tape({.persistent = true});
  const Tensor x = tensor({1.0F, 2.0F});
  tape.watch(x);
  const Tensor y = reduce_sum(x * x);
  EXPECT_THAT(tape.gradient(y, x).to_vector<float>(), ElementsAre(2, 4));
  eager.reset();
  const char* const sentence = "a Tape is used after its Eager has ended";
  EXPECT_THAT([&] { tape.gradient(y, x); }, ThrowsMessage<Error>(HasSubstr(sentence)));
  EXPECT_THAT([&] { tape.watch(x); }, ThrowsMessage<Error>(HasSubstr(sentence)));
}

}  // namespace
}  // namespace plimsoll

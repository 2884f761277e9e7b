// A training step driven by hand: gradients fetched, changed and applied, variables assigned. Public headers alone.
#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 8;

// A small net with a convolution, batch_norm and a dense layer.
struct Net {
  Graph graph;
  Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3, 6, 6});
  Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
  Tensor loss;
  std::vector<Tensor> weights;

  Net() {
    Tensor h = layers::conv2d(x, 8, 3, {.padding = "same"});
    h = relu(layers::batch_norm(h, true));
    loss = sparse_cross_entropy(layers::dense(layers::flatten(h), 4), y);
    for (const StoredVariable& variable : graph.store()->variables())
      if (variable.role == VariableRole::Weight) weights.push_back(graph.find(variable.name));
  }
};

std::vector<float> rows(int step) {
  std::vector<float> numbers(kBatch * 3 * 6 * 6);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(static_cast<float>(static_cast<int>(i) * 37 % 101 + step));
  return numbers;
}
const std::vector<int32_t> kLabels{0, 1, 2, 3, 3, 2, 1, 0};

void run(Step& step, const Net& net, int number) {
  const std::vector<float> x = rows(number);
  step({{net.x, x}, {net.y, kLabels}});
}

// All variables that the graphs of a comparison share, by name.
std::map<std::string, std::vector<float>> floats_of(Session& session, Graph& graph) {
  std::map<std::string, std::vector<float>> all;
  for (const StoredVariable& variable : graph.store()->variables()) {
    if (variable.type.dtype != DType::F32) continue;
    std::vector<float> numbers(static_cast<size_t>(element_count(variable.type.shape).fixed()));
    session.get(graph.find(variable.name), numbers);
    all.emplace(variable.name, std::move(numbers));
  }
  return all;
}

std::map<std::string, std::vector<float>> train_with_minimize(const Optimiser& optimiser, int steps) {
  Net net;
  Session session(net.graph, MemoryLine());
  Step step = session.step({.fetch = {net.loss}, .update = minimize(net.loss, optimiser), .batch = kBatch});
  for (int i = 0; i < steps; ++i) run(step, net, i);
  return floats_of(session, net.graph);
}

TEST(CustomLoop, GradientsAppliedAsTheyAreEqualMinimize) {
  for (const Optimiser& optimiser : {Optimiser::adam(), Optimiser::sgd(0.1, 0.9), Optimiser::adafactor()}) {
    Net net;
    Session session(net.graph, MemoryLine());
    const Updates updates = apply_gradients(optimiser, gradients(net.loss, net.weights), net.weights);
    Step step = session.step({.fetch = {net.loss}, .update = updates, .batch = kBatch});
    for (int i = 0; i < 3; ++i) run(step, net, i);
    EXPECT_EQ(floats_of(session, net.graph), train_with_minimize(optimiser, 3));
  }
}

// One step computes the gradients, the host looks at them, another step applies what the host feeds.
struct HostLoop {
  Net net;
  std::vector<Tensor> fed;
  Session session{net.graph, MemoryLine()};
  std::vector<Step> steps;

  explicit HostLoop(const Optimiser& optimiser) {
    const std::vector<Gradient> made = gradients(net.loss, net.weights);
    std::vector<Tensor> fetch{net.loss};
    std::vector<Gradient> changed;
    for (size_t i = 0; i < made.size(); ++i) {
      fetch.push_back(made[i].value);
      fed.push_back(net.graph.placeholder<float>("gradient" + std::to_string(i), net.weights[i].shape()));
      changed.push_back({fed.back(), {}});
    }
    const Updates updates = apply_gradients(optimiser, changed, net.weights);
    steps.push_back(session.step({.fetch = fetch, .update = layer_updates(net.graph), .batch = kBatch}));
    steps.push_back(session.step({.update = updates}));
  }

  template <class Change>
  void run(int step, const Change& change) {
    const std::vector<float> x = rows(step);
    const Results results = steps[0]({{net.x, x}, {net.y, kLabels}});
    std::vector<std::vector<float>> numbers;
    for (size_t i = 0; i < fed.size(); ++i) {
      const auto gradient = results[i + 1].floats();
      numbers.emplace_back(gradient.begin(), gradient.end());
      for (float& g : numbers.back()) g = change(g);
    }
    std::vector<Feed> feeds;
    for (size_t i = 0; i < fed.size(); ++i) feeds.emplace_back(fed[i], numbers[i]);
    steps[1](feeds);
  }
};

TEST(CustomLoop, GradientsThroughTheHostEqualMinimize) {
  HostLoop loop(Optimiser::adam());
  for (int i = 0; i < 3; ++i) loop.run(i, [](float g) { return g; });
  EXPECT_EQ(floats_of(loop.session, loop.net.graph), train_with_minimize(Optimiser::adam(), 3));
}

TEST(CustomLoop, GradientsChangedOnTheHostCount) {
  HostLoop loop(Optimiser::sgd(0.125));
  loop.run(0, [](float g) { return 2 * g; });
  const auto twice = floats_of(loop.session, loop.net.graph);
  auto expected = train_with_minimize(Optimiser::sgd(0.25), 1);
  expected["optimiser/learning_rate"] = {0.125F};
  EXPECT_EQ(twice, expected);
}

TEST(CustomLoop, GradientsChangedByOperatorsCount) {
  Net net;
  Session session(net.graph, MemoryLine());
  std::vector<Gradient> changed = gradients(net.loss, net.weights);
  for (Gradient& gradient : changed) gradient.value = clip(gradient.value, -1e-3, 1e-3);
  Optimiser plain = Optimiser::sgd(0.1);
  Step step =
      session.step({.fetch = {net.loss}, .update = apply_gradients(plain, changed, net.weights), .batch = kBatch});
  run(step, net, 0);
  Optimiser clipping = plain;
  clipping.clip_value = 1e-3;
  EXPECT_EQ(floats_of(session, net.graph), train_with_minimize(clipping, 1));
}

TEST(CustomLoop, ApplyingFedGradientsLeavesStatisticsAlone) {
  HostLoop loop(Optimiser::sgd(0.1));
  std::vector<std::vector<float>> zeros;
  std::vector<Feed> feeds;
  for (const Tensor& weight : loop.net.weights)
    zeros.emplace_back(static_cast<size_t>(element_count(weight.shape()).fixed()));
  for (size_t i = 0; i < zeros.size(); ++i) feeds.emplace_back(loop.fed[i], zeros[i]);
  loop.session.open();
  const auto before = floats_of(loop.session, loop.net.graph);
  loop.steps[1](feeds);
  EXPECT_EQ(floats_of(loop.session, loop.net.graph), before);
}

TEST(CustomLoop, VariablesAreAssigned) {
  Graph graph;
  const Tensor v = graph.variable("v", DType::F32, {2, 3}, Init::ones());
  const Tensor counter = graph.variable("counter", DType::I64, {}, Init::zeros());
  const Tensor to = graph.placeholder<float>("to", {2, 3});
  const Tensor before = v * 1.0;
  const NodeId moved = assign(v, v * 0.5 + to);
  const Tensor after = v * 1.0;
  const NodeId filled = assign(v, graph.scalar(7));
  Session session(graph, MemoryLine());
  Step move = session.step({.fetch = {before, after}, .update = {.nodes = {moved}}});
  Step fill = session.step({.update = {.nodes = {filled}}});
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const Results results = move({{to, numbers}});
  EXPECT_THAT(results[0].floats(), ::testing::ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(results[1].floats(), ::testing::ElementsAre(1.5, 2.5, 3.5, 4.5, 5.5, 6.5));
  fill({});
  std::vector<float> now(6);
  session.get(v, now);
  EXPECT_EQ(now, std::vector<float>(6, 7));
  session.set(v, numbers);
  session.get(v, now);
  EXPECT_EQ(now, numbers);
  const std::vector<int64_t> forty_one{41};
  session.set(counter, forty_one);
  std::vector<int64_t> count(1);
  session.get(counter, count);
  EXPECT_EQ(count[0], 41);
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CustomLoop, VariablesOfWholeNumbersStartAsConstants) {
  Graph graph;
  const Tensor seven = graph.variable("seven", DType::I32, {3}, Init::constant(7));
  Session session(graph, MemoryLine());
  session.step({.fetch = {seven}});
  session.open();
  std::vector<int32_t> numbers(3);
  session.get(seven, numbers);
  EXPECT_EQ(numbers, std::vector<int32_t>(3, 7));
}

TEST(CustomLoop, VariablesRefuseAStartThatTheirTypeDoesNotHold) {
  for (const auto& [dtype, init, text] :
       {std::tuple{DType::I32, Init::constant(0.5), "i32 can't start as constant(0.5)"},
        {DType::U8, Init::constant(256), "u8 can't start as constant(256)"},
        {DType::I64, Init::uniform(-1, 1), "i64 can't start as uniform(-1,1)"}}) {
    Graph graph;
    const Tensor v = graph.variable("v", dtype, {3}, init);
    Session session(graph, MemoryLine());
    session.step({.fetch = {v}});
    EXPECT_EQ(error_of([&] { session.open(); }), "variable 'v' of type " + std::string(text) + "; try zeros");
  }
}

TEST(CustomLoop, MistakesAreOneClearError) {
  Net net, other;
  const std::vector<Gradient> grads = gradients(net.loss, net.weights);
  const std::vector<Gradient> none(net.weights.size());
  const std::vector<Gradient> foreign = gradients(other.loss, other.weights);
  const Optimiser sgd = Optimiser::sgd();
  const std::span<const Gradient> one(grads.data(), 1);
  EXPECT_THAT(error_of([&] { apply_gradients(sgd, one, net.weights); }), HasSubstr("1 gradients were given for 6"));
  EXPECT_THAT(error_of([&] { apply_gradients(sgd, none, net.weights); }), HasSubstr("no gradient is set"));
  EXPECT_THAT(error_of([&] { apply_gradients(sgd, foreign, net.weights); }), HasSubstr("belongs to another graph"));
  EXPECT_THAT(error_of([&] { apply_gradients(sgd, {}, {}); }), HasSubstr("there are no weights"));
  const std::vector<Tensor> twice{net.weights[0], net.weights[0]};
  const std::vector<Gradient> both{grads[0], grads[0]};
  EXPECT_THAT(error_of([&] { apply_gradients(sgd, both, twice); }), HasSubstr("listed twice"));
  Optimiser scaled = sgd;
  scaled.scales_loss = true;
  EXPECT_THAT(error_of([&] { apply_gradients(scaled, grads, net.weights); }), HasSubstr("use minimize"));
  std::vector<Gradient> wrong = grads;
  std::swap(wrong[0], wrong[1]);
  EXPECT_THAT(error_of([&] { apply_gradients(sgd, wrong, net.weights); }), HasSubstr("but its gradient is"));
  EXPECT_THAT(error_of([&] { assign(net.loss, net.graph.scalar(0)); }), HasSubstr("is no variable"));
  EXPECT_THAT(error_of([&] { assign(net.weights[0], net.x); }), HasSubstr("but the value is"));
  EXPECT_THAT(error_of([&] { assign({}, net.x); }), HasSubstr("unset"));
}

}  // namespace
}  // namespace plimsoll

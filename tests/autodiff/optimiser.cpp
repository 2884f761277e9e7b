// Five steps of every optimiser against the plain formulas in double; a row-sparse gradient equals its dense one.
#include <plimsoll/optimiser.h>

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using Numbers = std::vector<double>;

// One weight and its state, stepped by the formulas.
struct Reference {
  Numbers w;
  Numbers a = Numbers(w.size()), b = Numbers(w.size()), c = Numbers(w.size());

  void step(const Optimiser& o, Numbers g, double factor, int t) {
    for (size_t i = 0; i < w.size(); ++i) {
      g[i] *= factor;
      if (o.clip_value != 0) g[i] = std::clamp(g[i], -o.clip_value, o.clip_value);
      w[i] -= w[i] * o.weight_decay * o.learning_rate;
      if (o.name() == "sgd") {
        a[i] = o.get("momentum") * a[i] - o.learning_rate * g[i];
        w[i] += o.get("nesterov") != 0 ? o.get("momentum") * a[i] - o.learning_rate * g[i] : a[i];
      } else if (o.name() == "adam") {
        a[i] += (g[i] - a[i]) * (1 - o.get("beta1"));
        b[i] += (g[i] * g[i] - b[i]) * (1 - o.get("beta2"));
        const double correction = std::sqrt(1 - std::pow(o.get("beta2"), t));
        if (o.get("epsilon_after_correction") != 0)
          w[i] -= o.learning_rate / (1 - std::pow(o.get("beta1"), t)) * a[i] /
                  (std::sqrt(b[i]) / correction + o.get("epsilon"));
        else
          w[i] -= o.learning_rate * correction / (1 - std::pow(o.get("beta1"), t)) * a[i] /
                  (std::sqrt(b[i]) + o.get("epsilon"));
      } else if (o.name() == "lion") {
        const double direction = a[i] * o.get("beta1") + g[i] * (1 - o.get("beta1"));
        w[i] -= o.learning_rate * ((direction > 0) - (direction < 0));
        a[i] = a[i] * o.get("beta2") + g[i] * (1 - o.get("beta2"));
      } else {
        a[i] = o.get("rho") * a[i] + (1 - o.get("rho")) * g[i] * g[i];
        b[i] = o.get("rho") * b[i] + (1 - o.get("rho")) * g[i];
        const double spread = a[i] - (o.get("centered") != 0 ? b[i] * b[i] : 0) + o.get("epsilon");
        c[i] = o.get("momentum") * c[i] + o.learning_rate * g[i] / std::sqrt(spread);
        w[i] -= c[i];
      }
    }
  }
};

std::vector<float> draw(size_t count, uint64_t seed, double low, double high) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(low + (high - low) * unit_real(mix_bits(seed, i)));
  return numbers;
}

double squares(const Numbers& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

struct Case {
  std::string name;
  Optimiser optimiser;
};

std::vector<Case> cases() {
  std::vector<Case> all{{"sgd", Optimiser::sgd(0.1)},
                        {"sgd_momentum", Optimiser::sgd(0.1, 0.9)},
                        {"sgd_nesterov", Optimiser::sgd(0.1, 0.9, true)},
                        {"adam", Optimiser::adam(0.05)},
                        {"adam_settings", Optimiser::adam(0.05, 0.8, 0.95, 1e-3)},
                        {"adamw", Optimiser::adamw(0.05, 0.1)},
                        {"lion", Optimiser::lion(0.02)},
                        {"lion_settings", Optimiser::lion(0.02, 0.7, 0.8)},
                        {"rmsprop", Optimiser::rmsprop(0.02)},
                        {"rmsprop_momentum", Optimiser::rmsprop(0.02, 0.8, 0.9)},
                        {"rmsprop_centered", Optimiser::rmsprop(0.02, 0.9, 0, true)},
                        {"rmsprop_centered_momentum", Optimiser::rmsprop(0.02, 0.9, 0.5, true)}};
  all.push_back({"adam_epsilon_after_correction", Optimiser::adam(0.05, 0.9, 0.999, 1e-2)});
  all.back().optimiser.set("epsilon_after_correction", true);
  for (size_t i = 0, plain = all.size(); i < plain; ++i) {
    const Case base = all[i];
    const auto vary = [&](const char* name, auto change) {
      all.push_back({base.name + name, base.optimiser});
      change(all.back().optimiser);
    };
    vary("_decay", [](Optimiser& o) { o.weight_decay = 0.05; });
    vary("_clip_value", [](Optimiser& o) { o.clip_value = 0.3; });
    vary("_clip_norm", [](Optimiser& o) { o.clip_norm = 0.8; });
    vary("_global_clip_norm", [](Optimiser& o) { o.global_clip_norm = 2.5; });
  }
  return all;
}

class OptimiserTest : public ::testing::TestWithParam<Case> {};

TEST_P(OptimiserTest, FollowsTheFormulas) {
  const Optimiser& o = GetParam().optimiser;
  constexpr size_t kDense = 3 * 5, kTable = 6 * 7, kIds = 8;
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {3, 5}, Init::zeros());
  const Tensor table = graph.variable("table", DType::F32, {6, 7}, Init::zeros());
  const Tensor unused = graph.variable("unused", DType::F32, {2}, Init::zeros());
  const Tensor rows = graph.placeholder("rows", DType::I32, {Dim::batch(2)});
  const Tensor gw = graph.placeholder("gw", DType::F32, {3, 5});
  const Tensor gt = graph.placeholder("gt", DType::F32, {Dim::batch(2), 7});
  const Tensor loss = add(reduce_sum(mul(w, gw)), reduce_sum(mul(gather(table, rows), gt)));
  const Updates updates = minimize(loss, o);
  EXPECT_EQ(updates.nodes.size(), 3U) << "two weights and the counter: an unused weight is left alone";

  Evaluator evaluator(graph, kIds / 2);
  for (const graph::Variable& variable : graph.body().variables()) {
    const Tensor tensor(graph, variable.value);
    if (tensor.dtype() == DType::I64)
      evaluator.set(tensor.id(), Contents(sizeof(int64_t)));
    else
      evaluator.set_floats(tensor.id(), std::vector<float>(static_cast<size_t>(element_count(tensor.shape()).fixed())));
  }
  const std::vector<float> rate{static_cast<float>(o.learning_rate)};
  evaluator.set_floats(updates.learning_rate.id(), rate);
  const std::vector<float> w0 = draw(kDense, 1, -1, 1);
  const std::vector<float> t0 = draw(kTable, 2, -1, 1);
  evaluator.set_floats(w.id(), w0);
  evaluator.set_floats(table.id(), t0);
  Reference dense{Numbers(w0.begin(), w0.end())};
  Reference sparse{Numbers(t0.begin(), t0.end())};

  for (int t = 1; t <= 5; ++t) {
    const auto seed = static_cast<uint64_t>(t);
    const std::vector<float> g1 = draw(kDense, 10 + seed, -1, 1);
    const std::vector<float> g2 = draw(kIds * 7, 20 + seed, -1, 1);
    std::vector<int32_t> ids(kIds);
    // Row 5 never comes, others repeat.
    for (size_t i = 0; i < kIds; ++i) ids[i] = static_cast<int32_t>(mix_bits(30 + seed, i) % 5);
    const auto* bytes = reinterpret_cast<const std::byte*>(ids.data());
    evaluator.set(rows.id(), Contents(bytes, bytes + kIds * sizeof(int32_t)));
    evaluator.set_floats(gw.id(), g1);
    evaluator.set_floats(gt.id(), g2);
    evaluator.run();

    const Numbers d1(g1.begin(), g1.end());
    Numbers d2(kTable);
    for (size_t i = 0; i < kIds; ++i)
      for (size_t j = 0; j < 7; ++j) d2[static_cast<size_t>(ids[i]) * 7 + j] += static_cast<double>(g2[i * 7 + j]);
    const auto limited = [](double limit, double square) { return std::min(1.0, limit / std::sqrt(square)); };
    const double both = o.global_clip_norm != 0 ? limited(o.global_clip_norm, squares(d1) + squares(d2)) : 1;
    dense.step(o, d1, o.clip_norm != 0 ? limited(o.clip_norm, squares(d1)) : both, t);
    sparse.step(o, d2, o.clip_norm != 0 ? limited(o.clip_norm, squares(d2)) : both, t);
    const std::vector<float> w_now = evaluator.floats(w.id());
    const std::vector<float> t_now = evaluator.floats(table.id());
    for (size_t i = 0; i < kDense; ++i) ASSERT_NEAR(w_now[i], dense.w[i], 2e-5) << "step " << t << ", element " << i;
    for (size_t i = 0; i < kTable; ++i) ASSERT_NEAR(t_now[i], sparse.w[i], 2e-5) << "step " << t << ", element " << i;
  }
  EXPECT_EQ(evaluator.floats(updates.step.id()), std::vector<float>{5});
  EXPECT_EQ(evaluator.floats(unused.id()), (std::vector<float>{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(All, OptimiserTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Optimiser, NamesItsVariables) {
  Graph graph;
  const Tensor w = graph.variable("dense/kernel", DType::F32, {3}, Init::zeros());
  minimize(reduce_sum(mul(w, w)), Optimiser::adam());
  for (const char* name :
       {"optimiser/learning_rate", "optimiser/step", "optimiser/dense/kernel/m", "optimiser/dense/kernel/v"})
    EXPECT_EQ(graph.body().variable_of(graph.find(name).id()).role(), VariableRole::Optimiser) << name;
}

TEST(Optimiser, KnowsTheListAndItsSettings) {
  for (const std::string_view name : Optimiser::names()) {
    const Optimiser optimiser = Optimiser::named(name);
    EXPECT_EQ(Optimiser::named(optimiser.name()).name(), optimiser.name()) << name;
    for (const auto& [setting, value] : optimiser.settings()) EXPECT_EQ(optimiser.get(setting), value) << setting;
  }
  EXPECT_EQ(Optimiser::named("AdamW").weight_decay, 4e-3);
  EXPECT_EQ(Optimiser::named("AdamW").name(), "adam");
  EXPECT_EQ(Optimiser::adam().set("beta1", 0.5).get("beta1"), 0.5);
  EXPECT_EQ(Optimiser::adam().set("learning_rate", 0.5).learning_rate, 0.5);
  EXPECT_TRUE(Optimiser::sgd(0.1, 0.9).keeps_state());
  EXPECT_FALSE(Optimiser::sgd(0.1).keeps_state());
}

TEST(Optimiser, RefusesWhatItDoesNotHave) {
  const auto refusal = [](auto act) -> std::string {
    try {
      act();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal([] { Optimiser::named("adamm"); }),
              ::testing::HasSubstr("optimiser 'adamm' is unknown; known are sgd, adam"));
  EXPECT_THAT(refusal([] { Optimiser::lion().set("momentum", 0.9); }),
              ::testing::HasSubstr("momentum is a setting of sgd"));
  EXPECT_THAT(refusal([] { Optimiser::lion().set("warmth", 0.9); }),
              ::testing::HasSubstr("lion has no setting 'warmth'; it has beta1"));
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {3}, Init::zeros());
  EXPECT_THAT(refusal([&] { minimize(reduce_sum(w), Optimiser::adam(0.1, 1)); }),
              ::testing::HasSubstr("beta1 must be at least 0 and below 1 but is 1"));
}

TEST(Optimiser, TrainsOnlyTheGivenWeights) {
  Graph graph;
  const Tensor a = graph.variable("a", DType::F32, {3}, Init::zeros());
  const Tensor b = graph.variable("b", DType::F32, {3}, Init::zeros());
  EXPECT_EQ(minimize(reduce_sum(mul(a, b)), Optimiser::sgd(), std::vector{b}).nodes.size(), 2U);
}

TEST(Optimiser, RefusesWeightsThatAreNotF32) {
  const auto train_beside = [](VariableRole role) {
    Graph graph;
    const Tensor w = graph.variable("w", DType::F32, {3}, Init::zeros());
    graph.variable("ids", DType::I32, {4}, Init::zeros(), role);
    minimize(reduce_sum(mul(w, w)), Optimiser::sgd());
  };
  try {
    train_beside(VariableRole::Weight);
    FAIL() << "a weight was left out";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("'ids' (i32[4]) is no variable of f32"));
  }
  EXPECT_NO_THROW(train_beside(VariableRole::Statistic));
}

TEST(Optimiser, RefusesTwoClips) {
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {3}, Init::zeros());
  Optimiser o = Optimiser::sgd();
  o.clip_norm = 1;
  o.clip_value = 1;
  EXPECT_THROW(minimize(reduce_sum(w), o), Error);
}

}  // namespace
}  // namespace plimsoll::testing

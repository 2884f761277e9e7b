// Gradients of several batches added up equal one large batch: by samples, with a short last batch and a group that is
// not full.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "base/random.h"
#include "model/training.h"

namespace plimsoll {
namespace {

using Weights = std::vector<std::vector<float>>;

// Synthetic samples for a built-in model.
struct Samples {
  std::vector<std::byte> input, labels;
  Bytes input_bytes, label_bytes;  // of one

  Samples(const ModelSpec& spec, int64_t count) {
    const auto fill = [&](const TensorType& type, uint64_t seed, int64_t end, std::vector<std::byte>& to) {
      const int64_t each = element_count(type.shape).count();
      to.resize(static_cast<size_t>(each * count * size_of(type.dtype)));
      for (int64_t i = 0; i < each * count; ++i) {
        const double real = unit_real(mix_bits(seed, static_cast<uint64_t>(i)));
        if (type.dtype == DType::F32)
          reinterpret_cast<float*>(to.data())[i] = static_cast<float>(2 * real - 1);
        else
          reinterpret_cast<int32_t*>(to.data())[i] = static_cast<int32_t>(real * static_cast<double>(end));
      }
      return each * size_of(type.dtype);
    };
    input_bytes = fill(spec.input(), 1, spec.classes, input);
    label_bytes = fill(spec.labels(), 2, spec.classes, labels);
  }

  std::vector<Feed> feeds(const model::TrainingGraph& of, int64_t first, int64_t count) const {
    return {{of.input(), of.input().dtype(), input.data() + first * input_bytes, count * input_bytes},
            {of.labels(), of.labels().dtype(), labels.data() + first * label_bytes, count * label_bytes}};
  }
};

Weights weights_of(Session& session, Graph& graph) {
  Weights all;
  for (const StoredVariable& variable : graph.store()->variables()) {
    if (variable.role == VariableRole::Optimiser) continue;
    all.emplace_back(static_cast<size_t>(element_count(variable.type.shape).fixed()));
    session.get(graph.find(variable.name), all.back());
  }
  return all;
}

// Groups of batches by their samples: each group is one update.
using Groups = std::vector<std::vector<int64_t>>;

struct Trained {
  Weights weights;
  int64_t updates = 0;
};

Trained train_accumulated(const ModelSpec& spec, const Samples& samples, const Optimiser& optimiser,
                          const Groups& groups) {
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, spec, optimiser, {}, 2);
  Session session(graph, MemoryLine());
  Step add = session.step({.fetch = {training.loss}, .update = training.updates, .batch = groups[0][0]});
  Step apply = session.step({.update = training.apply});
  apply({});  // nothing was added: nothing happens
  int64_t first = 0;
  for (const std::vector<int64_t>& group : groups) {
    for (const int64_t count : group) {
      add(samples.feeds(training, first, count));
      first += count;
    }
    apply({});
    apply({});
  }
  std::vector<int64_t> updates(1);
  session.get(training.updates.step, updates);
  return {weights_of(session, graph), updates[0]};
}

Trained train_large(const ModelSpec& spec, const Samples& samples, const Optimiser& optimiser, const Groups& groups) {
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, spec, optimiser);
  Session session(graph, MemoryLine());
  Step step = session.step({.fetch = {training.loss}, .update = training.updates, .batch = 16});
  int64_t first = 0;
  for (const std::vector<int64_t>& group : groups) {
    int64_t count = 0;
    for (const int64_t some : group) count += some;
    step(samples.feeds(training, first, count));
    first += count;
  }
  std::vector<int64_t> updates(1);
  session.get(training.updates.step, updates);
  return {weights_of(session, graph), updates[0]};
}

// Largest difference of an element, relative to the largest weight of its tensor.
double difference(const Weights& a, const Weights& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double size = 1e-6;
    for (const float w : b[i]) size = std::max(size, std::abs(static_cast<double>(w)));
    for (size_t j = 0; j < a[i].size(); ++j)
      worst = std::max(worst, std::abs(static_cast<double>(a[i][j]) - static_cast<double>(b[i][j])) / size);
  }
  return worst;
}

struct Case {
  std::string name, model;
  ModelOptions options;
  Optimiser optimiser;
};

class AccumulateTest : public ::testing::TestWithParam<Case> {};

// The last group of the epoch has one batch fewer, and its last batch fewer samples.
const Groups kGroups{{4, 4, 4}, {4, 4, 4}, {4, 3}};
constexpr int64_t kSamples = 31;

TEST_P(AccumulateTest, EqualsTheLargeBatch) {
  const Case& c = GetParam();
  // Each training begins with a model of its own: sessions of one model go on where the last one ended.
  const auto fresh = [&] { return find_model(c.model, c.options); };
  const Samples samples(fresh(), kSamples);
  const Trained accumulated = train_accumulated(fresh(), samples, c.optimiser, kGroups);
  const Trained large = train_large(fresh(), samples, c.optimiser, kGroups);
  EXPECT_EQ(accumulated.updates, 3);
  EXPECT_EQ(large.updates, 3);
  ASSERT_EQ(accumulated.weights.size(), large.weights.size());
  EXPECT_LT(difference(accumulated.weights, large.weights), 1e-4);
  // A mean over batches instead of samples is another result: the test can tell.
  Groups uneven = kGroups;
  std::swap(uneven[2][0], uneven[2][1]);
  EXPECT_LT(difference(train_accumulated(fresh(), samples, c.optimiser, uneven).weights, large.weights), 1e-4);
  EXPECT_GT(
      difference(train_accumulated(fresh(), samples, c.optimiser, {{4, 4, 4}, {4, 4, 4}, {4}}).weights, large.weights),
      1e-3);
}

ModelOptions tiny_transformer() {
  ModelOptions options;
  options.classes = 50;
  options.sequence = 8;
  options.layers = 2;
  options.width = 64;
  options.dropout = 0.0;
  return options;
}

Optimiser clipped(Optimiser optimiser) {
  optimiser.global_clip_norm = 0.05;
  return optimiser;
}

// Adam is left out where gradients are near zero: there it divides rounding by rounding.
INSTANTIATE_TEST_SUITE_P(
    Models, AccumulateTest,
    ::testing::Values(Case{"lenet_sgd", "lenet", {}, Optimiser::sgd(0.1, 0.9)},
                      Case{"lenet_adam", "lenet", {}, Optimiser::adam(1e-3, 0.9, 0.999, 1e-3)},
                      Case{"lenet_clipped", "lenet", {}, clipped(Optimiser::sgd(0.5))},
                      Case{"lenet_adafactor", "lenet", {}, Optimiser::adafactor(1e-2)},
                      Case{"transformer_sgd", "gpt2-small", tiny_transformer(), Optimiser::sgd(0.02, 0.9)},
                      Case{"transformer_clipped", "gpt2-small", tiny_transformer(), clipped(Optimiser::sgd(0.5))}),
    [](const auto& info) { return info.param.name; });

TEST(Accumulate, AnUnfinishedGroupGoesOnFromAFile) {
  const Samples samples(find_model("lenet", {}), 16);
  const std::string path = ::testing::TempDir() + "unfinished_group.safetensors";
  const auto run = [&](bool stops) {
    const ModelSpec spec = find_model("lenet", {});
    Weights result;
    for (const bool second : {false, true}) {
      Graph graph;
      const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::adam(), {}, 2);
      Session session(graph, MemoryLine());
      Step add = session.step({.fetch = {training.loss}, .update = training.updates, .batch = 8});
      Step apply = session.step({.update = training.apply});
      session.open();
      if (second) session.load(path);
      if (!second) add(samples.feeds(training, 0, 8));
      if (!second && stops) {
        session.save(path);
        continue;
      }
      std::vector<int64_t> batches(1);
      session.get(training.accumulated_batches, batches);
      EXPECT_EQ(batches[0], 1);
      add(samples.feeds(training, 8, 8));
      apply({});
      session.get(training.accumulated_batches, batches);
      EXPECT_EQ(batches[0], 0);
      result = weights_of(session, graph);
      break;
    }
    return result;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Accumulate, ShowsItsSumsInThePlan) {
  const ModelSpec spec = find_model("mlp", {});
  const auto optimiser_bytes = [&](int64_t batches) {
    Graph graph;
    const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::sgd(), {}, batches);
    Bytes bytes = 0;
    for (const StoredVariable& variable : graph.store()->variables())
      if (variable.role == VariableRole::Optimiser)
        bytes += element_count(variable.type.shape).fixed() * size_of(variable.type.dtype);
    return bytes;
  };
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::sgd());
  Bytes weights = 0;
  for (const StoredVariable& variable : graph.store()->variables())
    if (variable.role == VariableRole::Weight) weights += 4 * element_count(variable.type.shape).fixed();
  EXPECT_EQ(optimiser_bytes(4) - optimiser_bytes(1), weights + 12) << "one more float a weight, and two counters";
}

}  // namespace
}  // namespace plimsoll

// Random programs over a few models: whoever trains, loads, saves or calls a model, its weights are one set, and those
// of another model stay as they are.
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/plimsoll.h>
#include "random/choices.h"
#include "support/disk_folder.h"
#include "train/circle.h"

namespace plimsoll::testing {
namespace {

using Answers = std::vector<float>;

constexpr int64_t kSamples = 48;

bool are_near(const Answers& a, const Answers& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-4F * (1 + std::abs(b[i])))) return false;
  return true;
}

// A model, and what it answers as far as the program knows.
struct Known {
  Model model;
  Answers answers = {};
  bool is_loaded = false;
};

class Program {
 public:
  explicit Program(Choices& choices) : c(choices), line_(c.pick({64 * MiB, 16 * MiB})) {}

  void run() {
    const auto models = c.between(1, 3);
    for (int64_t i = 0; i < models; ++i) add();
    const auto actions = c.between(1, 8);
    for (int64_t i = 0; i < actions; ++i) {
      const Choices::Part part(c);
      if (c.chance(25)) eager_.reset();
      act(c.below(models_.size()));
      check_all();
    }
  }

 private:
  void add() {
    std::vector<Layer> layers;
    const auto depth = c.between(0, 2);
    for (int64_t i = 0; i < depth; ++i) {
      layers.push_back(layers::dense(c.pick({4, 8, 33}), {.activation = c.chance(50) ? "relu" : "tanh"}));
      if (c.chance(30)) layers.push_back(layers::batch_norm());
      if (c.chance(20)) layers.push_back(layers::dropout(0.2));
    }
    layers.push_back(layers::dense(3));
    Known made{sequential(layers, c.chance(70) ? "net" : fmt::format("net_{}", models_.size()))};
    compile(made.model);
    made.answers = predict(made.model);
    models_.push_back(made);
  }

  void compile(Model& model) const {
    model.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy", .seed = 7});
  }

  Dataset all() const { return circle_.dataset().batch(kSamples); }
  Answers predict(Model& model) { return model.predict(all(), line_).numbers; }
  Tensor inputs() const { return tensor(circle_.x, {kSamples, 2}); }
  Tensor labels() const { return tensor(circle_.y, {kSamples}); }
  void expect_eager() {
    if (!eager_) eager_.emplace(line_);
  }
  std::string path(const std::string& kind) { return fmt::format("{}/{}{}", folder_, kind, ++files_); }

  void tape(const Model& model, int64_t steps) {
    expect_eager();
    const Tensor x = inputs(), y = labels();
    const Optimiser adam = Optimiser::adam(0.02);
    for (int64_t i = 0; i < steps; ++i) {
      Tape tape;
      const Tensor loss = sparse_cross_entropy(model(x, true), y);
      adam.apply(tape.gradient(loss, model.weights()), model.weights());
    }
  }

  // In a session of the program's own.
  void step(const Model& model, int64_t steps) {
    Graph graph;
    const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 2});
    const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
    const Tensor loss = sparse_cross_entropy(model(x, true), y);
    const Updates updates = minimize(loss, Optimiser::sgd(0.2));
    Session session(graph, line_);
    Step train = session.step({.fetch = {loss}, .update = updates, .batch = kSamples});
    for (int64_t i = 0; i < steps; ++i) train({{x, circle_.x}, {y, circle_.y}});
  }

  // One action on one model. What trains leaves other answers, everything else those from before.
  void act(size_t at) {
    Known& known = models_[at];
    Model& model = known.model;
    const auto action = c.below(11);
    const auto steps = c.between(1, 4);
    bool trains = false;
    std::string name;
    if (action == 0) {
      name = "predict";
      predict(model);
    } else if (action == 1) {
      name = "fit";
      fit(known, {.epochs = steps});
      trains = true;
    } else if (action == 2) {
      name = "tape";
      tape(model, steps);
      trains = true;
    } else if (action == 3) {
      name = "session";
      step(model, steps);
      trains = true;
    } else if (action == 4) {
      name = "save, load";
      const std::string saved = path("model");
      model.save(saved);
      known = {Model::load(saved), known.answers, true};
    } else if (action == 5) {
      name = "save_weights, load_weights";
      const std::string saved = path("weights");
      model.save_weights(saved);
      if (c.chance(50)) tape(model, steps);
      model.load_weights(saved);
    } else if (action == 6) {
      name = "release";
      model.release();
    } else if (action == 7) {
      name = "evaluate";
      if (known.is_loaded) compile(model);
      model.evaluate(all(), line_);
    } else if (action == 8) {
      name = "assign";
      expect_eager();
      const Tensor weight = model.weights().back();
      weight.assign(weight + 1.0);
      trains = true;
    } else if (action == 9) {
      name = "replicas";
      fit(known, {.epochs = steps, .strategy = Strategy::mirrored(2)});
      trains = true;
    } else {
      name = "Eager::save, load";
      tape(model, 1);  // makes what the optimiser keeps, without which the file would be one of other code
      known.answers = predict(model);
      const std::string saved = path("eager");
      eager_->save(saved);
      tape(model, steps);
      eager_->load(saved);
    }
    c.note(fmt::format("model {}: {}{}", at, name, eager_ ? " (beside an Eager)" : ""));
    c.count(name);
    if (!trains) return;
    const Answers answers = predict(models_[at].model);
    if (are_near(answers, known.answers)) throw Violation("what trains changes the weights", name);
    known.answers = answers;
  }

  void fit(Known& known, const FitOptions& options) {
    if (known.is_loaded) compile(known.model);
    known.model.fit(circle_.dataset().batch(16), line_, options);
  }

  // Each model gives what the program knows of it, in each of some ways to call it.
  void check_all() {
    for (size_t i = 0; i < models_.size(); ++i) {
      Known& known = models_[i];
      const auto ways = c.between(1, 3);
      for (int64_t k = 0; k < ways; ++k) {
        const auto way = c.below(5);
        const std::string name = std::array{"predict", "eager", "function", "session", "file"}[way];
        const Answers found = answers_of(known.model, way);
        if (!are_near(found, known.answers))
          throw Violation("a model has one set of weights",
                          fmt::format("model {} by {}: {} ..., not {}", i, name, found[0], known.answers[0]));
      }
    }
    if (line_.used() > line_.limit()) throw Violation("the line is kept", format_bytes(line_.used()));
  }

  Answers answers_of(Model& model, uint64_t way) {
    if (way == 0) return predict(model);
    if (way == 1) {
      expect_eager();
      return model(inputs()).to_vector<float>();
    }
    if (way == 2) {
      expect_eager();
      const auto traced = function([&](Tensor x) { return model(x); });
      return traced(inputs()).to_vector<float>();
    }
    if (way == 4) {
      const std::string saved = path("copy");
      model.save(saved);
      Model copy = Model::load(saved);
      return predict(copy);
    }
    Graph graph;
    const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 2});
    const Tensor y = model(x);
    Session session(graph, line_);
    Step infer = session.step({.fetch = {y}, .batch = kSamples});
    const Results results = infer({{x, circle_.x}});
    return {results[0].floats().begin(), results[0].floats().end()};
  }

  Choices& c;
  const DiskFolder folder_holder_;
  const std::string folder_ = folder_holder_;
  const Circle circle_{kSamples};
  MemoryLine line_;
  std::vector<Known> models_ = {};
  std::optional<Eager> eager_ = {};
  int files_ = 0;
};

TEST(RandomModels, HaveOneSetOfWeights) {
  expect_law({60, 0.1, 120, 60}, [](Choices& c) { Program(c).run(); });
}

}  // namespace
}  // namespace plimsoll::testing

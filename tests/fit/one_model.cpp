// A model has one set of weights, whoever trains, loads, saves, evaluates or calls it.
#include <filesystem>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/plimsoll.h>
#include "support/error_of.h"
#include "train/circle.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::Circle;
using testing::error_of;
using ::testing::HasSubstr;

class OneModel : public ::testing::Test {
 protected:
  OneModel() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OneModel() override { fs::remove_all(folder_); }
  std::string path(const std::string& name = "net.plimsoll") const { return folder_ + "/" + name; }

  Model compiled_net() const {
    Model net = sequential({layers::dense(16, {.activation = "relu"}), layers::batch_norm(), layers::dense(3)});
    net.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
    return net;
  }
  Model trained_net() const {
    Model net = compiled_net();
    net.fit(train_, line_, {.epochs = 2});
    return net;
  }
  Tensor inputs() const { return tensor(points_.x, {96, 2}); }
  Tensor labels() const { return tensor(points_.y, {96}); }
  std::vector<float> call(const Model& net) const { return net(inputs()).to_vector<float>(); }
  std::vector<float> predict(Model& net) const { return net.predict(all_, line_).numbers; }
  // Some steps with a tape.
  void tape(const Model& net, int steps = 5) const {
    const Tensor x = inputs(), y = labels();
    const Optimiser adam = Optimiser::adam(0.01);
    for (int i = 0; i < steps; ++i) {
      Tape tape;
      const Tensor loss = sparse_cross_entropy(net(x, true), y);
      adam.apply(tape.gradient(loss, net.weights()), net.weights());
    }
  }
  static void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
  }

  const std::string folder_ =
      ::testing::TempDir() + "one_model_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const Circle points_{96};
  const Dataset train_ = points_.dataset().shuffle().batch(32), test_ = points_.dataset().batch(32),
                all_ = points_.dataset().batch(96);
  MemoryLine line_{64 * MiB};
};

TEST_F(OneModel, FitThenEager) {
  Model net = trained_net();
  const std::vector<float> expected = predict(net);
  Eager eager(line_);
  expect_near(call(net), expected);
  // And on: an Eager that has called the model sees the next fit.
  net.fit(train_, line_, {.epochs = 1});
  const std::vector<float> later = predict(net);
  EXPECT_NE(later, expected);
  expect_near(call(net), later);
}

TEST_F(OneModel, EagerThenEvaluatePredictAndFit) {
  Model net = compiled_net();
  std::vector<float> answers;
  double loss = 0;
  {
    Eager eager(line_);
    const std::vector<float> before = call(net);
    tape(net);
    answers = call(net);
    EXPECT_NE(answers, before);
    loss = sparse_cross_entropy(net(inputs()), labels()).item<float>();
    expect_near(predict(net), answers);
    EXPECT_NEAR(net.evaluate(test_, line_)["loss"], loss, 1e-4);
    tape(net);  // on after the evaluation
    answers = call(net);
  }
  // After the Eager, and its pending updates, the model has them still.
  expect_near(predict(net), answers);
  const History history = net.fit(train_, line_, {.epochs = 1});
  EXPECT_LT(history["loss"].front(), 1.05);
}

TEST_F(OneModel, UpdatesThatArePendingCount) {
  Model net = compiled_net();
  std::optional<Eager> eager(line_);
  const std::vector<float> before = call(net);
  tape(net, 1);  // nobody looks
  eager.reset();
  EXPECT_NE(predict(net), before);
}

TEST_F(OneModel, CodeThatIsPendingSeesTheWeightsOfItsTime) {
  Model net = trained_net();
  Eager eager(line_);
  const std::vector<float> expected = predict(net);
  const Tensor y = net(inputs());  // is computed when fit changes what it reads
  net.fit(train_, line_, {.epochs = 1});
  expect_near(y.to_vector<float>(), expected);
}

TEST_F(OneModel, LoadTapeSaveLoad) {
  Model first = trained_net();
  first.save(path());
  Model net = Model::load(path());
  std::vector<float> answers;
  {
    Eager eager(line_);
    expect_near(call(net), predict(first));
    tape(net);
    answers = call(net);
    net.save(path("second"));
    net.save_weights(path("w.safetensors"));
  }
  Model second = Model::load(path("second"));
  expect_near(predict(second), answers);
  Model written = compiled_net();
  written.load_weights(path("w.safetensors"));
  expect_near(predict(written), answers);
  // Over the directory that it was loaded from.
  net.save(path());
  Model third = Model::load(path());
  EXPECT_EQ(predict(third), predict(second));
}

TEST_F(OneModel, AModelThatOnlyATapeTrainedIsSaved) {
  Model net = sequential({layers::dense(4), layers::dense(3)});
  EXPECT_THAT(error_of([&] { net.save_weights(path("w")); }), HasSubstr("has no weights to save yet"));
  Eager eager(line_);
  tape(net);
  net.save(path());
  Model loaded = Model::load(path());
  expect_near(predict(loaded), call(net));
}

TEST_F(OneModel, LoadWeightsReachesEagerCode) {
  Model first = trained_net();
  first.save_weights(path("w.safetensors"));
  Model net = compiled_net();
  Eager eager(line_);
  const std::vector<float> before = call(net);
  net.load_weights(path("w.safetensors"));
  expect_near(call(net), predict(first));
  EXPECT_NE(call(net), before);
  // What does not fit is refused, and changes nothing.
  Model other = sequential({layers::dense(5), layers::batch_norm(), layers::dense(3)});
  const std::vector<float> answers = call(other);
  EXPECT_THAT(error_of([&] { other.load_weights(path("w.safetensors")); }), HasSubstr("but the model has"));
  EXPECT_EQ(call(other), answers);
}

TEST_F(OneModel, Functions) {
  Model net = trained_net();
  Eager eager(line_);
  const auto traced = function([&](Tensor x) { return net(x); });
  expect_near(traced(inputs()).to_vector<float>(), predict(net));
  net.fit(train_, line_, {.epochs = 1});
  expect_near(traced(inputs()).to_vector<float>(), predict(net));
  tape(net);
  expect_near(traced(inputs()).to_vector<float>(), predict(net));
}

TEST_F(OneModel, Sessions) {
  Model net = trained_net();
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 2});
  const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
  const Tensor loss = sparse_cross_entropy(net(x, true), y), answers = net(x);
  const Updates updates = minimize(loss, Optimiser::sgd(0.1));
  const auto run = [&](Step& step) {
    const std::span<const float> out = step({{x, points_.x}, {y, points_.y}})[0].floats();
    return std::vector<float>(out.begin(), out.end());
  };
  {
    Session session(graph, line_);
    Step train = session.step({.fetch = {loss}, .update = updates, .batch = 96});
    Step infer = session.step({.fetch = {answers}, .batch = 96});
    expect_near(run(infer), predict(net));  // as fit left them
    for (int i = 0; i < 3; ++i) run(train);
    expect_near(predict(net), run(infer));  // as the session left them
    net.fit(train_, line_, {.epochs = 1});
    expect_near(run(infer), predict(net));
    run(train);
  }
  // The session is gone, what it did is not.
  Graph other;
  const Tensor x2 = other.placeholder<float>("x", {Dim::batch(), 2});
  const Tensor again = net(x2);
  Session session(other, line_);
  Step step = session.step({.fetch = {again}, .batch = 96});
  const std::span<const float> out = step({{x2, points_.x}})[0].floats();
  expect_near({out.begin(), out.end()}, predict(net));
}

TEST_F(OneModel, WeightsByName) {
  Model net = trained_net();
  Eager eager(line_);  // that has not called it
  EXPECT_EQ(net.weights().size(), 6U);
  const Tensor kernel = net.weight("dense_1/kernel");
  EXPECT_EQ(kernel.dtype(), DType::F32);
  EXPECT_EQ(kernel.to_vector<float>(), net.weight("sequential/dense_1/kernel").to_vector<float>());
  EXPECT_EQ(net.weight("batch_norm/mean").to_vector<float>().size(), 16U);  // a statistic
  const std::vector<float> before = predict(net);
  kernel.assign(zeros({16, 3}));
  net.weight("dense_1/bias").assign(tensor<float>({1, 2, 3}));
  const std::vector<float> answers = predict(net);
  EXPECT_NE(answers, before);
  for (size_t i = 0; i < answers.size(); ++i) ASSERT_EQ(answers[i], static_cast<float>(1 + i % 3));
  EXPECT_THAT(error_of([&] { net.weight("dense_7/kernel"); }), HasSubstr("it has dense/kernel, dense/bias"));
  EXPECT_THAT(error_of([] { sequential({layers::dense(2)}).weight("dense/kernel"); }), HasSubstr("has no weights yet"));
}

TEST_F(OneModel, TwoModelsAreTwo) {
  Eager eager(line_);
  Model a = sequential({layers::dense(3)}), b = sequential({layers::dense(3)});
  const std::vector<float> of_a = call(a), of_b = call(b);
  EXPECT_NE(of_a, of_b);
  tape(a);
  EXPECT_NE(call(a), of_a);
  EXPECT_EQ(call(b), of_b);
  a.save(path("a"));
  b.save(path("b"));
  Model first = Model::load(path("a")), second = Model::load(path("b"));
  EXPECT_EQ(first.name(), second.name());
  expect_near(call(first), call(a));
  expect_near(call(second), call(b));
  EXPECT_EQ(call(first), call(first));
}

TEST_F(OneModel, PartsOfAnotherModelAreShared) {
  const Model encoder = sequential({layers::dense(8)}, "encoder");
  Model whole("whole", [encoder](Tensor x, bool training) { return layers::dense(encoder(x, training), 3); });
  whole.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
  whole.fit(train_, line_, {.epochs = 1});
  Eager eager(line_);
  const Tensor code = encoder(inputs());
  const Tensor head = matmul(code, whole.weight("dense/kernel")) + whole.weight("dense/bias");
  expect_near(head.to_vector<float>(), predict(whole));
  encoder.weight("dense/kernel").assign(zeros({2, 8}));
  EXPECT_EQ(call(whole)[0], predict(whole)[0]);
}

TEST_F(OneModel, TwoFitsGoOn) {
  Model once = compiled_net(), twice = compiled_net();
  const Dataset steady = points_.dataset().batch(32);
  once.fit(steady, line_, {.epochs = 2});
  twice.fit(steady, line_, {.epochs = 1});
  twice.evaluate(test_, line_);
  twice.release();
  twice.fit(steady, line_, {.epochs = 2, .initial_epoch = 1});
  EXPECT_EQ(predict(once), predict(twice));
}

TEST_F(OneModel, ReplicasTrainTheSameWeights) {
  Model net = compiled_net();
  Eager eager(line_);
  tape(net, 2);
  const std::vector<float> before = call(net);
  net.fit(train_, line_, {.epochs = 1, .strategy = Strategy::mirrored(2)});
  EXPECT_NE(call(net), before);
  expect_near(call(net), predict(net));
}

TEST_F(OneModel, ACallbackSeesTheWeightsOfItsEpoch) {
  Model net = compiled_net();
  Eager eager(line_);
  std::vector<std::vector<float>> seen;
  const auto look = custom_callback({.after_epoch = [&](FitRun&) { seen.push_back(call(net)); }});
  net.fit(train_, line_, {.epochs = 3, .callbacks = {look}});
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
  expect_near(seen[2], predict(net));
}

TEST_F(OneModel, ALoadedModelIsEvaluatedWithoutCompile) {
  Model net = trained_net();
  net.save(path());
  Model loaded = Model::load(path());
  const Evaluation expected = net.evaluate(test_, line_), found = loaded.evaluate(test_, line_);
  EXPECT_EQ(found["loss"], expected["loss"]);
  EXPECT_EQ(found["accuracy"], expected["accuracy"]);
  Eager eager(line_);
  tape(loaded);
  EXPECT_NE(loaded.evaluate(test_, line_)["loss"], expected["loss"]);
  // One that was saved without an objective says so.
  Model plain = sequential({layers::dense(3)});
  predict(plain);
  plain.save(path("plain"));
  EXPECT_THAT(error_of([&] { Model::load(path("plain")).evaluate(test_, line_); }), HasSubstr("is not compiled"));
}

// Batch norm, dropout and the optimiser's state go on as they would have.
TEST_F(OneModel, ATapeLoopResumesWithTheSameBits) {
  const auto train = [&](int from, int to, const std::string& load, const std::string& save) {
    Eager eager(line_);
    Model net = sequential({layers::dense(16), layers::batch_norm(), layers::dropout(0.3), layers::dense(3)});
    if (!load.empty()) eager.load(load);
    const Optimiser adam = Optimiser::adam(0.02);
    std::vector<float> losses;
    for (int i = from; i < to; ++i) {
      if (i == 5 && !save.empty()) eager.save(save);
      const Tensor x = inputs() + normal({96, 2}, 0, 0.1);
      Tape tape;
      const Tensor loss = sparse_cross_entropy(net(x, true), labels());
      adam.apply(tape.gradient(loss, net.weights()), net.weights());
      losses.push_back(loss.item<float>());
    }
    const std::vector<float> answers = call(net);
    losses.insert(losses.end(), answers.begin(), answers.end());
    return losses;
  };
  const std::vector<float> whole = train(0, 10, "", path("at5"));
  const std::vector<float> resumed = train(5, 10, path("at5"), "");
  EXPECT_EQ(std::vector<float>(whole.begin() + 5, whole.end()), resumed);
  EXPECT_THAT(error_of([&] {
                Eager eager(line_);
                eager.variable("mine", {2}, Init::zeros());
                eager.load(path("at5"));
              }),
              HasSubstr("has no variable 'mine'"));
}

TEST_F(OneModel, EagerCodeAndEvaluationTakeTurnsOnATightLine) {
  constexpr int64_t kWidth = 512;  // a kernel of 1 MiB
  Model net = sequential({layers::dense(kWidth), layers::dense(kWidth), layers::dense(3)});
  net.compile({.optimiser = Optimiser::sgd(0.01), .loss = "sparse_cross_entropy"});
  MemoryLine line(9 * MiB);
  Eager eager(line);
  for (int round = 0; round < 3; ++round) {
    tape(net, 2);
    const float loss = sparse_cross_entropy(net(inputs()), labels()).item<float>();
    EXPECT_NEAR(net.evaluate(test_, line)["loss"], loss, 1e-3);
    EXPECT_LE(line.used(), line.limit());
  }
}

}  // namespace
}  // namespace plimsoll

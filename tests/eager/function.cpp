#include <plimsoll/eager.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class FunctionTest : public testing::Test {
 protected:
  MemoryLine line_{256 * MiB};
  Eager eager_{line_};
};

TEST_F(FunctionTest, IsTracedOnceForEachSignature) {
  int runs = 0;
  const auto f = function([&](Tensor x, double factor) {
    ++runs;
    return x * factor + 1;
  });
  EXPECT_THAT(f(tensor({1.0F, 2.0F}), 2.0).to_vector<float>(), ElementsAre(3, 5));
  EXPECT_THAT(f(tensor({3.0F, 4.0F}), 2.0).to_vector<float>(), ElementsAre(7, 9));
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(f(tensor({3.0F, 4.0F}), 3.0).to_vector<float>(), ElementsAre(10, 13));
  EXPECT_EQ(runs, 2) << "numbers count by value";
  EXPECT_THAT(f(tensor({3.0F}), 3.0).to_vector<float>(), ElementsAre(10));
  EXPECT_EQ(f.facts().traces, 3);
}

TEST_F(FunctionTest, GivesTheBitsOfEagerCode) {
  const auto code = [](Tensor x) { return softmax(matmul(x, x)); };
  const auto heavy = function(code);
  const Tensor x = normal({64, 64});
  EXPECT_EQ(heavy(x).to_vector<float>(), code(x).to_vector<float>());
}

TEST_F(FunctionTest, OneTraceServesAllBatchSizes) {
  const auto f = function([](Tensor x) { return reshape(x * 2, {Dim::batch(2), 2}); }, {.open_batch = true});
  for (int64_t batch = 1; batch < 5; ++batch) {
    const Tensor y = f(full({batch, 4}, 1));
    EXPECT_EQ(y.shape(), (Shape{2 * batch, 2}));
    EXPECT_EQ(y[0][0].item<float>(), 2);
  }
  EXPECT_EQ(f.facts().traces, 1);
}

TEST_F(FunctionTest, CapturesVariablesAndValues) {
  const Tensor w = eager_.variable("w", {2}, Init::constant(2)), offset = tensor({10.0F, 20.0F});
  const auto f = function([&](Tensor x) { return x * w + offset; });
  EXPECT_THAT(f(tensor({1.0F, 1.0F})).to_vector<float>(), ElementsAre(12, 22));
  w.assign(tensor({3.0F, 3.0F}));
  EXPECT_THAT(f(tensor({1.0F, 1.0F})).to_vector<float>(), ElementsAre(13, 23));
}

TEST_F(FunctionTest, GradientsFlowThroughItAndItsInnerFunctions) {
  const Tensor w = eager_.variable("w", {}, Init::constant(3));
  const auto inner = function([&](Tensor x) { return x * w; });
  const auto outer = function([&](Tensor x) { return inner(inner(x)); });
  Tape tape;
  const Tensor y = outer(scalar(2.0F));
  EXPECT_FLOAT_EQ(tape.gradient(y, w).item<float>(), 12);  // 2 w^2
  EXPECT_EQ(inner.facts().traces, 0) << "it is part of the outer trace";
}

TEST_F(FunctionTest, ModelsAndStepsCanBeTraced) {
  const Model net = sequential({layers::dense(8, {.activation = "relu"}), layers::dense(3)});
  const auto loss_of = function([&](Tensor x, Tensor y) { return sparse_cross_entropy(net(x, true), y); });
  const Tensor x = normal({16, 4}),
               y = tensor(std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}, {16});
  const float first = loss_of(x, y).item<float>();
  for (int i = 0; i < 30; ++i) {
    Tape tape;
    const Tensor loss = loss_of(x, y);
    Optimiser::adam(0.05).apply(tape.gradient(loss, net.weights()), net.weights());
  }
  EXPECT_LT(loss_of(x, y).item<float>(), first / 2);
  EXPECT_EQ(loss_of.facts().traces, 1);
}

TEST_F(FunctionTest, AConditionOnATracedNumberIsRefused) {
  const auto f = function([](Tensor x) { return x.item<float>() > 0 ? x : -x; });
  EXPECT_THAT([&] { f(scalar(1.0F)); }, ThrowsMessage<Error>(HasSubstr("where(condition, a, b)")));
}

TEST_F(FunctionTest, WarnsWhenEveryCallIsTracedAnew) {
  std::string warning;
  const auto f =
      function([](Tensor x) { return x * 2; }, {.cache = 3, .warn = [&](const std::string& why) { warning = why; }});
  for (int64_t i = 1; i <= 4; ++i) f(zeros({i}));
  EXPECT_EQ(warning, "");
  f(zeros({5}));
  EXPECT_THAT(warning, HasSubstr("tensor 0 is f32[5] and was f32[4]"));
  EXPECT_EQ(f.facts().kept, 3);
}

TEST_F(FunctionTest, RefusesArgumentsThatMakeNoSense) {
  const auto f = function([](Tensor x, Tensor y) { return x + y; }, {.open_batch = true});
  EXPECT_THAT([&] { f(zeros({2}), zeros({3})); }, ThrowsMessage<Error>(HasSubstr("the same size, not 2 and 3")));
  EXPECT_THAT([&] { f(zeros({2}), Tensor()); }, ThrowsMessage<Error>(HasSubstr("is unset")));
}

}  // namespace
}  // namespace plimsoll

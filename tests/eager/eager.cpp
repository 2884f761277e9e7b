#include <plimsoll/eager.h>

#include <numeric>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include <plimsoll/session.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class EagerTest : public testing::Test {
 protected:
  MemoryLine line_{256 * MiB};
  Eager eager_{line_};
};

TEST_F(EagerTest, OperatorsRunWhenSomebodyLooks) {
  const Tensor x = tensor({1.0F, 2.0F, 3.0F});
  const Tensor y = x * 2 + 1;
  EXPECT_EQ(eager_.facts().pending, 2);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(3, 5, 7));
  EXPECT_EQ(eager_.facts().pending, 0);
  EXPECT_FLOAT_EQ(reduce_sum(y * x).item<float>(), 3 + 10 + 21);
}

TEST_F(EagerTest, MakesTensorsFromNumbers) {
  EXPECT_THAT(zeros({3}).to_vector<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(ones({2}, DType::I32).to_vector<int32_t>(), ElementsAre(1, 1));
  EXPECT_THAT(full({2}, 2.5).to_vector<float>(), ElementsAre(2.5, 2.5));
  EXPECT_THAT(arange(4).to_vector<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(linspace(-1, 1, 5).to_vector<float>(), ElementsAre(-1, -0.5F, 0, 0.5F, 1));
  EXPECT_THAT(linspace(3, 4, 1).to_vector<float>(), ElementsAre(3));
  EXPECT_THAT(eye(2, 3).to_vector<float>(), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(eye(2, 0, DType::I32).to_vector<int32_t>(), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT([] { linspace(0, 1, 0); }, ThrowsMessage<Error>(HasSubstr("no 0 numbers")));
  EXPECT_THAT(arange(1, 8, 3, DType::I64).to_vector<int64_t>(), ElementsAre(1, 4, 7));
  EXPECT_EQ(scalar(7).item<int32_t>(), 7);
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(tensor(numbers, {2, 3}).shape(), (Shape{2, 3}));
  const std::vector<float> a = normal({1000}).to_vector<float>(), b = normal({1000}).to_vector<float>();
  EXPECT_NE(a, b);
  EXPECT_NEAR(std::accumulate(a.begin(), a.end(), 0.0F) / 1000, 0, 0.15);
  for (const float number : uniform({100}, 2, 3).to_vector<float>()) EXPECT_TRUE(number >= 2 && number <= 3);
}

TEST_F(EagerTest, RefusesTensorsThatMakeNoSense) {
  EXPECT_THAT([] { zeros({2, 0}); }, ThrowsMessage<Error>(HasSubstr("must be positive")));
  EXPECT_THAT(
      [] {
        tensor(std::vector<float>{1, 2}, {3});
      },
      ThrowsMessage<Error>(HasSubstr("2 numbers were given for [3]")));
  EXPECT_THAT([] { normal({2}, 0, -1); }, ThrowsMessage<Error>(HasSubstr("make no sense")));
  EXPECT_THAT([] { arange(0, 1, 0); }, ThrowsMessage<Error>(HasSubstr("in steps of 0")));
  EXPECT_THAT([] { matmul(zeros({2, 3}), zeros({2, 3})); }, ThrowsMessage<Error>(HasSubstr("matmul")));
}

TEST_F(EagerTest, ReadsWithTheRightTypeOnly) {
  const Tensor x = tensor({1.0F, 2.0F});
  EXPECT_THAT([&] { x.item<float>(); }, ThrowsMessage<Error>(HasSubstr("a single element")));
  EXPECT_THAT([&] { x.to_vector<int32_t>(); }, ThrowsMessage<Error>(HasSubstr("can't be read as i32")));
  std::vector<float> room(3);
  EXPECT_THAT([&] { x.copy_to(std::span<float>(room)); }, ThrowsMessage<Error>(HasSubstr("room for 3")));
}

TEST_F(EagerTest, IndexesAndSlices) {
  const Tensor x = reshape(arange(6), {2, 3});
  EXPECT_THAT(x[1].to_vector<float>(), ElementsAre(3, 4, 5));
  EXPECT_FLOAT_EQ(x[-1][0].item<float>(), 3);
  EXPECT_THAT(slice(x, 1, 1, 2).to_vector<float>(), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT([&] { static_cast<void>(x[2]); }, ThrowsMessage<Error>(HasSubstr("row 2 is outside of f32[2,3]")));
}

TEST_F(EagerTest, Prints) {
  std::ostringstream text;
  text << reshape(arange(6), {2, 3}) << ' ' << arange(100) << ' ' << scalar(2.5F);
  EXPECT_EQ(text.str(), "f32[2,3] [[0, 1, 2], [3, 4, 5]] f32[100] [0, 1, 2, ..., 97, 98, 99] f32[] 2.5");
}

TEST_F(EagerTest, ComparesElementByElement) {
  const Tensor x = arange(3), one = scalar(1.0F);
  EXPECT_EQ(to_string(x < one), "bool[3] [true, false, false]");
  EXPECT_EQ(to_string(x >= one), "bool[3] [false, true, true]");
  EXPECT_TRUE(x == x);
  EXPECT_FALSE(x == one);
}

TEST_F(EagerTest, ControlFlowOfTheLanguageWorks) {
  Tensor x = scalar(1.0F);
  int rounds = 0;
  while (x.item<float>() < 100) {
    x = x * 3;
    ++rounds;
  }
  EXPECT_EQ(rounds, 5);
}

TEST_F(EagerTest, VariablesTakeValues) {
  const Tensor w = eager_.variable("w", {2}, Init::constant(1));
  const Tensor before = w * 10;
  w.assign(tensor({3.0F, 4.0F}));
  const Tensor after = w * 10;
  w.assign_add(tensor({1.0F, 1.0F}));
  w.assign_sub(scalar(0.5F));
  EXPECT_THAT(before.to_vector<float>(), ElementsAre(10, 10));
  EXPECT_THAT(after.to_vector<float>(), ElementsAre(30, 40));
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(3.5, 4.5));
  EXPECT_EQ(eager_.variable("w", {2}, Init::zeros()).to_vector<float>(), w.to_vector<float>());
  EXPECT_THAT([&] { eager_.variable("w", {3}, Init::zeros()); },
              ThrowsMessage<Error>(HasSubstr("can't be reused as f32[3]")));
  EXPECT_THAT([&] { before.assign(w); }, ThrowsMessage<Error>(HasSubstr("is no variable")));
}

TEST_F(EagerTest, AViewOfAVariableKeepsItsNumbers) {
  const Tensor w = eager_.variable("w", {4}, Init::constant(1));
  const Tensor view = reshape(w, {2, 2}), same = reshape(view, {4});
  w.assign(zeros({4}));
  EXPECT_THAT(view.to_vector<float>(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(same.to_vector<float>(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(0, 0, 0, 0));
}

TEST_F(EagerTest, ALoopPlansOnce) {
  const Tensor w = eager_.variable("w", {64, 64}, Init::normal(0, 0.1));
  Tensor x = normal({8, 64});
  for (int i = 0; i < 3; ++i) static_cast<void>(reduce_sum(relu(matmul(x, w))).item<float>());
  const int64_t plans = eager_.facts().plans;
  for (int i = 0; i < 20; ++i) static_cast<void>(reduce_sum(relu(matmul(x, w))).item<float>());
  EXPECT_EQ(eager_.facts().plans, plans);
}

TEST_F(EagerTest, ALoopThatNeverLooksRunsInPieces) {
  Tensor x = full({16}, 1);
  for (int i = 0; i < 20'000; ++i) x = x + 1;
  EXPECT_LT(eager_.facts().pending, 4097);
  EXPECT_LE(eager_.facts().plans, 4);
  EXPECT_FLOAT_EQ(x[0].item<float>(), 20'001);
}

TEST_F(EagerTest, GivesMemoryBackWhenTheLastHandleGoes) {
  const Bytes before = line_.used();
  {
    const Tensor x = normal({1 << 20});
    static_cast<void>((x * 2)[0].item<float>());
  }
  EXPECT_LE(line_.used() - before, 16 * MiB);  // blocks that are kept for the next value
  std::vector<Tensor> many;
  for (int i = 0; i < 100; ++i) {
    Tensor x = normal({1 << 20});
    static_cast<void>((x * 2)[0].item<float>());
  }
  EXPECT_LE(line_.peak(), 64 * MiB);
}

TEST(Eager, MisuseIsOneClearError) {
  EXPECT_THAT([] { zeros({2}); }, ThrowsMessage<Error>(HasSubstr("needs an Eager")));
  MemoryLine line(64 * MiB);
  Tensor left;
  {
    Eager eager(line);
    left = zeros({2});
    Graph graph;
    const Tensor symbolic = graph.placeholder<float>("x", {2});
    EXPECT_THAT([&] { static_cast<void>(left + symbolic); }, ThrowsMessage<Error>(HasSubstr("can't be mixed")));
    EXPECT_THAT([&] { static_cast<void>(symbolic + left); }, ThrowsMessage<Error>(HasSubstr("can't be mixed")));
    EXPECT_THAT([&] { symbolic.item<float>(); }, ThrowsMessage<Error>(HasSubstr("where(condition, a, b)")));
    {
      Eager inner(line);
      const Tensor other = zeros({2});
      EXPECT_THAT([&] { static_cast<void>(left + other); }, ThrowsMessage<Error>(HasSubstr("another Eager")));
    }
    EXPECT_THAT((left + left).to_vector<float>(), ElementsAre(0, 0));
    std::thread([&] {
      EXPECT_THAT([&] { left.to_vector<float>(); }, ThrowsMessage<Error>(HasSubstr("another thread")));
      EXPECT_THAT([&] { static_cast<void>(left * 2); }, ThrowsMessage<Error>(HasSubstr("another thread")));
    }).join();
  }
  EXPECT_THAT([&] { left.to_vector<float>(); }, ThrowsMessage<Error>(HasSubstr("after its Eager has ended")));
  EXPECT_THAT([&] { static_cast<void>(left * 2); }, ThrowsMessage<Error>(HasSubstr("after its Eager has ended")));
  EXPECT_EQ(line.used(), 0);
}

TEST(Eager, EachThreadMayHaveItsOwn) {
  MemoryLine line(64 * MiB);
  std::vector<float> sums(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      Eager eager(line);
      Tensor x = full({100}, static_cast<double>(t));
      for (int i = 0; i < 10; ++i) x = x + 1;
      sums[t] = reduce_sum(x).item<float>();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ElementsAre(1000, 1100, 1200, 1300));
}

TEST_F(EagerTest, TheReportSaysWhoHoldsWhat) {
  const Tensor x = normal({256, 256});
  const Tensor y = matmul(x, x);
  static_cast<void>(y[0].to_vector<float>());
  const std::string report = line_.report();
  EXPECT_THAT(report, HasSubstr("eager"));
  EXPECT_THAT(report, HasSubstr("matmul  f32[256,256]"));
  EXPECT_THAT(report, HasSubstr("eager.cpp:"));
  EXPECT_THAT(report, HasSubstr("plans made in"));
}

// A session can't take over the recording: the Eager stays as it was.
TEST_F(EagerTest, IsNoGraphForASession) {
  const Tensor x = tensor({1.0F, 2.0F, 3.0F}), y = relu(x) + x;
  EXPECT_THAT([&] { Session(y.graph(), line_); }, ThrowsMessage<Error>(HasSubstr("is the recording of an Eager")));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT((x * y).to_vector<float>(), ElementsAre(2, 8, 18));
}

TEST_F(EagerTest, TensorsThatCannotBeCountedAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 31;
  const auto uncountable =
      ThrowsMessage<Error>(HasSubstr("has more than 2^50 elements, too many to count their bytes"));
  EXPECT_THAT([&] { zeros({kHuge, kHuge}); }, uncountable);
  EXPECT_THAT([&] { normal({kHuge, kHuge, kHuge}); }, uncountable);
  EXPECT_THAT([&] { eager_.variable("w", {kHuge, kHuge}, Init::zeros()); }, uncountable);
  // Countable, and too large: the refusal names what has no room.
  EXPECT_THAT([&] { zeros({kHuge, 512}); }, ThrowsMessage<DoesNotFit>(HasSubstr("no room for f32[2147483648,512]")));
  EXPECT_THAT(
      [&] {
        to_string(normal({kHuge, 512}));
      },
      ThrowsMessage<DoesNotFit>(HasSubstr("random_normal as f32[2147483648,512] alone needs")));
  EXPECT_EQ(ones({2}).to_vector<float>(), std::vector<float>({1, 1}));
}

}  // namespace
}  // namespace plimsoll

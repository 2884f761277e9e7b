// Random numbers in eager code: counted from the start of the Eager, whoever looks at values in between.
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/layers.h>
#include <plimsoll/model.h>
#include <plimsoll/random.h>

namespace plimsoll {
namespace {

using Numbers = std::vector<float>;

template <class Code>
std::vector<Numbers> run(const Code& code, Bytes line = 256 * MiB, uint64_t seed = 1) {
  Eager eager(MemoryLine(line), {.seed = seed});
  return code();
}

TEST(EagerRandom, AFunctionDrawsOtherNumbersInEachCall) {
  const auto all = run([] {
    const auto noisy = function([](Tensor x) { return x + normal({64}); });
    const auto even = function([](Tensor x) { return x + uniform({64}, -1, 1); });
    const auto kept = function([](Tensor x) { return dropout(x, 0.5); });
    std::vector<Numbers> drawn;
    for (int i = 0; i < 3; ++i)
      for (const auto& f : {noisy(zeros({64})), even(zeros({64})), kept(ones({64}))})
        drawn.push_back(f.to_vector<float>());
    return drawn;
  });
  EXPECT_EQ(std::set<Numbers>(all.begin(), all.end()).size(), all.size());
}

TEST(EagerRandom, AFunctionDrawsWhatTheSameCodeWithoutItDraws) {
  const auto code = [](Tensor x) {
    const Tensor noise = random_normal(x, 0, 2);
    return dropout(x + noise, 0.25) * normal({8}) + bernoulli(x, 0.5) + uniform({8});
  };
  const auto numbers = [&](bool is_traced) {
    return run([&] {
      const auto traced = function(code);
      std::vector<Numbers> drawn;
      for (int i = 0; i < 4; ++i) {
        const Tensor x = full({4, 8}, i);
        drawn.push_back((is_traced ? traced(x) : code(x)).to_vector<float>());
      }
      return drawn;
    });
  };
  EXPECT_EQ(numbers(true), numbers(false));
}

TEST(EagerRandom, ACapturedTensorGivesItsShapeAlone) {
  const auto all = run([] {
    const Tensor shape = zeros({16});
    const auto noisy = function([&](Tensor x) { return x + random_normal(shape); });
    return std::vector<Numbers>{noisy(zeros({16})).to_vector<float>(), noisy(zeros({16})).to_vector<float>()};
  });
  EXPECT_NE(all[0], all[1]);
}

TEST(EagerRandom, LookingAtValuesChangesNoDraw) {
  const auto numbers = [](bool looks) {
    return run([&] {
      std::vector<Tensor> made;
      for (int i = 0; i < 4; ++i) {
        made.push_back(normal({32}));
        made.push_back(dropout(ones({32}), 0.5));
        if (looks) made.back().to_vector<float>();
      }
      std::vector<Numbers> drawn;
      for (const Tensor& tensor : made) drawn.push_back(tensor.to_vector<float>());
      return drawn;
    });
  };
  const auto drawn = numbers(false);
  EXPECT_EQ(numbers(true), drawn);
  EXPECT_EQ(std::set<Numbers>(drawn.begin(), drawn.end()).size(), drawn.size());
}

TEST(EagerRandom, NumbersFollowTheSeedAndNotTheLine) {
  const auto code = [] {
    std::vector<Tensor> held;
    for (int i = 0; i < 8; ++i) held.push_back(normal({1 << 16}) * 2);  // 256 KiB each
    std::vector<Numbers> drawn;
    for (const Tensor& tensor : held) drawn.push_back(tensor.to_vector<float>());
    return drawn;
  };
  const auto drawn = run(code);
  EXPECT_EQ(run(code, MiB + 512 * KiB), drawn) << "values are dropped and drawn again";
  EXPECT_NE(run(code, 256 * MiB, 2), drawn);
}

TEST(EagerRandom, ATapeDifferentiatesThroughTheNumbersThatWereDrawn) {
  Eager eager(MemoryLine(256 * MiB));
  const Tensor w = eager.variable("w", {16}, Init::constant(1));
  Tape tape;
  const Tensor noise = normal({16});
  const Tensor loss = reduce_sum(w * noise);
  EXPECT_EQ(tape.gradient(loss, w).to_vector<float>(), noise.to_vector<float>());
}

TEST(EagerRandom, ModelsDrawInEachCall) {
  Eager eager(MemoryLine(256 * MiB));
  const Model net("noisy", [](Tensor x, bool) { return x + random_normal(x); });
  const Tensor x = zeros({2, 8});
  const Numbers first = net(x).to_vector<float>();
  EXPECT_NE(net(x).to_vector<float>(), first);
  const auto traced = function([&](Tensor in) { return net(in); });
  const Numbers second = traced(x).to_vector<float>();
  EXPECT_NE(traced(x).to_vector<float>(), second);
}

}  // namespace
}  // namespace plimsoll

// Random eager programs give the same numbers at every line as without one.
#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include <plimsoll/optimiser.h>
#include "base/random.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

// A program is a function of its seed. All its matrices have one size, so that any two can be used together.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : seed_(seed) {}

  // All numbers that the program read, in order.
  std::vector<float> run(MemoryLine& line, const EagerOptions& options) {
    at_ = 0;
    seen_.clear();
    Eager eager(line, options);
    const int64_t side = 96 + 32 * pick(4);
    for (int i = 0; i < 3; ++i)
      variables_.push_back(eager.variable("w" + std::to_string(i), {side, side}, Init::normal(0, 0.05)));
    held_ = {normal({side, side}), given(side)};
    for (int step = 0; step < 40; ++step) do_something(side);
    for (const Tensor& tensor : held_) look(tensor);
    for (const Tensor& variable : variables_) look(variable);
    held_.clear();
    variables_.clear();
    return seen_;
  }

 private:
  int64_t pick(int64_t of) { return static_cast<int64_t>(mix_bits(seed_, ++at_) % static_cast<uint64_t>(of)); }
  const Tensor& any() { return held_[static_cast<size_t>(pick(std::ssize(held_)))]; }
  const Tensor& any_variable() { return variables_[static_cast<size_t>(pick(std::ssize(variables_)))]; }

  Tensor given(int64_t side) {
    std::vector<float> numbers(static_cast<size_t>(side * side));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<float>((i * 7919 + static_cast<size_t>(at_)) % 1000) / 1000 - 0.5F;
    return tensor(numbers, {side, side});
  }

  void look(const Tensor& tensor) {
    const std::vector<float> numbers = tensor.to_vector<float>();
    seen_.insert(seen_.end(), numbers.begin(), numbers.end());
  }

  Tensor compute(int64_t side) {
    const Tensor a = any(), b = any(), w = any_variable();
    switch (pick(12)) {
      case 0:
        return matmul(a, w);
      case 1:
        return matmul(a, b) * 0.05;
      case 2:
        return a + b;
      case 3:
        return a * w;
      case 4:
        return relu(a - b);
      case 5:
        return softmax(a);
      case 6:
        return transpose(a, {1, 0});
      case 7:
        return tanh(matmul(a, w) + reduce_mean(b, {0}));
      case 8:
        return reshape(relu(layers::conv2d(reshape(a, {1, 4, side / 2, side / 2}), 4, 3, {.padding = 1}, "conv")),
                       {side, side});
      case 9:
        return dropout(a, 0.3);
      case 10:
        return gelu(a) + w;
      default:
        return concat({slice(a, 0, 0, side / 2), slice(b, 0, side / 2, side - side / 2)}, 0);
    }
  }

  void train() {
    Tape tape;
    const Tensor a = any();
    const Tensor h = relu(matmul(a, variables_[0]));
    if (pick(3) == 0) seen_.push_back(reduce_sum(h).item<float>());
    const Tensor loss = reduce_mean(tanh(matmul(gelu(h), variables_[1]) + variables_[2]) * a);
    const std::vector<Gradient> gradients = tape.gradient(loss, variables_);
    Optimiser::adam(1e-3).apply(gradients, variables_);
    if (pick(2) == 0) held_.push_back(gradients[static_cast<size_t>(pick(3))].value);
  }

  void do_something(int64_t side) {
    switch (pick(10)) {
      case 0:
        return train();
      case 1:
        return any_variable().assign_add(tanh(any()) * 0.01);
      case 2: {
        if (std::ssize(held_) <= 2) return;
        held_.erase(held_.begin() + pick(std::ssize(held_)));
        return;
      }
      case 3:
        seen_.push_back(reduce_sum(any()).item<float>());
        return;
      case 4:
        held_.push_back(pick(2) == 0 ? normal({side, side}) : given(side));
        return;
      default:
        held_.push_back(compute(side));
    }
  }

  const uint64_t seed_;
  uint64_t at_ = 0;
  std::vector<Tensor> held_, variables_;
  std::vector<float> seen_;
};

// -1: equal.
int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return static_cast<int64_t>(std::min(a.size(), b.size()));
  for (size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) return static_cast<int64_t>(i);
  return -1;
}

void expect_the_same(uint64_t seed, const EagerOptions& options) {
  MemoryLine ample(GiB);
  const std::vector<float> expected = RandomProgram(seed).run(ample, {.seed = options.seed});
  const Bytes most = ample.peak();
  Bytes limit = 512 * KiB + static_cast<Bytes>(mix_bits(seed, 77) % static_cast<uint64_t>(most));
  for (int tries = 0;; ++tries) {
    MemoryLine line(limit);
    try {
      const std::vector<float> numbers = RandomProgram(seed).run(line, options);
      EXPECT_EQ(first_difference(numbers, expected), -1) << "seed " << seed << " at " << limit << " of " << most;
      EXPECT_LE(line.peak(), limit) << "seed " << seed;
      return;
    } catch (const DoesNotFit& e) {
      ASSERT_GT(e.refusal().smallest_line, limit) << "seed " << seed << ": " << e.what();
      ASSERT_LT(tries, 40) << "seed " << seed << " at " << limit << " of " << most << ": " << e.what();
      limit = e.refusal().smallest_line;
    }
  }
}

const int kPrograms = testing::kSanitized ? 5 : 25;

TEST(EagerFuzz, RandomProgramsAtRandomLines) {
  for (int seed = 1; seed <= kPrograms; ++seed) expect_the_same(static_cast<uint64_t>(seed), {});
}

TEST(EagerFuzz, RandomProgramsAtRandomLinesWithAFolder) {
  for (int seed = 101; seed <= 100 + kPrograms; ++seed)
    expect_the_same(static_cast<uint64_t>(seed), {.scratch_folder = ::testing::TempDir()});
}

}  // namespace
}  // namespace plimsoll

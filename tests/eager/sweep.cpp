// Training loops at every line from the smallest that works: the same bits, and no line above what must stay in memory
// is refused.
#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "eager/nets.h"
#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using Net = std::function<Tensor(const Tensor& x)>;

struct Loop {
  Net net;
  Dims input;
  // What one operator takes at most: what it reads, writes and its workspace.
  Bytes largest_operator;
};

struct Outcome {
  std::vector<float> numbers;  // losses, and weights at the end
  Bytes peak = 0;
  Bytes variables = 0;
};

// Small values share slabs, one for each of ten sizes.
constexpr Bytes kSlabs = 10 * 64 * KiB;

Outcome train(const Loop& loop, MemoryLine& line, const EagerOptions& options = {}) {
  Eager eager(line, options);
  Outcome outcome;
  const std::vector<int32_t> labels(static_cast<size_t>(loop.input[0]), 3);
  const Tensor y = tensor(labels, {loop.input[0]}), x = normal(loop.input);
  for (int step = 0; step < 2; ++step) {
    Tape tape;
    const Tensor loss = sparse_cross_entropy(loop.net(x), y);
    const std::vector<Tensor> weights = eager.variables();
    Optimiser::adam(1e-3).apply(tape.gradient(loss, weights), weights);
    outcome.numbers.push_back(loss.item<float>());
  }
  for (const VariableRole role : {VariableRole::Weight, VariableRole::Optimiser, VariableRole::Statistic})
    for (const Tensor& variable : eager.variables(role)) {
      outcome.variables += element_count(variable.shape()).fixed() * size_of(variable.dtype());
      if (variable.dtype() != DType::F32) continue;
      const std::vector<float> now = variable.to_vector<float>();
      outcome.numbers.insert(outcome.numbers.end(), now.begin(), now.end());
    }
  outcome.peak = line.peak();
  return outcome;
}

Bytes smallest_line(const Loop& loop, const EagerOptions& options = {}) {
  Bytes limit = 4 * MiB;
  for (int tries = 0; tries < 6; ++tries) {
    MemoryLine line(limit);
    try {
      train(loop, line, options);
      return limit;
    } catch (const DoesNotFit& e) {
      EXPECT_GT(e.refusal().smallest_line, limit) << e.what();
      limit = e.refusal().smallest_line;
    }
  }
  ADD_FAILURE() << "the line that is named does not work, again and again; the last is " << limit;
  return limit;
}

void expect_the_same_at_every_line(const Loop& loop) {
  MemoryLine ample(GiB);
  const Outcome free = train(loop, ample);
  const Bytes smallest = smallest_line(loop);
  const Bytes input = element_count(loop.input) * 4;
  EXPECT_LE(smallest, free.variables + input + 2 * loop.largest_operator + kSlabs + MiB);
  EXPECT_LT(smallest, free.peak * 2 / 3) << "the sweep tests nothing";
  for (Bytes limit = smallest; limit < free.peak + free.peak / 8; limit += std::max<Bytes>(limit / 9, 64 * KiB)) {
    MemoryLine line(limit);
    try {
      const Outcome outcome = train(loop, line);
      ASSERT_EQ(outcome.numbers, free.numbers) << limit;
      ASSERT_LE(outcome.peak, limit);
    } catch (const DoesNotFit& e) {
      FAIL() << "refused at " << limit << ", which is above " << smallest << ": " << e.what();
    }
  }
}

Loop transformer_loop() {
  return {[](const Tensor& x) { return eager::transformer(x); }, {8, 128, 64}, 3 * MiB};
}
Loop residual_loop() {
  return {[](const Tensor& x) { return eager::residual_net(x, true); }, {16, 3, 32, 32}, 4 * MiB};
}

TEST(EagerSweep, ATransformer) { expect_the_same_at_every_line(transformer_loop()); }
TEST(EagerSweep, AResidualNet) { expect_the_same_at_every_line(residual_loop()); }

// Wide layers: variables take most of the memory, and are spilled where there is a scratch folder.
Loop wide_loop() {
  return {[](const Tensor& x) {
            const Tensor h = layers::dense(x, 512, {.activation = "relu"}, "one");
            return layers::dense(layers::dense(h, 512, {.activation = "relu"}, "two"), 10, {}, "three");
          },
          {32, 512},
          5 * MiB};
}

TEST(EagerSweep, VariablesNeedNotFitWhereAFolderIsGiven) {
  MemoryLine ample(GiB);
  const Outcome free = train(wide_loop(), ample);
  const EagerOptions options{.scratch_folder = ::testing::TempDir()};
  const Bytes smallest = smallest_line(wide_loop(), options);
  // The scratch file holds a staging buffer of its own.
  MemoryLine idle;
  const Bytes staging = [&] {
    const Eager eager(idle, options);
    return idle.used();
  }();
  EXPECT_LE(smallest, wide_loop().largest_operator + staging + kSlabs + 2 * MiB);
  for (const Bytes limit : {smallest, smallest + MiB, smallest + 4 * MiB}) {
    MemoryLine line(limit);
    const Outcome outcome = train(wide_loop(), line, options);
    EXPECT_EQ(outcome.numbers, free.numbers) << limit;
    EXPECT_LE(outcome.peak, limit);
  }
}

// The same in a control group of exactly the line, which covers the process.
TEST(EagerSweep, ATransformerInAControlGroup) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const std::string file = ::testing::TempDir() + "/eager_sweep";
  const auto run = [&](Bytes limit) {
    return testing::run_limited(
        [&] {
          MemoryLine line = MemoryLine::process(limit);
          Bytes said = 0;
          int answer = 0;
          try {
            const Outcome outcome = train(transformer_loop(), line);
            said = static_cast<Bytes>(outcome.numbers[1] * 1e6);
            answer = peak_resident_bytes() <= limit ? 0 : 2;
          } catch (const DoesNotFit& e) {
            said = e.refusal().smallest_line;
            answer = 3;
          }
          std::FILE* const out = std::fopen(file.c_str(), "wb");
          std::fwrite(&said, sizeof said, 1, out);
          std::fclose(out);
          return answer;
        },
        limit);
  };
  const auto said = [&] {
    Bytes number = 0;
    std::FILE* const in = std::fopen(file.c_str(), "rb");
    EXPECT_EQ(std::fread(&number, sizeof number, 1, in), 1U);
    std::fclose(in);
    return number;
  };
  const testing::LimitedOutcome ample = run(GiB);
  if (!ample.run) GTEST_SKIP() << ample.reason;
  ASSERT_EQ(ample.run->exit_code, 0);
  const Bytes loss = said();
  Bytes limit = 24 * MiB;
  int tries = 0;
  for (; tries < 8; ++tries) {
    const testing::LimitedOutcome outcome = run(limit);
    ASSERT_TRUE(outcome.run);
    ASSERT_FALSE(outcome.run->oom_killed) << limit;
    if (outcome.run->exit_code == 0) break;
    ASSERT_EQ(outcome.run->exit_code, 3) << limit;
    ASSERT_GT(said(), limit);
    limit = said();
  }
  EXPECT_LT(tries, 8);
  for (const Bytes line : {limit, limit + limit / 8, limit + limit / 3}) {
    const testing::LimitedOutcome outcome = run(line);
    ASSERT_TRUE(outcome.run);
    EXPECT_FALSE(outcome.run->oom_killed) << line;
    EXPECT_EQ(outcome.run->exit_code, 0) << line;
    EXPECT_EQ(said(), loss);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace plimsoll

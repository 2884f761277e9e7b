// Eager code in a control group of exactly its line: the operating system ends what takes a page too many.
#include <cstdio>

#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "eager/nets.h"
#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

enum Answer { Right = 0, Wrong = 1, PassedTheLine = 2, Threw = 3 };

int run_child(Bytes limit, const std::function<bool(MemoryLine&)>& work) {
  try {
    MemoryLine line = MemoryLine::process(limit);
    const bool is_right = work(line);
    if (!is_right) return Wrong;
    return peak_resident_bytes() <= limit ? Right : PassedTheLine;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return Threw;
  }
}

void expect_right(Bytes limit, const std::function<bool(MemoryLine&)>& work) {
  const testing::LimitedOutcome outcome = testing::run_limited([&] { return run_child(limit, work); }, limit);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_FALSE(outcome.run->oom_killed);
  EXPECT_EQ(outcome.run->signal, 0);
  EXPECT_EQ(outcome.run->exit_code, Right);
}

TEST(EagerProcessLine, SixtyFourValuesOfAnEighthEach) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  expect_right(96 * MiB, [](MemoryLine& line) {
    Eager eager(line);
    const int64_t elements = line.limit() / 8 / 4;
    std::vector<Tensor> held;
    for (int i = 0; i < 64; ++i) held.push_back(full({elements}, 1) * static_cast<double>(i + 1));
    for (size_t k = 0; k < held.size(); ++k) {
      const size_t i = k * 29 % held.size();
      if (slice(held[i], 0, elements - 1, 1).item<float>() != static_cast<float>(i + 1)) return false;
    }
    return eager.facts().dropped > 0;
  });
}

// Losses of a few steps, and the most that the line held.
std::vector<float> losses_under(MemoryLine& line, const std::function<Tensor(Tensor)>& net, const Dims& input) {
  Eager eager(line);
  const std::vector<int32_t> labels(static_cast<size_t>(input[0]), 3);
  const Tensor y = tensor(labels, {input[0]}), x = normal(input);
  std::vector<float> losses;
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const Tensor loss = sparse_cross_entropy(net(x), y);
    losses.push_back(loss.item<float>());  // in the middle of the tape
    const std::vector<Tensor> weights = eager.variables();
    Optimiser::adam().apply(tape.gradient(loss, weights), weights);
  }
  return losses;
}

void expect_a_third(const std::function<Tensor(Tensor)>& net, const Dims& input) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  // Both runs are children: this process must not start a thread before it forks.
  constexpr Bytes kAmple = 2 * GiB;
  const std::string file = ::testing::TempDir() + "/eager_losses";
  const auto write = [&](MemoryLine& line) {
    const std::vector<float> losses = losses_under(line, net, input);
    std::FILE* out = std::fopen(file.c_str(), "wb");
    const Bytes peak = line.peak();
    std::fwrite(&peak, sizeof peak, 1, out);
    std::fwrite(losses.data(), sizeof(float), losses.size(), out);
    return std::fclose(out) == 0;
  };
  expect_right(kAmple, write);
  if (::testing::Test::IsSkipped()) return;
  Bytes peak = 0;
  std::vector<float> free(3);
  std::FILE* in = std::fopen(file.c_str(), "rb");
  ASSERT_NE(in, nullptr);
  ASSERT_EQ(std::fread(&peak, sizeof peak, 1, in), 1U);
  ASSERT_EQ(std::fread(free.data(), sizeof(float), 3, in), 3U);
  std::fclose(in);
  std::remove(file.c_str());
  expect_right(peak / 3, [&](MemoryLine& line) { return losses_under(line, net, input) == free; });
}

TEST(EagerProcessLine, AResidualNetTrainsInAThird) {
  expect_a_third([](Tensor x) { return eager::residual_net(x, true); }, {128, 3, 32, 32});
}
TEST(EagerProcessLine, ATransformerTrainsInAThird) {
  expect_a_third([](Tensor x) { return eager::transformer(x); }, {64, 128, 64});
}

}  // namespace
}  // namespace plimsoll

// Planning in a program that uses the library stays within the line of its process, as running does.
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "memory/process.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

// Written by a child, read by the test.
struct Answer {
  bool fits = false;
  Bytes planned = 0, smallest = 0, peak_of_planning = 0, peak = 0;
  char error[400] = "";
};

// In a child, because a process has one line and one peak.
Answer ask(const std::function<Answer()>& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    Answer answer;
    memory::drop_code_pages();
    memory::reset_peak_resident();
    try {
      answer = work();
    } catch (const std::exception& e) {
      std::snprintf(answer.error, sizeof answer.error, "%s", e.what());
    }
    ::_exit(::write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
  }
  ::close(ends[1]);
  Answer answer;
  EXPECT_EQ(::read(ends[0], &answer, sizeof answer), static_cast<ssize_t>(sizeof answer)) << "the child was killed";
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return answer;
}

Answer plan_and_fit(Model net, const Dataset& data, Bytes bytes) {
  Answer answer;
  const MemoryLine line = MemoryLine::process(bytes);
  net.compile({.optimiser = Optimiser::adam(), .loss = "mse"});
  const Forecast forecast = net.plan(data, line);
  answer.fits = forecast.fits();
  answer.planned = forecast.peak();
  answer.smallest = forecast.smallest_line();
  answer.peak_of_planning = peak_resident_bytes();
  if (answer.fits) net.fit(data, line);
  answer.peak = peak_resident_bytes();
  return answer;
}

Answer plan_chain(int layers, Bytes line) {
  return ask([&] {
    std::vector<Layer> chain;
    for (int i = 0; i < layers; ++i) chain.push_back(layers::dense(32, {.activation = "relu"}));
    chain.push_back(layers::dense(1));
    std::vector<float> x(16 * 32, 0.5F), y(16, 1);
    const Dataset data = Dataset::slices({{"x", x, {16, 32}}, {"y", y, {16, 1}}}).batch(8);
    return plan_and_fit(sequential(chain), data, line);
  });
}

void expect_kept(const Answer& answer, Bytes line) {
  SCOPED_TRACE(fmt::format("line {}, planned {}, smallest {}, peak of planning {}, peak {}: {}", format_bytes(line),
                           format_bytes(answer.planned), format_bytes(answer.smallest),
                           format_bytes(answer.peak_of_planning), format_bytes(answer.peak), answer.error));
  EXPECT_STREQ(answer.error, "");
  EXPECT_GT(answer.smallest, 0);
  if (!answer.fits) {
    EXPECT_GT(answer.smallest, line);
    return;
  }
  EXPECT_LE(answer.smallest, line);
  EXPECT_LE(answer.peak_of_planning, line);
  EXPECT_LE(answer.peak, answer.planned);
  EXPECT_LE(answer.planned, line);
}

// A recurrent net, unrolled: thousands of small tasks.
Answer plan_unrolled(int64_t steps, Bytes line) {
  return ask([&] {
    const Model net("unrolled", {"x"}, {"y"}, [steps](const NamedTensors& in, bool) {
      const Tensor x = in["x"];
      const Tensor from_x = x.graph().variable("from_x", DType::F32, {8, 16}, Init::glorot_uniform(8, 16));
      const Tensor from_h = x.graph().variable("from_h", DType::F32, {16, 16}, Init::glorot_uniform(16, 16));
      Tensor h;
      for (int64_t i = 0; i < steps; ++i) {
        const Tensor own = matmul(reshape(slice(x, 1, i, 1), {Dim::batch(), 8}), from_x);
        h = tanh(h.is_set() ? own + matmul(h, from_h) : own);
      }
      return NamedTensors{{"y", layers::dense(h, 1)}};
    });
    std::vector<float> x(static_cast<size_t>(16 * steps * 8), 0.5F), y(16, 1);
    const Dataset data = Dataset::slices({{"x", x, {16, steps, 8}}, {"y", y, {16, 1}}}).batch(8);
    return plan_and_fit(net, data, line);
  });
}

TEST(PlanningLine, IsKeptByPlansOfUnrolledNets) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  for (const Bytes line : {26 * MiB, 40 * MiB}) expect_kept(plan_unrolled(200, line), line);
}

TEST(PlanningLine, IsKeptByPlansOfManyLayers) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  bool has_fitted = false;
  for (const auto& [layers, line] :
       {std::pair{300, 24 * MiB}, {300, 28 * MiB}, {300, 36 * MiB}, {1000, 40 * MiB}, {1000, 64 * MiB}}) {
    SCOPED_TRACE(layers);
    const Answer answer = plan_chain(layers, line);
    expect_kept(answer, line);
    has_fitted = has_fitted || answer.fits;
  }
  EXPECT_TRUE(has_fitted);
}

}  // namespace
}  // namespace plimsoll

// Loops of eager code do not make the memory of the process grow.
#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/optimiser.h>
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

TEST(EagerGrowth, AHundredThousandStepsLeaveMemoryFlat) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  MemoryLine line(64 * MiB);
  Eager eager(line);
  const Tensor w = eager.variable("w", {8}, Init::constant(1));
  const auto square = function([](Tensor x) { return reduce_sum(x * x); });
  const Optimiser sgd = Optimiser::sgd(1e-4);
  Bytes resident = 0, used = 0;
  for (int step = 0; step < 100'000; ++step) {
    Tape tape;
    const Tensor loss = square(w);
    sgd.apply(tape.gradient(loss, std::vector{w}), {w});
    if (step % 1000 == 0) static_cast<void>(loss.item<float>());
    if (step == 20'000) {
      resident = resident_bytes();
      used = line.used();
    }
  }
  EXPECT_LE(resident_bytes(), resident + MiB / 2);
  EXPECT_EQ(line.used(), used);
  EXPECT_LE(eager.facts().plans, 6);
  EXPECT_LT(w.to_vector<float>()[0], 1e-3);
}

TEST(EagerGrowth, ManyEagersLeaveMemoryFlat) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  MemoryLine line(64 * MiB);
  Bytes resident = 0;
  for (int i = 0; i < 300; ++i) {
    Eager eager(line);
    const Tensor x = normal({64, 64});
    static_cast<void>(reduce_sum(matmul(x, x)).item<float>());
    if (i == 100) resident = resident_bytes();
  }
  EXPECT_LE(resident_bytes(), resident + MiB);
  EXPECT_EQ(line.used(), 0);
}

}  // namespace
}  // namespace plimsoll

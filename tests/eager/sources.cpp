// Where numbers of eager code come from: files, datasets, and a seed.
#include <omp.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include "input/files.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A draw, a variable and a dropout mask.
std::vector<float> draw(Bytes limit, int threads, uint64_t seed) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  MemoryLine line(limit);
  Eager eager(line, {.seed = seed});
  const Tensor w = eager.variable("w", {50}, Init::normal(0, 1));
  std::vector<float> numbers = normal({50}).to_vector<float>();
  for (int step = 0; step < 2; ++step) {
    Tape tape;
    const Tensor kept = layers::dropout(w, 0.5, true, "drop");
    if (step == 1) static_cast<void>(kept.to_vector<float>());  // reading the value draws no other mask
    const std::vector<float> gradient = tape.gradient(reduce_sum(kept * kept), w).to_vector<float>();
    numbers.insert(numbers.end(), gradient.begin(), gradient.end());
  }
  omp_set_num_threads(before);
  return numbers;
}

TEST(EagerSeed, GivesTheSameNumbersForEveryLineAndThreadCount) {
  const std::vector<float> numbers = draw(64 * MiB, 1, 7);
  EXPECT_EQ(draw(2 * MiB, 1, 7), numbers);
  EXPECT_EQ(draw(64 * MiB, 3, 7), numbers);
  EXPECT_NE(draw(64 * MiB, 1, 8), numbers);
  const std::vector<float> first(numbers.begin() + 50, numbers.begin() + 100),
      second(numbers.begin() + 100, numbers.end());
  EXPECT_NE(first, second) << "each step has a mask of its own";
}

TEST(EagerSources, ReadsNpy) {
  MemoryLine line(16 * MiB);
  Eager eager(line);
  const testing::TemporaryDirectory folder;
  const std::string path =
      folder.write("x.npy", testing::npy("'<f4'", "(2, 2)", testing::raw(std::vector<float>{1, 2, 3, 4})));
  EXPECT_EQ(to_string(read_npy(path)), "f32[2,2] [[1, 2], [3, 4]]");
  EXPECT_THAT([&] { read_npy(folder.path() + "/none.npy"); }, ThrowsMessage<Error>(HasSubstr("none.npy")));
}

TEST(EagerSources, PairsOfADataset) {
  MemoryLine line(16 * MiB);
  Eager eager(line);
  const std::vector<float> x{1, 2, 3, 4, 5};
  const std::vector<int32_t> y{0, 1, 0, 1, 0};
  const Dataset batches = Dataset::slices({{"x", x, {5}}, {"y", y, {5}}}).batch(2);
  std::vector<float> sums;
  for (auto [a, b] : pairs(batches)) sums.push_back(reduce_sum(a * cast(b, DType::F32)).item<float>());
  EXPECT_THAT(sums, ElementsAre(2, 4, 0));
  EXPECT_THAT([&] { pairs(Dataset::range(3)); }, ThrowsMessage<Error>(HasSubstr("1 components, not 2")));
}

}  // namespace
}  // namespace plimsoll

#include "data/prefetch.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/files.h"

namespace plimsoll::data {
namespace {

using ::testing::HasSubstr;

// Sample i is the number i; reading can be slow, or fail from a sample on.
class Numbers final : public Source {
 public:
  explicit Numbers(int64_t samples) : samples_(samples) {}
  int64_t fails_from = -1;
  std::chrono::microseconds delay{0};

  const std::string& name() const override { return name_; }
  int64_t samples() const override { return samples_; }
  DType dtype() const override { return DType::I64; }
  const std::vector<int64_t>& sample_shape() const override { return shape_; }
  Bytes sample_bytes() const override { return 8; }
  void read(int64_t first, int64_t count, void* into) const override {
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    if (fails_from >= 0 && first + count > fails_from) throw Error("numbers: cut off", ErrorKind::BadData);
    for (int64_t i = 0; i < count; ++i) static_cast<int64_t*>(into)[i] = first + i;
  }

 private:
  std::string name_ = "numbers";
  std::vector<int64_t> shape_;
  int64_t samples_;
};

std::vector<int64_t> values(const BatchSlot& slot) {
  const auto* const first = static_cast<const int64_t*>(slot.rows[0]);
  return {first, first + slot.samples};
}

std::vector<int64_t> rest(Prefetch& prefetch) {
  std::vector<int64_t> all;
  while (const BatchSlot* slot = prefetch.next())
    for (const int64_t value : values(*slot)) all.push_back(value);
  return all;
}

std::vector<int64_t> without_prefetch(const Source& source, BatchOptions options, int64_t epoch) {
  MemoryLine line;
  Batches batches({&source}, options, line);
  batches.start_epoch(epoch);
  std::vector<int64_t> all, rows(options.batch);
  while (const int64_t count = batches.next(std::vector<void*>{rows.data()}))
    all.insert(all.end(), rows.begin(), rows.begin() + count);
  return all;
}

TEST(Prefetch, GivesTheSameBatchesForAnyNumberOfSlots) {
  const Numbers numbers(1003);
  const BatchOptions options{.batch = 10, .shuffle = true, .seed = 5};
  for (const int slots : {1, 2, 3, 8}) {
    MemoryLine line;
    Batches batches({&numbers}, options, line);
    Prefetch prefetch(batches, slots, line);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      if (epoch > 0) prefetch.start_epoch(epoch);
      EXPECT_EQ(rest(prefetch), without_prefetch(numbers, options, epoch));
      EXPECT_EQ(prefetch.next(), nullptr);
    }
  }
}

TEST(Prefetch, SlotStaysUntilTheNextCall) {
  const Numbers numbers(100);
  MemoryLine line;
  Batches batches({&numbers}, {.batch = 10}, line);
  Prefetch prefetch(batches, 2, line);
  const BatchSlot* const slot = prefetch.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(values(*slot).front(), 0);
  EXPECT_EQ(values(*slot).back(), 9);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slot->rows[0]) % kAlignment, 0u);
}

TEST(Prefetch, CountsItsSlotsAgainstTheLine) {
  const Numbers numbers(100);
  MemoryLine line(MiB);
  Batches batches({&numbers}, {.batch = 512}, line);
  {
    const Prefetch prefetch(batches, 3, line);
    EXPECT_EQ(line.used(Tag::Data), 3 * 4096 + 256 * KiB);
    EXPECT_EQ(line.used(), Prefetch::bytes_needed(batches, 3));
  }
  EXPECT_EQ(line.used(), 0);
  EXPECT_THAT(testing::refusal([&] { Prefetch(batches, 1000, line); }, ErrorKind::DoesNotFit), HasSubstr("data asks"));
  EXPECT_THAT(testing::refusal([&] { Prefetch(batches, 0, line); }, ErrorKind::Usage), HasSubstr("at least 1"));
}

TEST(Prefetch, ErrorsComeAfterTheBatchesBeforeThem) {
  Numbers numbers(100);
  numbers.fails_from = 35;
  MemoryLine line;
  Batches batches({&numbers}, {.batch = 10}, line);
  Prefetch prefetch(batches, 2, line);
  for (int i = 0; i < 3; ++i) ASSERT_NE(prefetch.next(), nullptr);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(testing::refusal([&] { prefetch.next(); }), "numbers: cut off");
  EXPECT_EQ(prefetch.state().position, 30);
  prefetch.start_epoch(0);
  EXPECT_EQ(values(*prefetch.next()).front(), 0);
}

TEST(Prefetch, StateDoesNotCountWhatWasReadAhead) {
  const Numbers numbers(100);
  const BatchOptions options{.batch = 7, .shuffle = true, .seed = 1};
  const auto all = without_prefetch(numbers, options, 2);
  MemoryLine line;
  Batches batches({&numbers}, options, line);
  BatchState state;
  {
    Prefetch prefetch(batches, 4, line);
    prefetch.start_epoch(2);
    prefetch.next();
    prefetch.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    state = prefetch.state();
    EXPECT_EQ(state, (BatchState{1, 2, 14}));
  }
  EXPECT_EQ(batches.state(), state);
  Prefetch resumed(batches, 2, line);
  EXPECT_EQ(rest(resumed), std::vector<int64_t>(all.begin() + 14, all.end()));
  EXPECT_THROW(resumed.seek({1, 2, 1000}), Error);
  resumed.seek(state);
  EXPECT_EQ(rest(resumed), std::vector<int64_t>(all.begin() + 14, all.end()));
}

TEST(Prefetch, StopsInEveryState) {
  Numbers numbers(60);
  MemoryLine line;
  Batches batches({&numbers}, {.batch = 5}, line);
  for (const int delay : {0, 300})
    for (int taken = 0; taken <= 13; ++taken) {
      numbers.delay = std::chrono::microseconds(delay);
      Prefetch prefetch(batches, 3, line);
      prefetch.start_epoch(0);
      for (int i = 0; i < taken; ++i) EXPECT_EQ(prefetch.next() == nullptr, i == 12);
      if (taken % 2) prefetch.seek({0, 1, 30});
    }
  numbers.fails_from = 0;
  for (int i = 0; i < 20; ++i) Prefetch(batches, 1, line);
  EXPECT_EQ(line.used(), 0);
}

}  // namespace
}  // namespace plimsoll::data

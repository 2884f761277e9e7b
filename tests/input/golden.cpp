// The same sequences as the real tf.data; bench/golden_tf_data.py writes the file.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include "input/collect.h"

namespace plimsoll::testing {
namespace {

Dataset r(int64_t stop) { return Dataset::range(stop); }
Dataset r(int64_t start, int64_t stop, int64_t step = 1) { return Dataset::range(start, stop, step); }
int64_t value_of(const ElementView& element) { return element.as<int64_t>(0)[0]; }

// Element i is a list of i numbers, each of them i.
Dataset ragged(int64_t count) {
  return r(count).map({{"x", DType::I64, {-1}, {count}}}, [](const ElementView& from, const ElementSlot& to) {
    to.set_dims(0, {value_of(from)});
    std::ranges::fill(to.as<int64_t>(0), value_of(from));
  });
}

// All components, one number each, as one component.
Dataset stacked(const Dataset& dataset) {
  const auto count = static_cast<int64_t>(dataset.element().size());
  return dataset.map({{"all", DType::I64, {count}, {}}}, [](const ElementView& from, const ElementSlot& to) {
    for (size_t i = 0; i < from.size(); ++i) to.as<int64_t>(0)[i] = from.as<int64_t>(i)[0];
  });
}

Dataset renamed(const Dataset& dataset) {
  return dataset.map({{"other", DType::I64, {}, {}}},
                     [](const ElementView& from, const ElementSlot& to) { to.as<int64_t>(0)[0] = value_of(from); });
}

Dataset sorted(const Dataset& dataset) {
  return dataset.map(dataset.element(), [](const ElementView& from, const ElementSlot& to) {
    std::ranges::copy(from.as<int64_t>(0), to.as<int64_t>(0).begin());
    std::ranges::sort(to.as<int64_t>(0));
  });
}

Dataset filtered(const Dataset& dataset, const std::function<bool(int64_t)>& passes) {
  return dataset.filter([passes](const ElementView& element) { return passes(value_of(element)); });
}

Dataset interleaved(const Dataset& dataset, int64_t cycle, int64_t block, const std::function<Dataset(int64_t)>& make,
                    int threads = 1) {
  return dataset.interleave([make](const ElementView& element) { return make(value_of(element)); },
                            {.cycle = cycle, .block = block, .threads = threads});
}

Dataset doubled(const Dataset& dataset) {
  return dataset.map(dataset.element(),
                     [](const ElementView& from, const ElementSlot& to) { to.as<int64_t>(0)[0] = value_of(from) * 2; });
}

std::map<std::string, Dataset> cases() {
  return {
      {"range", r(5)},
      {"range_step", r(2, 11, 3)},
      {"range_down", r(9, 0, -4)},
      {"range_empty", r(3, 3)},
      {"batch", r(7).batch(3)},
      {"batch_drop", r(7).batch(3, true)},
      {"batch_larger", r(3).batch(5)},
      {"batch_larger_drop", r(3).batch(5, true)},
      {"batch_of_batches", r(10).batch(2).batch(2, true)},
      {"batch_repeat", r(5).batch(2).repeat(2)},
      {"repeat_batch", r(5).repeat(2).batch(4)},
      {"repeat_none", r(5).repeat(0)},
      {"repeat_for_ever", r(3).repeat().take(8)},
      {"repeat_empty", r(0).repeat()},
      {"take_more", r(3).take(9)},
      {"take_all", r(3).take(-1)},
      {"skip", r(6).skip(4)},
      {"skip_more", r(3).skip(9)},
      {"skip_all", r(3).skip(-1)},
      {"skip_repeat", r(4).skip(2).repeat(2)},
      {"shard", r(10).shard(3, 1)},
      {"shard_few", r(2).shard(5, 4)},
      {"shard_batch", r(10).batch(2).shard(2, 1)},
      {"map", times_ten(r(5), 1)},
      {"map_parallel", times_ten(r(20), 4).batch(6)},
      {"filter", filtered(r(12), [](int64_t x) { return x % 3 == 0; })},
      {"filter_repeat", filtered(r(5), [](int64_t x) { return x > 2; }).repeat(2)},
      {"shuffle_one", r(5).shuffle(1)},
      {"shuffle_sorted", sorted(r(6).shuffle(6).batch(6))},
      {"padded_batch", ragged(5).padded_batch(2)},
      {"padded_batch_to", ragged(4).padded_batch(3, {.shapes = {{5}}, .values = {9}})},
      {"padded_batch_drop", ragged(5).padded_batch(2, {.drop_remainder = true})},
      {"unbatch", r(5).batch(2).unbatch()},
      {"unbatch_deep", r(8).batch(2).batch(3).unbatch()},
      {"interleave_documented", interleaved(r(1, 6), 2, 4, [](int64_t x) { return r(x, x + 1).repeat(6); })},
      {"interleave_of_different_lengths", interleaved(r(6), 3, 2, [](int64_t x) { return r(x); })},
      {"interleave_wide", interleaved(r(3), 5, 1, [](int64_t x) { return r(x * 10, x * 10 + 4); })},
      {"interleave_with_empty", interleaved(r(7), 2, 3, [](int64_t x) { return r(x % 3 * 2); })},
      {"interleave_batched", interleaved(r(4), 2, 2, [](int64_t x) { return r(x, x + 5); }).batch(3)},
      {"interleave_parallel", interleaved(
                                  r(6), 3, 2, [](int64_t x) { return r(x * 10, x * 10 + x % 4 * 3); }, 3)},
      {"interleave_parallel_wide", interleaved(
                                       r(3), 5, 1, [](int64_t x) { return r(x * 10, x * 10 + 4); }, 2)},
      {"flat_map", r(5).flat_map([](const ElementView& element) { return r(value_of(element)); })},
      {"zip", stacked(Dataset::zip({r(3), renamed(r(10, 15))}))},
      {"concatenate", r(3).concatenate(r(7, 9))},
      {"concatenate_repeat", r(2).concatenate(r(5, 6)).repeat(2)},
      {"concatenate_empty", r(0).concatenate(r(2))},
      {"cache", r(3).cache().repeat(2)},
      {"prefetch", r(4).prefetch(2)},
      {"enumerate", stacked(r(4, 7).enumerate(5))},
      {"window", r(7).window(3)},
      {"window_shift", r(7).window(3, {.shift = 1})},
      {"window_shift_drop", r(7).window(3, {.shift = 2, .drop_remainder = true})},
      {"window_stride", r(9).window(3, {.shift = 2, .stride = 2})},
      {"window_stride_drop", r(9).window(3, {.shift = 2, .stride = 2, .drop_remainder = true})},
      {"window_gaps", r(10).window(2, {.shift = 4})},
      {"window_gaps_stride", r(10).window(2, {.shift = 5, .stride = 3})},
      {"window_larger", r(3).window(5)},
      {"window_larger_drop", r(3).window(5, {.shift = 1, .drop_remainder = true})},
      {"chain", filtered(doubled(r(20).shard(2, 1)), [](int64_t x) { return x % 3 != 0; }).repeat(2).skip(1).batch(3)},
  };
}

Elements parse(const std::string& text) {
  Elements elements;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '|');) {
    std::istringstream numbers(part);
    std::vector<int64_t>& element = elements.emplace_back();
    for (int64_t number = 0; numbers >> number;) element.push_back(number);
  }
  return elements;
}

TEST(DatasetGolden, GivesWhatTfDataGives) {
  std::map<std::string, Elements> golden;
  std::ifstream file(PLIMSOLL_GOLDEN_DIR "/tf_data.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const size_t colon = line.find(':');
    golden[line.substr(0, colon)] = parse(line.substr(colon + 1));
  }
  const std::map<std::string, Dataset> ours = cases();
  EXPECT_EQ(golden.size(), ours.size());
  for (const auto& [name, dataset] : ours) {
    ASSERT_TRUE(golden.contains(name)) << name;
    EXPECT_EQ(collect(dataset), golden[name]) << name << ": " << to_string(dataset);
    if (dataset.size() >= 0) {
      EXPECT_EQ(dataset.size(), static_cast<int64_t>(golden[name].size())) << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing

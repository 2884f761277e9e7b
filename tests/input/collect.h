// What a dataset hands out, as plain numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/dataset.h>

namespace plimsoll::testing {

// The i64 numbers of one component of an element.
inline std::vector<int64_t> numbers(const ElementView& element, size_t component = 0) {
  const auto values = element.as<int64_t>(component);
  return {values.begin(), values.end()};
}

using Elements = std::vector<std::vector<int64_t>>;

// The first component of each element up to the end of the epoch.
inline Elements collect(Iteration& iteration, int64_t most = 1'000'000) {
  Elements elements;
  while (static_cast<int64_t>(elements.size()) < most) {
    const ElementView* const element = iteration.next();
    if (element == nullptr) break;
    elements.push_back(numbers(*element));
  }
  return elements;
}

inline Elements collect(const Dataset& dataset, int64_t most = 1'000'000) {
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  return collect(iteration, most);
}

inline std::vector<int64_t> flat(const Elements& elements) {
  std::vector<int64_t> all;
  for (const auto& element : elements) all.insert(all.end(), element.begin(), element.end());
  return all;
}

inline std::vector<int64_t> flat(const Dataset& dataset, int64_t most = 1'000'000) {
  return flat(collect(dataset, most));
}

// A stream without random access: 0, 1, 2 ... count - 1.
inline Dataset counting(int64_t count) {
  return Dataset::generator({{"value", DType::I64, {}, {}}}, [count] {
    return [count, next = int64_t{0}](const ElementSlot& to) mutable {
      if (next == count) return false;
      to.as<int64_t>(0)[0] = next++;
      return true;
    };
  });
}

// value -> value * 10, with that many threads.
inline Dataset times_ten(const Dataset& dataset, int threads) {
  return dataset.map(
      dataset.element(),
      [](const ElementView& from, const ElementSlot& to) {
        for (size_t i = 0; i < from.as<int64_t>(0).size(); ++i) to.as<int64_t>(0)[i] = from.as<int64_t>(0)[i] * 10;
      },
      threads);
}

}  // namespace plimsoll::testing

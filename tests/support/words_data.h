// Samples of word numbers as npy files, in halves that a language model trains on and is tested with.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace plimsoll::testing {

inline void write_words(const std::string& path, int64_t rows, int64_t columns, int64_t words, int64_t seed) {
  std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  const auto length = static_cast<uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8).write(reinterpret_cast<const char*>(&length), 2) << header;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto word = static_cast<int32_t>((i * 7 + i * i * seed) % words);
    file.write(reinterpret_cast<const char*>(&word), 4);
  }
}

// x_train.npy, y_train.npy, x_test.npy, y_test.npy
inline void write_words_data(const std::string& folder, int64_t positions, int64_t words, int64_t train, int64_t test) {
  for (const auto& [half, rows] : {std::pair{"train", train}, std::pair{"test", test}})
    for (const auto& [what, seed] : {std::pair{"x", 3}, std::pair{"y", 5}})
      write_words(fmt::format("{}/{}_{}.npy", folder, what, half), rows, positions, words, seed);
}

}  // namespace plimsoll::testing

// The report of quantising a model: bytes before and after, and which layers became int8.
#pragma once

#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::report {

struct ShrunkLayer {
  std::string name, op;
  bool is_int8 = false;
};

struct ShrunkFacts {
  std::string output;
  int64_t samples = 0;  // of the calibration data
  Bytes file_before = 0, file_after = 0;
  Bytes memory_before = 0, memory_after = 0;
  std::vector<ShrunkLayer> layers = {};
  Bytes peak = 0, line = 0;  // of this process
};

std::string shrunk_text(const ShrunkFacts& facts);
std::string shrunk_json(const ShrunkFacts& facts);

}  // namespace plimsoll::report

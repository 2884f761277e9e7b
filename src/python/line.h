// A line and the scratch folder that goes with it: where a program gives one, all that works under the line may use it.
#pragma once

#include <string>

#include <plimsoll/memory_line.h>

namespace plimsoll::python {

struct Line {
  MemoryLine line;
  std::string scratch;
};

}  // namespace plimsoll::python

// The refusal: what does not fit, by how much, who holds the memory, and the smallest line that works.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/holder.h"

namespace plimsoll {

struct Refusal {
  Bytes line = 0;
  Bytes need = 0;           // everything that must fit below the line at once
  Bytes smallest_line = 0;  // the same request works with this: `need` rounded up; 0 where nobody can say
  Bytes runtime = 0;        // of `need`: the process itself
  Bytes data = 0;           // of `need`: the buffers of the input
  Bytes others = 0;         // of `need`: other sessions and reservations on the same line
  std::string tightest_task;
  std::vector<Holder> holders;  // largest first
  std::string reason;           // why, where that is not plain from the numbers
  Bytes deficit() const { return need > line ? need - line : 0; }
};

// What every refusal for lack of memory throws.
class DoesNotFit : public Error {
 public:
  explicit DoesNotFit(Refusal refusal);
  DoesNotFit(Refusal refusal, const std::string& what)
      : Error(what, ErrorKind::DoesNotFit), refusal_(std::move(refusal)) {}
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

std::string describe(const Refusal& refusal);

// A line to name for so many bytes: whole MiB, or quarters below 512 MiB.
Bytes round_line(Bytes bytes);
// "47.25MiB": what people type.
std::string line_text(Bytes line);

}  // namespace plimsoll

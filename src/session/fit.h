// The refusal: what does not fit, by how much, who holds the memory, and the smallest line that works.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "plan/plan.h"

namespace plimsoll {

struct Fit {
  Bytes line = 0;
  Bytes need = 0;           // everything: arena, runtime, data
  Bytes smallest_line = 0;  // the same request works with this, with room for what differs from run to run
  Bytes runtime = 0;
  Bytes data = 0;
  std::string tightest_task;
  std::vector<Holder> holders;  // largest first
  Bytes deficit() const { return need - line; }
};

class DoesNotFit : public Error {
 public:
  explicit DoesNotFit(Fit fit);
  const Fit& fit() const { return fit_; }

 private:
  Fit fit_;
};

// How much the resident size of a process may differ between two runs of the same command.
constexpr Bytes kRuntimeSpread = MiB;

std::string describe(const Fit& fit);

}  // namespace plimsoll

// A lower bound of the time that recomputation takes to get below a line: it tells which options are not worth a
// search.
#pragma once

#include <vector>

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

class Relief {
 public:
  // For actions in the order of the tasks, with reruns in between. `ns`: by task, the time of one more run.
  Relief(const Problem& problem, const Sizes& sizes, std::vector<double> ns, bool in_place);

  // No such sequence with a peak at or below the line, variables included, recomputes for less than this.
  double least_ns(Bytes line) const;

 private:
  // A value that is needed after a task but not by it: it is in memory then, or its maker runs again later.
  struct Waiting {
    TaskId maker = -1;
    Bytes bytes = 0;
  };
  struct Moment {
    Bytes bytes = 0;  // of all that is there, variables included
    std::vector<Waiting> waiting;
  };

  double least_ns(const Moment& moment, Bytes line) const;

  std::vector<double> ns_;
  std::vector<Moment> moments_;
};

}  // namespace plimsoll::plan

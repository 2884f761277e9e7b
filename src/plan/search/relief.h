// What running tasks again costs at least on the way below a line: it tells which options are not worth a search.
#pragma once

#include <vector>

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

class Relief {
 public:
  // For tasks that run in their own order, with more of them in between. `ns`: by task, of one more run.
  Relief(const Problem& problem, const Sizes& sizes, std::vector<double> ns, bool in_place);

  // No such sequence with a peak at or below the line, variables included, runs tasks again for less than this.
  double least_ns(Bytes line) const;

 private:
  // A value that waits while a task runs: it is there, or its maker runs again later.
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

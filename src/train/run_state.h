// Where a training is: what a checkpoint holds beside the variables of the session.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/callback.h>
#include <plimsoll/dataset.h>

namespace plimsoll::train {

struct RunState {
  int64_t epoch = 1;        // under way
  int64_t epoch_steps = 0;  // of it
  int64_t run_steps = 0;    // of all epochs
  DatasetState data = {};   // the position in it
  uint64_t validation = 0;  // tells data to validate with from other data; 0: there is none, or none of files
  std::vector<std::pair<std::string, double>> sums = {};            // of the epoch so far, exact
  std::vector<EpochLog> history = {};                               // epochs that are over; in memory alone
  std::vector<std::pair<std::string, std::string>> callbacks = {};  // name, state
  uint64_t seed = 1;
  bool operator==(const RunState&) const = default;
};

}  // namespace plimsoll::train

// The files of a data set: found by their usual names or given one by one, checked against the model, read in batches.
#pragma once

#include <memory>

#include "cli/workload.h"
#include "data/prefetch.h"
#include "data/source.h"

namespace plimsoll::cli {

// One half of a data set (training or test), as batches of input and labels.
class Inputs {
 public:
  // Opens both files and checks that their samples are what the model takes.
  Inputs(const Workload& load, const std::string& x, const std::string& y, const Settings& settings, bool shuffle,
         bool drop_remainder);
  // Reading ahead takes the slots of the data share, which training and test data use in turn.
  data::Prefetch& start_epoch(int64_t epoch);
  void stop() { prefetch_.reset(); }
  int64_t samples() const { return batches_->samples(); }
  int64_t steps_per_epoch() const { return batches_->batches_per_epoch(); }

 private:
  std::unique_ptr<data::Source> x_, y_;
  MemoryLine share_;  // of the line, held by the session
  std::unique_ptr<data::Batches> batches_;
  std::unique_ptr<data::Prefetch> prefetch_;
};

struct DataFiles {
  std::string train_x, train_y, test_x, test_y;  // empty: not there
};

// From --data or file by file. Throws Error(Usage) when neither is given.
DataFiles find_data(const Settings& settings);

}  // namespace plimsoll::cli

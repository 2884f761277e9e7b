// The files of a data set: found by their usual names, checked against the model, read in batches.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "data/prefetch.h"
#include "data/source.h"
#include "train/training.h"

namespace plimsoll::train {

struct DataFiles {
  std::string train_x, train_y, test_x, test_y;  // empty: not there
};

// The files in a folder that have a name under which such data is handed around. Opens none. Throws Error(BadData) when
// there are none.
DataFiles find_data_files(const std::string& folder);

struct InputOptions {
  bool shuffle = false;
  bool drop_remainder = false;  // a last batch that is not full
  uint64_t seed = 1;
  std::string scratch_folder = {};  // for what is unpacked; empty: one for temporary files
};

// One half of a data set (training or test), as batches of input and labels.
class Inputs {
 public:
  // Opens both files and checks that their samples are what the model takes. Throws Error(BadData).
  Inputs(const Training& training, const std::string& x, const std::string& y, const InputOptions& options = {});
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

// A batch as the session takes it.
std::array<Feed, 2> feeds_of(const Training& training, const data::BatchSlot& slot);

}  // namespace plimsoll::train

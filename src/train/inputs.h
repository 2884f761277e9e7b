// The files of a data set: found by their usual names, checked against the model, read in batches.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <plimsoll/dataset.h>
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
  // Reading ahead takes the data share, which training and test data use in turn.
  Iteration& start_epoch(int64_t epoch);
  void stop() { iteration_.reset(); }
  int64_t samples() const { return samples_.size(); }
  int64_t steps_per_epoch() const { return batches_.size(); }

 private:
  MemoryLine share_;  // of the line, held by the session
  Dataset samples_;
  Dataset batches_;
  std::optional<Iteration> iteration_;
};

// What Inputs take at most under the line, known before any file is open.
Bytes input_bytes(const ModelSpec& model, int64_t batch);

// A batch as the session takes it.
std::array<Feed, 2> feeds_of(const Training& training, const ElementView& batch);
int64_t samples_of(const ElementView& batch);

}  // namespace plimsoll::train

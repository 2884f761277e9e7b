// Saves a training as checkpoints and goes on from the newest that is whole. A checkpoint is a directory:
//   manifest.json            what it belongs to, where the run is, sizes and checksums of the other files
//   weights.safetensors      weights and statistics of the model
//   optimiser.safetensors    all other variables: the optimiser's state, its rate, sums of an unfinished accumulation
// Several ranks write it together, each what it holds: weights-2-of-4.safetensors and so on (session/weights_parts.h),
// in a folder that all of them see. Any number of ranks may go on from it. Stages of a pipeline write it likewise; the
// first stage that has a variable writes it. A pipeline with other stages, or one process with the same micro-batches,
// may go on from it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint_folder.h"
#include "train/checkpoint_manifest.h"
#include "train/training.h"

namespace plimsoll::train {

// Facts about the step, not about the line, the threads or the learning rate: those may change from run to run.
CheckpointFacts checkpoint_facts(const Training& training);
// A hash of operators, their settings and what they read: one of these facts.
std::string hash_of_step(const Graph& graph);

struct LoadedCheckpoint {
  CheckpointPlace place;
  RunState run;
  std::vector<std::string> damaged;  // why newer ones were passed over, a sentence each
};

// The weights file of the newest checkpoint in a folder whose files are whole. Throws Error(BadData) when there is
// none.
std::string find_newest_weights(const std::string& folder);

// Sets the variables of an open session from a checkpoint that another rank has found to be whole.
void load_checkpoint(Training& training, const std::string& path);

class CheckpointStore {
 public:
  explicit CheckpointStore(std::string folder, int64_t keep = 3) : path_(std::move(folder)), keep_(keep) {}

  // Prepares to save; called before training. Throws Error when a checkpoint could not be written as things are.
  void open(const Training& training);
  void close() {
    folder_.reset();
    is_open_ = false;
  }
  // Streams the variables, one at a time, then removes all but the newest `keep`. On return the checkpoint is on the
  // disk; whatever fails, the earlier ones are as they were. Throws Error: DiskFull, or BadNumbers when a variable is
  // not finite.
  CheckpointPlace save(Training& training, const RunState& run) { return save(training, run, run.history); }
  // The same with a history that lies elsewhere, which may be long.
  CheckpointPlace save(Training& training, const RunState& run, std::span<const EpochLog> history);

  std::vector<CheckpointPlace> list() const { return list_checkpoints(path_); }
  // Sets the variables and the step of an open session from the newest checkpoint whose files are whole; unset: there
  // is none at all. Throws Error(BadData) when all are damaged, and Error(Usage) with what differs when the newest is
  // of another training.
  std::optional<LoadedCheckpoint> load_newest(Training& training) const;

 private:
  const std::string path_;
  const int64_t keep_;
  bool is_open_ = false;
  std::unique_ptr<CheckpointFolder> folder_;  // null before open, and on ranks other than the first
};

}  // namespace plimsoll::train

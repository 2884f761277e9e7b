// What to train and within what: one typed value that the command line and the library both make.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/types.h>
#include "autodiff/sharding.h"
#include "base/stop_question.h"
#include "input/opening/batches.h"
#include "input/opening/data.h"
#include "memory/default_line.h"
#include "plan/limits.h"
#include "ranks/network_speed.h"

namespace plimsoll::store {
struct StoredModel;
}

namespace plimsoll::train {

enum class Purpose { Train, Evaluate, Predict, Profile };

// How large the scratch file may grow: bytes, or a share of what is free; neither: what is free less a reserve.
struct DiskLimit {
  Bytes bytes = 0;
  double share = 0;  // 0.5 is half
  bool is_given() const { return bytes > 0 || share > 0; }
  bool operator==(const DiskLimit&) const = default;
};

// Samples of a last batch that is not full, for which each kind of step is planned too; 0: there is none.
struct LastBatches {
  int64_t train = 0, evaluate = 0, predict = 0;
  bool operator==(const LastBatches&) const = default;
};

// Layers on ranks: each of these begins the stage of the next rank. Each stage works through the micro-batches of a
// batch in turn; 0: at most four for each rank, so that their number divides the batch.
struct StageOptions {
  std::vector<std::string> first_layers = {};
  int64_t micro_batches = 0;
  bool is_set() const { return !first_layers.empty() || micro_batches > 0; }
  bool operator==(const StageOptions&) const = default;
};

constexpr int kMostThreads = 1024;  // each has a stack and workspace of its own

// How the samples of a training are weighed.
struct SampleWeights {
  std::map<int64_t, double> by_class = {};
  std::string component = {};     // empty: none
  bool weigh_validation = false;  // the validation data has that component too
  bool operator==(const SampleWeights&) const = default;
};

struct Spec {
  // The step.
  std::string model;  // a built-in one, or the directory of a stored one
  ModelOptions model_options = {};
  std::shared_ptr<const ModelSpec> own_model = {};              // of a Model in C++, instead of `model`
  SampleWeights sample_weights = {};                            // which it was made with
  std::shared_ptr<const store::StoredModel> stored_model = {};  // that of the directory, once it was read
  int64_t batch = 0;                                            // 0: the model's own
  bool finds_batch = false;  // the largest that fits without micro-batches; `batch` is then the most
  Optimiser optimiser = Optimiser::adam();
  std::optional<double> learning_rate = {};  // unset: that of a weights file, else the optimiser's
  uint64_t seed = 1;
  Purpose purpose = Purpose::Train;
  int64_t profile_steps = 5;       // Purpose::Profile measures so many
  bool finds_bad_numbers = false;  // see SessionOptions
  bool loads_weights = false;      // a weights file will be read: the plan has room for that
  std::string weights_file = {};   // the only one, if that is known: less room is enough where its header is short
  Bytes log_bytes = 0;             // of files that are written while it trains
  bool predicts = false;           // a step that gives the model's outputs is planned too
  LastBatches last_batches = {};
  bool plans_other_batches = false;  // how many samples the last batches have is not known

  // The input. Without data the plan has room for the widest numbers that a file may hold.
  input::Data data = {};
  input::Pipeline pipeline = {};
  input::BatchedData batches = {};  // instead of both

  // What changes results; also Optimiser::state_bits.
  Policy policy = {};      // in what type values are kept
  int64_t accumulate = 1;  // batches whose gradients are added up for each update
  Freeze freeze = {};      // weights that are not trained
  std::optional<Pruning> pruning = {};
  int64_t shards = 0;  // of a batch, whose sums are taken in a fixed tree; 0: one for each rank
  StageOptions stages = {};
  bool synchronises_norms = false;          // all batch norms, over all ranks
  std::vector<std::string> split_ops = {};  // operators that may take each micro-batch for a batch of its own

  // The other ranks that train the same; null: there are none. Data and batch are those of all together.
  std::shared_ptr<ranks::Communicator> communicator = {};
  ranks::NetworkSpeed network = {};
  Sharding sharding = Sharding::None;  // what they share
  std::string sharding_reason = {};    // when that was searched for
  bool shares_batches = false;         // ranks are replicas in this process; the first reads `batches` for all

  // What it may use.
  Bytes line = 0;  // of the whole process; 0: `own_line`, else what the machine and its limits allow
  std::optional<MemoryLine> own_line = {};  // of the caller, with what others hold on it
  Bytes planning_line = 0;                  // that planning stays within where another one is tried; 0: `line`
  int threads = 0;                          // 0: all
  Levers levers = {};
  bool masks = true;                // one bit an element is kept instead of the output of relu or clip
  std::string scratch_folder = {};  // on a disk; empty: nothing is put there
  DiskLimit disk_limit = {};
};

// 0 for an optimiser without that setting.
double momentum_of(const Optimiser& optimiser);

// Whether a model of that name is looked for in a directory: it is no built-in one, and a path, or something is there.
bool is_model_path(const std::string& name);

// The model of the spec. Reads the directory of a stored one unless that was done. Throws Error.
ModelSpec model_of(const Spec& spec);

// The line in bytes and where it comes from.
memory::DefaultLine resolve_line(const Spec& spec);

// Where what does not fit in memory may go, and how much of it; an empty folder: nowhere.
struct ScratchRoom {
  std::string folder;
  Bytes bytes = 0;
};
// Throws Error(Usage) when the folder or the limit makes no sense, Error(DiskFull) when nothing is left there.
ScratchRoom resolve_scratch(const Spec& spec);

// "batch 12, line 47.25MiB": what `after` sets otherwise than `before`.
std::string describe_difference(const Spec& before, const Spec& after);

}  // namespace plimsoll::train

// The parsed command line, and the typed spec that it describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/callback.h>
#include <plimsoll/shrink.h>
#include <plimsoll/train.h>
#include "memory/default_line.h"
#include "report/config_file.h"
#include "train/inputs.h"
#include "train/spec.h"

namespace plimsoll::cli {

struct Arguments {
  // The model and its step.
  std::string model;
  ModelOptions model_options;
  int64_t batch = 0;  // 0: the model's own
  std::string optimiser = "adam";
  double learning_rate = 0;  // 0: the optimiser's own
  double momentum = 0;
  double global_clip_norm = 0;
  std::string schedule;  // of the learning rate: "cosine:steps=1000"; empty: constant
  bool prunes = false;   // by `pruning`, the flags of plimsoll prune; else by `prune`
  Pruning pruning = {};
  std::string prune;  // "from=0.5,to=0.8,begin=1000,end=10000"; empty: nothing is pruned
  uint64_t seed = 1;
  int threads = 0;  // 0: all

  // What is trained.
  std::vector<std::string> freeze, train_only;  // patterns of names of variables
  std::string frozen_type;                      // bf16, int8; empty: f32
  int64_t rank = 0;                             // of adapters; 0: none
  double alpha = 0;                             // 0: the rank
  double adapter_dropout = 0;
  std::vector<std::string> targets;  // layers that are adapted
  std::string adapter;               // the folder of adapters to use

  // The line.
  std::string memory;
  std::vector<std::string> without;       // levers that are switched off
  std::vector<std::string> split;         // operators that may treat each micro-batch as a batch
  std::vector<std::string> half_storage;  // what is kept in 16 bits: values, state
  std::string policy;                     // in what type values are kept; empty: float32
  int state_bits = 0;                     // of an element of the optimiser's state; 0: 32
  int64_t accumulate = 1;                 // batches for each update
  int64_t shards = 0;                     // of a batch; 0: one for each rank
  std::string sharding = "none";          // what ranks share
  int replicas = 0;                       // threads that train together; 0: this one alone
  std::string batch_norm;                 // whose statistics: own, synchronised; empty: as the layers say
  std::string disk_limit;                 // of the scratch file; empty: what is free, less a reserve
  bool auto_batch = false;                // the largest batch that fits whole

  // The data.
  std::string data;              // a file or a folder
  std::string train_x, train_y;  // or file by file
  std::string test_x, test_y;
  std::string validation;      // a path of its own
  std::string label;           // the column, feature or array with the labels
  int64_t shuffle_window = 0;  // samples to choose the next one from; 0: all
  bool no_shuffle = false;
  std::vector<std::string> map;  // what is done to images
  std::string on_corrupt;        // stop, or skip:N
  int data_threads = 0;          // that read and decode; 0: the one that fills batches
  std::string scratch;           // folder for temporary files, and for what does not fit in memory

  // The run.
  int64_t epochs = 1;
  int64_t steps = 0;           // stop after so many; 0: whole epochs
  std::string early_stopping;  // "3", "val_accuracy:3": epochs without an improvement; empty: none
  std::string weights;         // to start from
  std::string save;            // to write at the end
  std::string save_model;      // a directory to write the model to at the end
  bool predicts = false;       // labels are not needed, outputs are
  std::string output;          // predict: the file to write; adapt and merge: the folder
  std::string run;             // the folder to keep the run in
  int64_t histogram_epochs = 0;
  std::string which;             // save: "best" or "last" weights of the run; empty: the best it has
  bool resume = false;           // go on with the run of that folder
  double flag_rate = 0;          // the learning rate of the command line itself, not of a config; 0: none
  std::string checkpoint_every;  // "500", "2epochs", "30s"; empty: after each epoch
  int64_t keep = 3;              // checkpoints
  bool debug_nan = false;        // name the first operator that writes a number which is not finite
  std::string config;            // a file with options
  report::Config given = {};     // what flags and the file gave

  // quantize.
  std::string calibration = "minmax";
  int64_t samples = 512;  // of the calibration data, at most
  bool portable = false;  // weights within [-64, 63], for processors without VNNI

  // Ranks.
  std::string ranks;                    // how many to start: "4", "auto"; empty: none
  double rank_timeout = 300;            // seconds after which a rank that does not answer ends all
  std::vector<std::string> pipeline;    // layers that begin the stages of ranks; none: all ranks have all layers
  int64_t micro_batches = 0;            // of a batch in a pipeline; 0: chosen
  int64_t restarts = 0;                 // of all ranks, from the last checkpoint, when one was lost
  std::vector<std::string> words = {};  // the command line itself
  std::string network_text = {};        // plan: the speed between ranks, "10Gb/s,50us"
  // Found out when the ranks met.
  Bytes rank_bytes = 0;  // what MPI holds beside the heap
  ranks::NetworkSpeed network = {};

  // The output.
  bool json = false;
  bool measure = false;      // doctor: the disk, again
  bool no_remedies = false;  // a refusal names the smallest line and searches no further
  std::string progress = "auto";
  bool curve = false;  // plan: memory against time
  std::string dump;    // plan: write the plan as text
  std::string trace;   // profile: write the times of one step to this file
  int64_t top = 0;     // profile: so many single tasks
  bool all = false;    // inspect: everything; quantize: every layer
  bool graph = false;  // inspect: the graph as text
};

// The spec without data. Throws Error(Usage) for an unknown word, with the known ones.
train::Spec spec_of(const Arguments& arguments, train::Purpose purpose);

// The options of --rank, --alpha and --targets; or those of the folder of --adapter.
AdaptOptions adapt_options_of(const Arguments& arguments);

// The flags that change `before` into `after`, to be appended to the command line of `before`: "--batch 12".
std::string flags_of(const train::Spec& before, const train::Spec& after);

// The spec with the opened data of --data or the flags for single files; to evaluate, with the test half alone. Throws
// Error(BadData) for data that can't be read or is not what the model takes.
train::Spec spec_with_data(const Arguments& arguments, train::Purpose purpose);

// The weights that eval and predict load: of the flag, else of the stored model, once they are known to be whole.
// Throws Error(Usage) when there are neither.
std::string weights_to_load(const Arguments& arguments, const train::Spec& spec);

input::DataSpec data_spec_of(const Arguments& arguments);
input::Pipeline pipeline_of(const Arguments& arguments, const ModelSpec& model);

// The options of --checkpoint-every and --keep. Throws Error(Usage) for a word that is no interval.
CheckpointOptions checkpoint_options_of(const Arguments& arguments);
// The options of --early-stopping; unset without it. Throws Error(Usage) for words that are no number of epochs.
std::optional<EarlyStopping> early_stopping_of(const Arguments& arguments);

// The line of --memory in bytes; without it, what the machine and its limits allow.
memory::DefaultLine line_of(const Arguments& arguments);

}  // namespace plimsoll::cli

// A built-in model made ready under a line: what train, eval and plan share.
#pragma once

#include <memory>
#include <optional>

#include <plimsoll/memory_line.h>
#include "cli/settings.h"
#include "model/training.h"
#include "session/engine.h"

namespace plimsoll::cli {

// Slots that batches are read into ahead of their use.
constexpr int kPrefetchSlots = 2;

struct Workload {
  enum Steps : size_t { Train, Evaluate };

  ModelSpec spec;
  Graph graph;
  TrainingGraph training;
  DefaultLine line_origin;
  std::optional<MemoryLine> line;
  Bytes data_bytes = 0;  // slots, and the thread that fills them
  std::unique_ptr<session::Engine> session;
  int64_t batch = 0;
  std::string batch_reason;    // when it was not asked for but found
  std::string scratch_folder;  // empty: nothing may be put on a disk
  Changes changes;             // what there really is to change
};

enum class Purpose { Train, Evaluate, Profile };

// Steps that profile measures.
inline int64_t profile_runs(const Settings& settings) { return settings.steps > 0 ? settings.steps : 5; }

// Builds, lowers and plans; opens no data and takes no tensor memory. Throws DoesNotFit.
std::unique_ptr<Workload> make_workload(const Settings& settings, Purpose purpose);

// What training fetches, and what evaluation does: loss, and right answers where the model counts them.
session::Request train_request(const TrainingGraph& training, int64_t batch);
session::Request evaluate_request(const TrainingGraph& training, int64_t batch);

}  // namespace plimsoll::cli

// A model made ready under a line: graph, plan and session, before any data or tensor memory.
#pragma once

#include <memory>
#include <optional>

#include <plimsoll/memory_line.h>
#include "model/pipeline.h"
#include "model/pruning.h"
#include "model/training.h"
#include "report/curve.h"
#include "report/data.h"
#include "report/plan_report.h"
#include "session/engine.h"
#include "train/shards.h"
#include "train/spec.h"
#include "weights/variable_slices.h"

namespace plimsoll::train {

struct Training {
  // What is wanted; where the spec leaves the batch or the scratch folder open, the one that was found.
  Spec spec;

  // Numbers of the session's steps; the main one is the first.
  static constexpr size_t kTrain = 0;
  size_t evaluate_step = 0, predict_step = 0;
  size_t apply_step = 0;  // with accumulation alone: updates the weights
  size_t prune_step = 0;  // with pruning alone: to be run before the first step
  // With shards alone. The main step is that of a rank's last shard of a batch: it also exchanges and updates. Earlier
  // shards run `shard_step`, and one merge step for each level of the tree of sums (autodiff/shards.h).
  size_t shard_step = 0, first_merge_step = 0;

  ModelSpec model;
  Graph graph;
  model::TrainingGraph passes;
  memory::DefaultLine line_origin;
  std::optional<MemoryLine> line;
  Reservation others;  // what others hold on the caller's line, where another line is tried instead of it
  std::vector<input::FedTensor> fed;
  std::vector<StageReport> data_stages;  // planned, of the half that takes more
  Bytes data_bytes = 0;                  // of all these
  Reservation kept_data;                 // what descriptions of data hold, on a line that does not measure it
  Bytes weights_file_bytes = 0;          // held for reading and writing weights
  Bytes data_more_bytes = 0;             // that the line had left, and the data has a use for
  bool reads_in_place = true;            // batches
  std::unique_ptr<session::Engine> session;
  Shards shards;                   // of it
  model::StagePlace place;         // of this rank in a pipeline
  model::StageGraph stage;         // its part, there
  bool first_rank_saves = false;   // only the first rank has callbacks
  autodiff::SharedTensors shared;  // with them
  weights::VariableSlices slices;  // what this rank holds of shared variables
  model::PrunedWeights pruned;     // none: nothing is pruned
  std::string batch_reason;        // when the batch was searched for
  std::string step_hash;           // of the step where ranks share nothing; empty: that of the graph
  std::function<bool(std::string_view)> starts_fresh;  // see Model::State
  report::ResultChanges changes;                       // those of the requested ones that affect this step

  int64_t step_batch() const { return shards.samples; }  // of a run of the session
  // Samples that the input hands out at once.
  int64_t input_batch() const {
    return shards.is_cut && spec.batches.is_empty() ? shards.own_size(spec.batch) : spec.batch;
  }
  // A rank that has no samples of a shard must still take part in it.
  bool needs_all_ranks() const {
    return shared.ranks > 1 && (shared.sharding >= Sharding::Gradients || shared.synchronises_norms);
  }
  const Graph& whole_graph() const { return place.is_set() ? *stage.whole : graph; }  // of all ranks
  // The step that needs the most memory: training where there is any.
  const session::PlannedStep& main_step() const { return session->steps().front(); }
};

// Builds, lowers and plans; reads no data and takes no tensor memory. Throws DoesNotFit. `spec.finds_batch` is for
// make_sized_training.
std::unique_ptr<Training> make_training(const Spec& spec, const StopQuestion& is_stop_asked = never_stops);

// Weights of the whole model, of which a rank may hold slices.
int64_t count_weights(const Training& training);
// Initial values of slices of weights. To be called when the session was opened.
void initialize_slices(Training& training);

// What the steps fetch: the loss and the sums of the metrics; or the outputs.
session::Request train_request(const model::TrainingGraph& passes, int64_t batch);
session::Request predict_request(const model::TrainingGraph& passes, int64_t batch);
session::Request evaluate_request(const model::TrainingGraph& passes, int64_t batch);

// The optimiser with the rate that was given.
Optimiser optimiser_of(const Spec& spec);

// What the data is and what its stages take.
report::InputFacts data_facts(const Training& training);
// What the text and the JSON of its plan are made from.
report::PlanFacts plan_facts(const Training& training);
// Considers micro-batches too, also where the plan of the whole batch fits. Nothing where the line has no room for
// that.
std::optional<report::LowerBound> find_lower_bound(const Training& training);

// Plans at lines from the smallest feasible to unconstrained; the line of the spec does not matter.
report::Curve plan_curve(const Spec& spec, int points, const StopQuestion& is_stop_asked = never_stops);

}  // namespace plimsoll::train

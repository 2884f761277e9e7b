// What an Eager is made of: the recording of what is still to be computed, the values that exist, and the plans that
// compute them under the line.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include "eager/held_weights.h"
#include "eager/memory_pool.h"
#include "eager/plan_cache.h"
#include "eager/value.h"
#include "eager/value_store.h"
#include "eager/walk.h"
#include "graph/recorder.h"

namespace plimsoll::eager {

class EagerEngine : public graph::Recorder {
 public:
  EagerEngine(const MemoryLine& line, const EagerOptions& options);
  ~EagerEngine() override;
  EagerEngine(const EagerEngine&) = delete;
  EagerEngine& operator=(const EagerEngine&) = delete;

  // Recorder.
  ValueId enter(graph::Held& held) override;
  graph::Held* hold(ValueId id) override;
  void before_apply(const graph::Op& op, const graph::Attrs& attrs) override;
  void after_apply(NodeId node, const std::source_location& where) override;
  std::string_view name_of(const graph::Held& held) override;
  const void* read(graph::Held& held) override;
  void set_number(graph::Held& held, float number) override;
  void run() override;
  Tensor tensor_of(const StoredVariable& variable) override;
  std::vector<Tensor> variables(std::string_view prefix, VariableRole role) override;
  std::string optimiser_scope(std::span<const Tensor> weights) override;

  // New values. The numbers are copied in, or written by the caller into the memory that is returned.
  Tensor make_given(const TensorType& type, const void* from, const std::source_location& where);
  std::pair<Tensor, std::byte*> make_empty(const TensorType& type, const std::source_location& where) override;
  Tensor make_filled(const TensorType& type, const Init& init, bool is_range, const std::source_location& where);
  Tensor make_variable(std::string_view name, const TensorType& type, const Init& init, VariableRole role);

  // See Eager.
  void save(const std::string& path);
  void load(const std::string& path);

  void expect_thread() const;
  void bring_back(EagerValue& value);  // its numbers are in memory then; throws DoesNotFit
  // The variable is changed by others: what is pending is computed before, and its memory is given back.
  void lose(EagerValue& variable);
  void open_tape();
  void close_tape();
  // Copies the nodes of a traced graph into the recording.
  std::vector<Tensor> call(const graph::Body& traced, std::span<const ValueId> parameters,
                           std::span<const Tensor> arguments, std::span<const ValueId> results, int64_t batch);

  EagerFacts facts() const;
  std::string report() const;
  const MemoryLine& line() const { return store_.line(); }

 private:
  friend struct ValueAccess;
  struct Pending {
    std::vector<NodeId> nodes;     // in program order
    std::vector<ValueId> targets;  // of these nodes
    std::vector<ValueId> frozen;   // those of the targets that read a variable which changes
  };

  // A goal with the values that it is run on.
  struct PieceRun {
    std::shared_ptr<const PieceGoal> goal;
    int32_t wanted = LoweredPiece::kAllTargets;  // or one target that is recomputed
    int64_t first_draw = 0;
    std::vector<EagerValue*> leaves;   // null: a constant, or not needed
    std::vector<EagerValue*> outs;     // by target that is wanted
    std::vector<EagerValue*> changed;  // variables
  };

  EagerValue* value_at(ValueId id) const {
    return static_cast<size_t>(id) < held_.size() ? held_[static_cast<size_t>(id)] : nullptr;
  }
  bool is_made(ValueId id) const {
    const EagerValue* value = value_at(id);
    return value != nullptr && value->is_made();
  }
  EagerValue& value_for(ValueId id);
  EagerValue* add_value(ValueId id);
  // A value made by the program, not by an operator, with memory for its numbers.
  EagerValue& add_made(const TensorType& type, EagerValue::Origin origin, const std::source_location& where);
  EagerValue& variable_value(const StoredVariable& stored);
  void make_constant(EagerValue& value, ValueId id);

  bool is_read_by_pending(const EagerValue& value) const;
  Pending find_pending() const;
  Pending find_pending(bool recomputes_taped) const;
  // Whether a piece begins at this value: it is computed, and not to be recomputed.
  bool is_cut(ValueId id, bool recomputes_taped) const;
  bool is_frozen(ValueId id) const {
    return static_cast<size_t>(id) < frozen_.size() && frozen_[static_cast<size_t>(id)];
  }
  void flush();
  void begin_recording();
  void run_nodes(std::span<const NodeId> nodes, std::span<const ValueId> targets);
  bool run_planned(const PieceRun& run);
  void walk(const PieceRun& run);
  std::shared_ptr<const WalkProgram> walk_program(const PieceRun& run);
  static void add_records(const PieceRun& run, double make_ns);
  bool remake(EagerValue& value);
  bool prepare(PlannedPiece& planned, std::span<EagerValue* const> outs);
  bool plan(PlannedPiece& planned, Bytes limit);
  static Bytes planning_bytes(const CodePiece& piece);

  Refusal begin_refusal(Bytes missing) const;
  [[noreturn]] void throw_refusal(const Refusal& refusal) const;
  [[noreturn]] void refuse(const EagerValue& value) const;
  [[noreturn]] void refuse_planning(const PieceRun& run) const;
  [[noreturn]] void refuse_task(const WalkProgram& program, const TaskWalk::Lack& lack) const;
  [[noreturn]] void refuse_walk(const WalkProgram& program, plan::TaskId task, bool has_changed) const;
  [[noreturn]] static void throw_bad_value(const graph::Op* op, const kernels::StepStatus& status);

  const EagerOptions options_;
  Graph recording_;
  HeldWeights weights_{*this};
  ValueStore store_;
  PlanCache plans_;
  std::thread::id thread_ = std::this_thread::get_id();

  std::vector<EagerValue*> held_;            // by value of the recording; not owned
  std::vector<Tensor> entered_;              // leaves of the recording stay until it ends
  std::vector<Tensor> kept_;                 // made for what is still to be computed, without a handle of the program
  std::vector<bool> is_done_;                // by node: an update that has run
  std::vector<std::source_location> where_;  // by node
  Bytes entered_bytes_ = 0;
  int open_tapes_ = 0;
  NodeId taped_from_ = -1;    // the first node under a tape of this recording; -1: there was none
  std::vector<bool> frozen_;  // by value: not to be computed again
  bool has_updates_ = false;  // that are pending
  bool is_running_ = false;

  std::unordered_map<const StoredVariable*, Tensor> variables_;
  std::vector<std::vector<const StoredVariable*>> weight_lists_;  // by number of the optimiser's scope
  int64_t values_made_ = 0;
  Bytes missed_bytes_ = 0;             // the arena that the last plan that did not fit would have needed
  std::shared_ptr<void> description_;  // in the line's report
};

}  // namespace plimsoll::eager

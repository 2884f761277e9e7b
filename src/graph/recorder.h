// What eager code asks of the engine: tensors that exist beyond one graph, and a recording of what is still to be
// computed. The folder eager implements it; all that builds graphs (layers, gradients, optimisers) works on the
// recording, which is a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/graph.h>
#include "graph/attrs.h"
#include "graph/op.h"

namespace plimsoll::graph {

// An eager value, shared by all handles to it. Owned by them: the last one disposes of it.
struct Held {
  int64_t handles = 1;
  Recorder* recorder = nullptr;  // null: its Eager has ended
  void (*dispose)(Held*) noexcept = nullptr;
  TensorType type = {};
  // `id` is its number in the recording with serial `recording`. Another serial than the current one: not entered yet.
  int64_t recording = -1;
  ValueId id = -1;
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  Graph& graph() { return *graph_; }
  int64_t serial() const { return serial_; }  // a new recording, and serial, begins when all of the last one has run

  // Draws of random numbers are counted from the first of the Eager on. Nodes have their number within the recording,
  // so that the same code is the same recording each time.
  int64_t next_draw() { return draws_++ - first_draw_; }

  // The graph of the function that is being traced; null: none is. Returns what was there before.
  Graph* traced() const { return traced_; }
  Graph* set_traced(Graph* graph) { return std::exchange(traced_, graph); }

  // The number of the value in the current recording; adds the value to the recording if it is not there.
  virtual ValueId enter(Held& held) = 0;
  // One more handle to a value of the recording.
  virtual Held* hold(ValueId id) = 0;
  // Called before an operator is recorded: checks the thread, and runs what is pending when that has become too much.
  virtual void before_apply(const Op& op, const Attrs& attrs) = 0;
  virtual void after_apply(NodeId node, const std::source_location& where) = 0;

  // Operators recorded from now on are attributed to this place of the program, unless an outer call has set one;
  // returns what was set before.
  const std::source_location* set_caller(const std::source_location* where) {
    const std::source_location* const before = caller_;
    if (caller_ == nullptr) caller_ = where;
    return before;
  }
  void reset_caller(const std::source_location* before) { caller_ = before; }

  virtual std::string_view name_of(const Held& held) = 0;
  virtual const void* read(Held& held) = 0;                   // computes it; valid until anything else is computed
  virtual void set_number(Held& variable, float number) = 0;  // pending operators still read the old number
  virtual void run() = 0;                                     // all that is pending
  // A value whose numbers the caller writes into the memory that is returned, row-major, before anything else.
  virtual std::pair<Tensor, std::byte*> make_empty(const TensorType& type, const std::source_location& where) = 0;
  virtual Tensor tensor_of(const StoredVariable& variable) = 0;
  // The variables whose names begin with `prefix`, of a role.
  virtual std::vector<Tensor> variables(std::string_view prefix, VariableRole role) = 0;
  // A name for what the optimiser keeps for this list of weights.
  virtual std::string optimiser_scope(std::span<const Tensor> weights) = 0;

 protected:
  Graph* graph_ = nullptr;
  int64_t serial_ = 0;
  Graph* traced_ = nullptr;
  int64_t draws_ = 0;
  int64_t first_draw_ = 0;  // of the current recording
  const std::source_location* caller_ = nullptr;
};

// Takes eager tensors into a graph that is traced.
class Capturer {
 public:
  virtual ~Capturer() = default;
  virtual Tensor capture(Held& held) = 0;
};

// The recorder of the innermost Eager of this thread; null: there is none.
Recorder* current_recorder();
void add_recorder(Recorder* recorder);              // becomes the innermost
void remove_recorder(Recorder* recorder);           // wherever it is in the nesting
Recorder& require_recorder(std::string_view what);  // throws Error
bool is_alive(const Recorder* recorder);            // of this thread

// While a Composing lives, no new recording begins: numbers of values and nodes stay valid.
class Composing {
 public:
  explicit Composing(Graph& graph);
  ~Composing();
  Composing(const Composing&) = delete;
  Composing& operator=(const Composing&) = delete;

 private:
  Body& body_;
};

}  // namespace plimsoll::graph

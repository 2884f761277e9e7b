// One eager value: where its numbers are, and how they can be recomputed.
#pragma once

#include <memory>
#include <source_location>
#include <vector>

#include "eager/lowered_piece.h"
#include "eager/memory_pool.h"
#include "graph/body.h"
#include "graph/recorder.h"

namespace plimsoll::eager {

struct EagerValue;

// A leaf of a run: a value that the run read. A record does not keep its leaves alive; a dropped value does.
struct LeafUse {
  EagerValue* value = nullptr;
  int64_t version = 0;
  int32_t number = 0;  // in the piece
};

// How a value is recomputed: the run that made it, and the leaves of that run which it depends on.
struct RunRecord {
  std::shared_ptr<const PieceGoal> goal;
  int32_t target = 0;      // of the goal
  int64_t first_draw = 0;  // of the recording: random operators draw the same numbers again
  std::vector<LeafUse> leaves;

  RunRecord() = default;
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;
  ~RunRecord();
  // False when a leaf is gone or has been assigned since: the value can't be recomputed.
  bool is_valid() const;
};

// Recomputes values that exist only during a walk.
class Remaker {
 public:
  virtual ~Remaker() = default;
  virtual bool remake(EagerValue& value) = 0;  // false: no room
  virtual bool can_remake(const EagerValue& value) const = 0;
  virtual double remake_ns(const EagerValue& value) const = 0;  // with all dropped values that it needs
  virtual double distance(const EagerValue& value) const = 0;   // to its next use, in tasks
};

struct EagerValue : graph::Held {
  enum class State : uint8_t { Pending, InMemory, InFile, Dropped };
  enum class Origin : uint8_t { Computed, Given, Filled, Variable };

  State state = State::Pending;
  Origin origin = Origin::Computed;
  bool is_dead = false;  // no handle is left; records still point to it
  int32_t records = 0;   // that point to it as a leaf
  int32_t pins = 0;      // uses by a step under way: must stay in memory

  Bytes bytes = 0;
  Block block = {};
  Bytes file_place = -1;

  std::shared_ptr<RunRecord> record = {};  // Computed: how to recompute it
  Remaker* walk = nullptr;                 // Computed: the walk under way that makes it
  int32_t slot = -1;                       // of that walk
  bool is_spent = false;                   // the walk needs it only to recompute other values
  Init init = {};                          // Filled, Variable
  uint64_t fill_key = 0;                   // Filled
  bool is_range = false;                   // Filled: a, a + b, a + 2 b ...
  const StoredVariable* stored = nullptr;  // Variable
  int64_t version = 0;                     // updates of a variable
  bool owns_weight = false;                // Variable of a model: nobody else has its newest numbers

  double make_ns = 0;  // predicted, of the run that made it
  int64_t born = 0, last_used = 0;
  size_t listed_at = 0;  // among the engine's values
  const graph::Op* op = nullptr;
  std::source_location made_at = {};

  bool is_made() const { return state != State::Pending; }
  // Whether its numbers can be computed again from what there is now.
  bool can_be_remade() const {
    if (origin != Origin::Computed) return origin == Origin::Filled;
    if (record != nullptr) return record->is_valid();
    return walk != nullptr && walk->can_remake(*this);
  }
};

}  // namespace plimsoll::eager

// The memory of eager values under the line: which are in memory, which were dropped or spilled to make room, and how
// they come back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/eager.h>
#include "eager/held_weights.h"
#include "eager/memory_pool.h"
#include "eager/spill_file.h"
#include "eager/value.h"
#include "memory/arena.h"

namespace plimsoll::eager {

class ValueStore {
 public:
  // `remake` recomputes a dropped value into its new memory; false: there is no room for what it is made from.
  using Remake = std::function<bool(EagerValue&)>;
  ValueStore(const MemoryLine& line, const EagerOptions& options, HeldWeights& weights, Remake remake);
  ~ValueStore();

  const MemoryLine& line() const { return line_; }
  MemoryLine& line() { return line_; }

  // A new value, listed until release; `handles` is 1.
  EagerValue* add();
  void release(EagerValue& value) noexcept;  // its last handle is gone
  // The engine ends: all memory is given back, and uses of the values throw Error from then on.
  void end() noexcept;

  // Memory for a value that has none; room is made where needed. False: there is none.
  bool allocate(EagerValue& value);
  void give_back(EagerValue& value) noexcept;  // memory without numbers
  // Its numbers are in memory after this. False: no room.
  bool bring_back(EagerValue& value);
  void fill(EagerValue& value);
  // The numbers of the value are now in its memory.
  void note_made(EagerValue& value);
  void unmake(EagerValue& value) noexcept;  // as if it had not been computed
  // Before a variable changes: values that are made from it come back where they were dropped, and stay or are spilled
  // from now on. False: no room.
  bool keep_dependents(const EagerValue& variable);

  // The arena of steps has at least so many bytes after this. False: no room.
  bool commit_arena(Bytes bytes);
  std::byte* arena() const { return arena_.data(); }
  // Bytes that a step's arena could have: without dropping any value, and with all that may be dropped.
  Bytes easy_bytes() const;
  Bytes most_bytes() const;
  // Makes so many bytes of the line free. False: dropping all that may be dropped is not enough.
  bool make_room(Bytes bytes);

  static bool is_large(const EagerValue& value) { return value.bytes > kSmallValue; }
  bool may_go(const EagerValue& value) const;
  void drop(EagerValue& value);

  void touch(EagerValue& value) { value.last_used = ++clock_; }
  int64_t now() const { return clock_; }
  const std::vector<EagerValue*>& values() const { return values_; }
  int64_t drops() const { return drops_; }
  int64_t spills() const { return spills_; }
  int64_t remakes() const { return remakes_; }

 private:
  static constexpr Bytes kSmallValue = 32 * KiB;  // smaller ones are never dropped: they share pages

  double price_ns(const EagerValue& value) const;  // of dropping it and bringing it back
  bool let_one_go();
  bool let_go(EagerValue& value);
  bool spill(EagerValue& value);
  void shrink_arena();

  MemoryLine line_;
  const EagerOptions& options_;
  HeldWeights& weights_;
  Remake remake_;
  MemoryPool pool_;
  SpillFile file_;
  memory::Arena arena_;
  Reservation arena_held_;
  Bytes arena_needed_ = 0;  // by the step that is prepared
  std::vector<EagerValue*> values_;
  std::vector<EagerValue*> dropped_;
  int64_t clock_ = 0, drops_ = 0, spills_ = 0, remakes_ = 0;
};

// Memory that a task needs while it runs.
class ScratchBlock {
 public:
  explicit ScratchBlock(ValueStore& store) : store_(store) {}
  ~ScratchBlock() { store_.give_back(holder_); }
  ScratchBlock(const ScratchBlock&) = delete;
  ScratchBlock& operator=(const ScratchBlock&) = delete;
  bool take(Bytes bytes) {
    holder_.bytes = bytes;
    return bytes == 0 || store_.allocate(holder_);
  }
  std::byte* data() const { return holder_.block.data; }

 private:
  ValueStore& store_;
  EagerValue holder_;
};

}  // namespace plimsoll::eager

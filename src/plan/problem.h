// What the planner sees of one training step: tasks, the buffers they touch, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "base/batch_rule.h"

namespace plimsoll::plan {

using BufferId = int32_t;  // index into Problem::buffers
using TaskId = int32_t;    // index into Problem::tasks; a plan's own tasks follow them, see Plan::transfers
using SpaceId = int32_t;   // index into Problem::spaces

// Where a task runs. A lane does one task at a time, in the order of the plan; lanes run concurrently.
enum class Lane : uint8_t { Compute, Disk, Network };
constexpr size_t kLaneCount = 3;

constexpr SpaceId kHost = 0;  // the memory of the process

enum class BufferKind : uint8_t {
  Variable,   // lives before, during and after the step, at the same place in every plan of the arena
  Input,      // the caller fills it with the whole batch before action 0
  Output,     // whole batch, alive after the last action
  Temporary,  // lives between its first writer and its last user
};

struct Buffer {
  std::string name;
  Tag tag = Tag::Activations;
  BufferKind kind = BufferKind::Temporary;
  Bytes fixed_bytes = 0;
  Bytes per_sample_bytes = 0;
  bool is_collected = false;  // a temporary whose rows are kept for all micro-batches
  // In the caller's memory, without a place in the arena: an input that is never changed, a variable, or an output.
  bool is_given = false;
  SpaceId space = kHost;  // which memory it lies in: each has places of its own
  bool operator==(const Buffer&) const = default;
};

// Sized for all samples even when the step runs in micro-batches; micro-batch k works on its own rows.
inline bool holds_whole_batch(const Buffer& buffer) {
  return buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output || buffer.is_collected;
}

// The task may write writes[write] over reads[read], in place, when nothing reads that value later.
struct InPlace {
  int32_t read = 0;
  int32_t write = 0;
  bool operator==(const InPlace&) const = default;
};

// One way to do a task. `updates` are read and then changed in place: a weight by its optimiser, a sum by its terms.
struct Work {
  std::vector<BufferId> reads, writes, updates;
  Bytes workspace_fixed_bytes = 0;
  Bytes workspace_per_sample_bytes = 0;
  double fixed_ns = 0;
  double per_sample_ns = 0;
  std::vector<InPlace> may_share;
  bool operator==(const Work&) const = default;
};

struct Variant : Work {
  std::string name;
  bool operator==(const Variant&) const = default;
};

struct Task : Work {
  std::string name;
  Lane lane = Lane::Compute;
  int32_t peer = -1;          // on the network lane: the one rank that it exchanges with; -1: all
  bool recomputable = false;  // running it again on the same values gives the same bits
  BatchRule batch_rule = BatchRule::Mixes;
  std::vector<Variant> variants;  // alternatives to the Work above
  bool operator==(const Task&) const = default;
};

// The order of `tasks` is a valid program: it defines which version of a buffer each task reads.
struct Problem {
  std::string name;
  std::vector<std::string> spaces = {"host"};
  int64_t micro_batch = 0;  // the step runs in micro-batches of so many samples, the last one may be smaller; 0: whole
  std::vector<Buffer> buffers;
  std::vector<Task> tasks;
  bool operator==(const Problem&) const = default;
};

// What a buffer occupies in its arena for so many samples: a multiple of kAlignment.
Bytes placed_bytes(const Buffer& buffer, int64_t samples);
Bytes workspace_bytes(const Work& work, int64_t samples);
// In whole nanoseconds, so that a sum is the same in any order.
double cost_ns(const Work& work, int64_t samples);

std::string_view name_of(BufferKind kind);  // "variable"
std::string_view name_of(BatchRule rule);   // "rows"
std::string_view name_of(Lane lane);        // "disk"

// Throws Error naming the task or buffer when the problem makes no sense: ids out of range, a value read before
// anything wrote it, sizes below zero.
void require_valid(const Problem& problem);

}  // namespace plimsoll::plan

// The refusals of an engine when something does not fit.
#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "eager/engine.h"
#include "eager/report.h"
#include "memory/process.h"

namespace plimsoll::eager {

Refusal EagerEngine::begin_refusal(Bytes missing) const {
  Refusal refusal;
  refusal.line = line().limit();
  refusal.runtime = line().process_bytes();
  if (refusal.line < MemoryLine::kUnlimited) {
    refusal.need = refusal.line + std::max<Bytes>(missing, 1);
    refusal.smallest_line = round_line(refusal.need);
  } else {  // it is the machine that has no room
    refusal.line = line().used() + memory::available_memory_bytes();
    refusal.need = std::max(line().used() + missing + store_.most_bytes(), refusal.line + 1);
  }
  refusal.holders = largest_holders(store_.values());
  return refusal;
}

void EagerEngine::throw_refusal(const Refusal& refusal) const {
  throw DoesNotFit(refusal, describe(refusal) + describe_values(store_.values(), store_.now()));
}

void EagerEngine::throw_bad_value(const graph::Op* op, const kernels::StepStatus& status) {
  throw Error(fmt::format("{}: {} {} at position {} is not in [0, {})", op == nullptr ? "eager code" : op->name,
                          status.bad.what, status.bad.value, status.bad.index, status.bad.end),
              ErrorKind::BadData);
}

void EagerEngine::refuse(const EagerValue& value) const {
  Refusal refusal = begin_refusal(MemoryPool::block_bytes(value.bytes) - store_.most_bytes());
  refusal.tightest_task = std::string(value.op == nullptr ? "a value" : value.op->name);
  refusal.reason = fmt::format("no room for {} of {}; the values that are held can neither be dropped nor spilled",
                               to_string(value.type), format_bytes(value.bytes));
  throw_refusal(refusal);
}

void EagerEngine::refuse_planning(const PieceRun& run) const {
  const Bytes need = planning_bytes(*run.goal->piece);
  Refusal refusal = begin_refusal(need - store_.most_bytes());
  refusal.tightest_task = "planning";
  refusal.reason =
      fmt::format("planning {} operators takes {} of the process", run.goal->piece->nodes.size(), format_bytes(need));
  throw_refusal(refusal);
}

void EagerEngine::refuse_task(const WalkProgram& program, const TaskWalk::Lack& lack) const {
  // Small values share slabs: each size may need one more.
  Refusal refusal = begin_refusal(lack.missing + MiB / 2);
  const graph::Op* const op = program.op_of(lack.task);
  refusal.tightest_task = std::string(op == nullptr ? "a change of layout" : op->name);
  refusal.reason = fmt::format("{} alone needs {}; variables and values that can't be made again take {}",
                               program.lowered().describe(lack.task), format_bytes(lack.own),
                               format_bytes(refusal.line - store_.most_bytes() - refusal.runtime));
  throw_refusal(refusal);
}

// The operator alone fits, but not beside what is held while its operands are recomputed. The need that is named is
// that of the plan which did not fit.
void EagerEngine::refuse_walk(const WalkProgram& program, plan::TaskId task, bool has_changed) const {
  Bytes outs = 0;
  for (const WalkSlot& slot : program.slots())
    if (slot.kind != WalkSlot::Kind::Temporary) outs += MemoryPool::block_bytes(slot.bytes);
  Refusal refusal = begin_refusal(missed_bytes_ + outs - store_.most_bytes());
  const graph::Op* const op = program.op_of(task);
  refusal.tightest_task = std::string(op == nullptr ? "a change of layout" : op->name);
  const bool fits_alone = outs <= refusal.line - store_.most_bytes() - refusal.runtime;
  refusal.reason =
      fmt::format("{} {}{}", program.lowered().describe(task),
                  fits_alone ? "fits alone, but not beside what is needed to make its operands again"
                             : fmt::format("alone needs {}", format_bytes(outs)),
                  has_changed ? "; some variables were updated already: restore them, or start again" : "");
  throw_refusal(refusal);
}

}  // namespace plimsoll::eager

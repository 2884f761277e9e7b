#include "plan/problem.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::plan {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"variable", "input", "output", "temporary"};
constexpr std::array<std::string_view, 3> kRules{"rows", "sums", "mixes"};

constexpr std::array<std::string_view, kLaneCount> kLanes{"compute", "disk", "network"};

constexpr Bytes kLargest = Bytes{1} << 60;

void require_valid(const Problem& problem, const Task& task, const Work& work) {
  const auto refuse = [&](const std::string& what) { throw Error(fmt::format("task '{}': {}", task.name, what)); };
  for (const auto* list : {&work.reads, &work.writes, &work.updates})
    for (const BufferId id : *list)
      if (id < 0 || id >= static_cast<BufferId>(problem.buffers.size()))
        refuse(fmt::format("buffer {} does not exist", id));
  for (const auto* list : {&work.writes, &work.updates})
    for (const BufferId id : *list)
      if (problem.buffers[id].is_given && problem.buffers[id].kind == BufferKind::Input)
        refuse(fmt::format("'{}' is the caller's and can't be changed", problem.buffers[id].name));
  for (const BufferId id : work.writes) {
    for (const auto* list : {&work.reads, &work.updates})
      for (const BufferId other : *list)
        if (other == id)
          refuse(fmt::format("'{}' is written and also read; list it under updates", problem.buffers[id].name));
  }
  for (const InPlace& pair : work.may_share)
    if (pair.read < 0 || pair.read >= static_cast<int32_t>(work.reads.size()) || pair.write < 0 ||
        pair.write >= static_cast<int32_t>(work.writes.size()))
      refuse("an in-place pair names a read or write that does not exist");
  if (work.workspace_fixed_bytes < 0 || work.workspace_per_sample_bytes < 0) refuse("workspace is below zero");
  if (work.workspace_fixed_bytes > kLargest || work.workspace_per_sample_bytes > kLargest)
    refuse("workspace is too large");
  if (!(work.fixed_ns >= 0) || !(work.per_sample_ns >= 0) || !std::isfinite(work.fixed_ns + work.per_sample_ns))
    refuse("cost is below zero or not a number");
}

}  // namespace

Bytes placed_bytes(const Buffer& buffer, int64_t samples) {
  return buffer.is_given ? 0 : round_up(buffer.fixed_bytes + buffer.per_sample_bytes * samples, kAlignment);
}

Bytes workspace_bytes(const Work& work, int64_t samples) {
  return round_up(work.workspace_fixed_bytes + work.workspace_per_sample_bytes * samples, kAlignment);
}

double cost_ns(const Work& work, int64_t samples) {
  return std::round(work.fixed_ns + work.per_sample_ns * static_cast<double>(samples));
}

std::string_view name_of(BufferKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::string_view name_of(BatchRule rule) { return kRules[static_cast<size_t>(rule)]; }
std::string_view name_of(Lane lane) { return kLanes[static_cast<size_t>(lane)]; }

void require_valid(const Problem& problem) {
  if (problem.micro_batch < 0) throw Error(fmt::format("a micro-batch of {} samples is none", problem.micro_batch));
  if (problem.spaces.empty()) throw Error("a problem without a space has no place for its buffers");
  std::vector<bool> defined(problem.buffers.size(), false);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.fixed_bytes < 0 || buffer.per_sample_bytes < 0)
      throw Error(fmt::format("buffer '{}': size is below zero", buffer.name));
    if (buffer.fixed_bytes > kLargest || buffer.per_sample_bytes > kLargest)
      throw Error(fmt::format("buffer '{}': size is too large", buffer.name));
    if (buffer.space < 0 || buffer.space >= static_cast<SpaceId>(problem.spaces.size()))
      throw Error(fmt::format("buffer '{}': space {} does not exist", buffer.name, buffer.space));
    if (buffer.is_collected && buffer.kind != BufferKind::Temporary)
      throw Error(fmt::format("buffer '{}': only a temporary can be collected", buffer.name));
    if (buffer.is_given && buffer.kind == BufferKind::Temporary)
      throw Error(fmt::format("buffer '{}': a temporary can't be given by the caller", buffer.name));
    if (buffer.kind == BufferKind::Variable && buffer.per_sample_bytes != 0)
      throw Error(fmt::format("buffer '{}': a variable cannot grow with the batch", buffer.name));
    defined[i] = buffer.kind == BufferKind::Variable || buffer.kind == BufferKind::Input;
  }
  for (const Task& task : problem.tasks) {
    if (task.lane == Lane::Disk)
      throw Error(fmt::format("task '{}': what goes to disk and back is for the plan to say", task.name));
    require_valid(problem, task, task);
    for (const Variant& variant : task.variants) require_valid(problem, task, variant);
    for (const auto* list : {&task.reads, &task.updates})
      for (const BufferId id : *list)
        if (!defined[id])
          throw Error(
              fmt::format("task '{}': '{}' is read before anything wrote it", task.name, problem.buffers[id].name));
    for (const BufferId id : task.writes) defined[id] = true;
  }
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    if (problem.buffers[i].kind == BufferKind::Output && !defined[i])
      throw Error(fmt::format("output '{}' is written by no task", problem.buffers[i].name));
}

}  // namespace plimsoll::plan

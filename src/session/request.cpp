#include "session/request.h"

namespace plimsoll::session {

std::vector<ValueId> Request::fetch_ids() const {
  std::vector<ValueId> ids;
  for (const Tensor& tensor : fetches) ids.push_back(tensor.id());
  return ids;
}

bool Request::operator==(const Request& other) const {
  return batch == other.batch && updates == other.updates && fetch_ids() == other.fetch_ids();
}

Bytes PlannedStep::detail_bytes() const {
  const auto text = [](const std::string& name) { return name.capacity() > 15 ? name.capacity() + 1 : 0; };
  const auto list = [](const auto& items) { return items.capacity() * sizeof(items[0]); };
  size_t bytes = list(program.problem.buffers) + list(program.buffer_types) + list(program.problem.tasks) +
                 list(program.tasks) + list(plan.actions) + list(plan.lives);
  for (const plan::Buffer& buffer : program.problem.buffers) bytes += text(buffer.name);
  for (const plan::Task& task : program.problem.tasks)
    bytes += text(task.name) + list(task.reads) + list(task.writes) + list(task.updates) + list(task.may_share);
  for (const lower::ProgramTask& task : program.tasks) bytes += list(task.own.in) + list(task.slim.in);
  return static_cast<Bytes>(bytes);
}

void PlannedStep::forget_details() {
  program.problem = {};
  program.tasks = {};
  program.buffer_types = {};
  plan.transfers = {};
  plan.actions = {};
  plan.lives = {};
  plan.decisions = {};
  file_places = {};
}

Bytes PlannedStep::estimated_bytes() const { return lowered_tasks * kBytesOfTask + planned_actions * kBytesOfAction; }

}  // namespace plimsoll::session

// The fastest step as events that chrome://tracing and Perfetto show.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/profile.h"

namespace plimsoll::report {
namespace {

constexpr int kProcess = 1;

// The tag of what the action writes.
Tag track_of(const plan::Problem& problem, const plan::Action& step) {
  if (is_transfer(problem, step)) return Tag::Staging;
  const plan::Task& task = problem.tasks[static_cast<size_t>(step.task)];
  const std::vector<plan::BufferId>& written = task.writes.empty() ? task.updates : task.writes;
  return written.empty() ? Tag::Workspace : problem.buffers[static_cast<size_t>(written.front())].tag;
}

// Bytes that each tag holds during each action. A life that starts at the offset of one that ends there replaces it.
std::vector<plan::BytesByTag> held_by_step(const plan::Problem& problem, const plan::Plan& plan) {
  std::vector<plan::BytesByTag> held(plan.actions.size());
  std::vector<std::vector<std::pair<Bytes, const plan::Life*>>> ending(plan.actions.size());
  for (const plan::Life& life : plan.lives)
    ending[static_cast<size_t>(life.last_action)].emplace_back(life.offset, &life);
  std::vector<const plan::Life*> taken_over;
  for (const plan::Life& life : plan.lives)
    for (const auto& [offset, other] : ending[static_cast<size_t>(life.first_action)])
      if (offset == life.offset && other != &life && other->first_action < life.first_action)
        taken_over.push_back(other);
  for (const plan::Life& life : plan.lives) {
    const Tag tag =
        life.buffer == plan::kWorkspace ? Tag::Workspace : problem.buffers[static_cast<size_t>(life.buffer)].tag;
    const bool ends_early = std::find(taken_over.begin(), taken_over.end(), &life) != taken_over.end();
    for (int32_t step = life.first_action; step <= life.last_action - (ends_early ? 1 : 0); ++step)
      held[static_cast<size_t>(step)][static_cast<size_t>(tag)] += life.bytes;
  }
  return held;
}

nlohmann::json name_of_track(std::string_view what, int thread, std::string_view name) {
  return {{"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void write_trace(const Profile& profile, const lower::Program& program, const plan::Plan& plan,
                 const std::function<void(std::string_view text)>& write_text) {
  const char* separator = "[";
  const auto write = [&](const nlohmann::json& event) {
    write_text(separator + event.dump());
    separator = ",\n";
  };
  write(name_of_track("process_name", 0, fmt::format("plimsoll {} batch {}", profile.model, profile.batch)));
  for (size_t i = 0; i < kTagCount; ++i)
    write(name_of_track("thread_name", static_cast<int>(i), name_of(static_cast<Tag>(i))));
  const std::vector<plan::BytesByTag> held = held_by_step(program.problem, plan);
  double now_us = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const ProfileRow row = describe_step(program, plan, plan.actions[i]);
    const double us = static_cast<double>(profile.fastest_run_ns[i]) / 1e3;
    write({{"name", row.task},
           {"cat", row.name},
           {"ph", "X"},
           {"pid", kProcess},
           {"tid", static_cast<int>(track_of(program.problem, plan.actions[i]))},
           {"ts", now_us},
           {"dur", us},
           {"args",
            {{"operator", row.name},
             {"flops", row.flops},
             {"bytes", row.bytes},
             {"predicted_us", row.predicted_ns / 1e3}}}});
    nlohmann::json bytes;
    for (size_t tag = 0; tag < kTagCount; ++tag)
      if (held[i][tag] > 0) bytes[std::string(name_of(static_cast<Tag>(tag)))] = held[i][tag];
    write({{"name", "bytes held"}, {"ph", "C"}, {"pid", kProcess}, {"ts", now_us}, {"args", bytes}});
    now_us += us;
  }
  write_text("]\n");
}

}  // namespace plimsoll::report

#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "plan/text/names.h"
#include "plan/text/text.h"
#include "plan/text/text_task.h"

namespace plimsoll::plan {
namespace {

constexpr std::array<std::pair<std::string_view, bool Levers::*>, 6> kLevers{{{"order", &Levers::order},
                                                                              {"in_place", &Levers::in_place},
                                                                              {"variants", &Levers::variants},
                                                                              {"recompute", &Levers::recompute},
                                                                              {"micro_batch", &Levers::micro_batch},
                                                                              {"spill", &Levers::spill}}};

int32_t parse_name(WordReader& reader, const Names& names, std::string_view expected) {
  const std::string& word = reader.word(expected);
  const int32_t id = names.find(word);
  if (id < 0) reader.refuse(fmt::format("{} '{}' is unknown or not unique", expected, word));
  return id;
}

void print_action(std::string& text, const Action& action, const Names& tasks) {
  text += "action " + tasks.word(action.task);
  if (action.micro_batch != 0) text += fmt::format(" micro_batch {}", action.micro_batch);
  if (action.variant >= 0) text += fmt::format(" with {}", action.variant);
  text += '\n';
}

Action parse_action(WordReader& reader, const Names& tasks) {
  Action action;
  action.task = parse_name(reader, tasks, "task");
  if (reader.take("micro_batch")) action.micro_batch = reader.small_integer("the micro-batch");
  if (reader.take("with")) action.variant = reader.small_integer("the variant");
  return action;
}

Life parse_life(WordReader& reader, const Names& buffers) {
  Life life;
  if (!reader.take("-")) life.buffer = parse_name(reader, buffers, "buffer");
  life.first_action = reader.small_integer("the first action");
  life.last_action = reader.small_integer("the last action");
  if (life.first_action < 0 || life.last_action < life.first_action)
    reader.refuse(fmt::format("a life can't span actions {}-{}", life.first_action, life.last_action));
  reader.expect("offset");
  life.offset = reader.size("the offset");
  reader.expect("bytes");
  life.bytes = reader.size("the size");
  if (life.offset % kAlignment != 0 || life.bytes % kAlignment != 0)
    reader.refuse(
        fmt::format("offset {} and size {} of a life must be multiples of {}", life.offset, life.bytes, kAlignment));
  return life;
}

Exactness parse_exactness(WordReader& reader) {
  const std::string& word = reader.word("exactness");
  for (const Exactness exactness : {Exactness::BitIdentical, Exactness::WithinTolerance})
    if (name_of(exactness) == word) return exactness;
  reader.refuse(fmt::format("'{}' is no exactness", word));
}

// One line of a plan that is neither action nor life.
void parse_fact(WordReader& reader, const Names& tasks, const Names& buffers, Plan& plan) {
  if (reader.take("arena")) {
    plan.arena_bytes = reader.size("the arena");
    while (!reader.at_end()) plan.more_arenas.push_back(reader.size("the arena of a space"));
  } else if (reader.take("variables")) {
    plan.variable_bytes = reader.size("the size of all variables");
  } else if (reader.take("micro_batches")) {
    while (!reader.at_end()) plan.micro_batches.push_back(reader.integer("the samples of a micro-batch"));
  } else if (reader.take("stored")) {
    while (!reader.at_end()) plan.stored.push_back(parse_name(reader, buffers, "buffer"));
  } else if (reader.take("predicted_ns")) {
    plan.predicted_ns = reader.number("the time");
  } else if (reader.take("unconstrained")) {
    plan.unconstrained_bytes = reader.size("the unconstrained size");
    plan.unconstrained_ns = reader.number("the unconstrained time");
  } else if (reader.take("next_faster")) {
    plan.next_faster_bytes = reader.size("the size of the next faster plan");
  } else if (reader.take("live")) {
    plan.live_bytes = reader.size("the live size");
    reader.expect("action");
    plan.peak_action = reader.small_integer("the action of the peak");
  } else if (reader.take("peak")) {
    for (Bytes& bytes : plan.peak_by_tag) {
      const auto index = static_cast<size_t>(&bytes - plan.peak_by_tag.data());
      reader.expect(name_of(static_cast<Tag>(index)));
      bytes = reader.size("the peak of a tag");
    }
  } else if (reader.take("lower_bound")) {
    plan.lower_bound_bytes = reader.size("the lower bound");
    if (reader.take("task")) plan.lower_bound_task = parse_name(reader, tasks, "task");
  } else if (reader.take("results")) {
    plan.exactness = parse_exactness(reader);
  } else if (reader.take("decision")) {
    Decision decision;
    decision.what = reader.word("what was decided");
    decision.bytes_saved = reader.integer("the bytes saved");
    decision.ns_paid = reader.number("the time paid");
    plan.decisions.push_back(std::move(decision));
  }
}

}  // namespace

std::string to_text(const Limits& limits) {
  std::string text = fmt::format(
      "limits\nbytes {}\nbatch {}\ndisk_bytes {}\ndisk_read {}\ndisk_write {}\npack_nodes {}\n", limits.bytes,
      limits.batch, limits.disk_bytes, limits.disk_read_bytes_per_s, limits.disk_write_bytes_per_s, limits.pack_nodes);
  if (!limits.more_spaces.empty()) text += fmt::format("more_spaces {}\n", fmt::join(limits.more_spaces, " "));
  if (limits.action_bytes > 0) text += fmt::format("action_bytes {}\n", limits.action_bytes);
  if (limits.staging_bytes > 0) text += fmt::format("staging_bytes {}\n", limits.staging_bytes);
  if (limits.search_bytes < Limits{}.search_bytes) text += fmt::format("search_bytes {}\n", limits.search_bytes);
  if (limits.stored) text += fmt::format("stored {}\n", fmt::join(*limits.stored, " "));
  for (const auto& [name, lever] : kLevers)
    text += fmt::format("lever {} {}\n", name, limits.levers.*lever ? "on" : "off");
  return text;
}

Limits parse_limits(std::string_view text, int64_t lines_before) {
  WordReader reader(text, lines_before);
  Limits limits;
  if (!reader.next_line()) reader.refuse("there are no limits");
  reader.expect("limits");
  reader.expect_end();
  while (reader.next_line()) {
    if (reader.take("bytes")) {
      limits.bytes = reader.integer("bytes");  // may be the largest number: no limit
      if (limits.bytes < 0) reader.refuse(fmt::format("bytes can't be {}", limits.bytes));
    } else if (reader.take("more_spaces")) {
      while (!reader.at_end()) limits.more_spaces.push_back(reader.size("the bytes of a space"));
    } else if (reader.take("batch")) {
      limits.batch = reader.size("batch");
      if (limits.batch == 0) reader.refuse("batch can't be 0");
    } else if (reader.take("disk_bytes")) {
      limits.disk_bytes = reader.size("disk_bytes");
    } else if (reader.take("disk_read")) {
      limits.disk_read_bytes_per_s = reader.number("disk_read");
    } else if (reader.take("disk_write")) {
      limits.disk_write_bytes_per_s = reader.number("disk_write");
    } else if (reader.take("action_bytes")) {
      limits.action_bytes = reader.small_integer("action_bytes");
    } else if (reader.take("staging_bytes")) {
      limits.staging_bytes = reader.size("staging_bytes");
    } else if (reader.take("search_bytes")) {
      limits.search_bytes = reader.size("search_bytes");
    } else if (reader.take("pack_nodes")) {
      limits.pack_nodes = reader.size("pack_nodes");
    } else if (reader.take("stored")) {
      limits.stored.emplace();
      while (!reader.at_end()) limits.stored->push_back(reader.small_integer("a variable's number"));
    } else if (reader.take("lever")) {
      bool Levers::*lever = nullptr;
      for (const auto& [name, member] : kLevers)
        if (reader.take(name)) lever = member;
      if (lever == nullptr) reader.refuse("that lever is unknown");
      limits.levers.*lever = reader.take("on");
      if (!(limits.levers.*lever)) reader.expect("off");
    }
    reader.expect_end();
  }
  return limits;
}

std::string to_text(const Plan& plan, const Problem& problem) {
  Names tasks = names_of(problem.tasks);
  const Names buffers = names_of(problem.buffers);
  for (const Task& transfer : plan.transfers) tasks.add(transfer.name);
  std::string text = fmt::format("plan {}\narena {}", quote(problem.name), plan.arena_bytes);
  for (const Bytes bytes : plan.more_arenas) text += fmt::format(" {}", bytes);
  text += fmt::format("\nvariables {}\nmicro_batches {}\n", plan.variable_bytes, fmt::join(plan.micro_batches, " "));
  text += fmt::format("predicted_ns {}\nunconstrained {} {}\nlive {} action {}\npeak", plan.predicted_ns,
                      plan.unconstrained_bytes, plan.unconstrained_ns, plan.live_bytes, plan.peak_action);
  for (size_t i = 0; i < kTagCount; ++i)
    text += fmt::format(" {} {}", name_of(static_cast<Tag>(i)), plan.peak_by_tag[i]);
  text += fmt::format("\nlower_bound {}", plan.lower_bound_bytes);
  if (plan.lower_bound_task >= 0) text += " task " + tasks.word(plan.lower_bound_task);
  text += fmt::format("\nresults {}\n", name_of(plan.exactness));
  if (plan.next_faster_bytes > 0) text += fmt::format("next_faster {}\n", plan.next_faster_bytes);
  if (!plan.stored.empty()) text += "stored";
  for (const BufferId id : plan.stored) text += ' ' + buffers.word(id);
  if (!plan.stored.empty()) text += '\n';
  for (const Decision& decision : plan.decisions)
    text += fmt::format("decision {} {} {}\n", quote(decision.what), decision.bytes_saved, decision.ns_paid);
  for (const Task& transfer : plan.transfers) print_task(text, "transfer", transfer, buffers);
  for (const Action& action : plan.actions) print_action(text, action, tasks);
  for (const Life& life : plan.lives)
    text +=
        fmt::format("life {} {} {} offset {} bytes {}\n", life.buffer == kWorkspace ? "-" : buffers.word(life.buffer),
                    life.first_action, life.last_action, life.offset, life.bytes);
  return text;
}

Plan parse_plan(std::string_view text, const Problem& problem, int64_t lines_before) {
  Names tasks = names_of(problem.tasks);
  const Names buffers = names_of(problem.buffers);
  WordReader reader(text, lines_before);
  Plan plan;
  if (!reader.next_line()) reader.refuse("there is no plan");
  reader.expect("plan");
  if (const std::string& name = reader.word("the name of the problem"); name != problem.name)
    reader.refuse(fmt::format("the plan is for '{}', not for '{}'", name, problem.name));
  reader.expect_end();
  while (reader.next_line()) {
    if (reader.take("transfer")) {
      plan.transfers.push_back(parse_task(reader, buffers));
      tasks.add(plan.transfers.back().name);
    } else if (reader.take("action")) {
      plan.actions.push_back(parse_action(reader, tasks));
    } else if (reader.take("life")) {
      plan.lives.push_back(parse_life(reader, buffers));
    } else {
      parse_fact(reader, tasks, buffers, plan);
    }
    reader.expect_end();
  }
  return plan;
}

}  // namespace plimsoll::plan

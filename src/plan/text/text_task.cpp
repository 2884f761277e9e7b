#include "plan/text/text_task.h"

#include <iterator>

namespace plimsoll::plan {
namespace {

void print_work(std::string& text, const Work& work, const Names& buffers) {
  const auto list = [&](const char* keyword, const std::vector<BufferId>& ids) {
    if (ids.empty()) return;
    text += keyword;
    for (const BufferId id : ids) text += ' ' + buffers.word(id);
  };
  auto out = std::back_inserter(text);
  list(" reads", work.reads);
  list(" writes", work.writes);
  list(" updates", work.updates);
  if (work.workspace_fixed_bytes != 0 || work.workspace_per_sample_bytes != 0)
    fmt::format_to(out, " workspace {} {}", work.workspace_fixed_bytes, work.workspace_per_sample_bytes);
  if (work.fixed_ns != 0 || work.per_sample_ns != 0)
    fmt::format_to(out, " cost {} {}", work.fixed_ns, work.per_sample_ns);
  for (const InPlace& pair : work.may_share) fmt::format_to(out, " share {} {}", pair.read, pair.write);
}

void parse_list(WordReader& reader, const Names& buffers, std::vector<BufferId>& ids) {
  while (!reader.at_end() && !reader.next_is_keyword()) {
    const std::string& word = reader.word("a buffer");
    ids.push_back(buffers.find(word));
    if (ids.back() < 0) reader.refuse(fmt::format("buffer '{}' is unknown or not unique", word));
  }
}

// Takes one clause of a work; false when the next word starts none.
bool parse_clause(WordReader& reader, const Names& buffers, Work& work) {
  if (reader.take("reads")) {
    parse_list(reader, buffers, work.reads);
  } else if (reader.take("writes")) {
    parse_list(reader, buffers, work.writes);
  } else if (reader.take("updates")) {
    parse_list(reader, buffers, work.updates);
  } else if (reader.take("workspace")) {
    work.workspace_fixed_bytes = reader.integer("the fixed workspace");
    work.workspace_per_sample_bytes = reader.integer("the workspace for each sample");
  } else if (reader.take("cost")) {
    work.fixed_ns = reader.number("the fixed cost");
    work.per_sample_ns = reader.number("the cost for each sample");
  } else if (reader.take("share")) {
    const int32_t read = reader.small_integer("the index of the read");
    work.may_share.push_back({read, reader.small_integer("the index of the write")});
  } else {
    return false;
  }
  return true;
}

}  // namespace

void print_task(std::string& text, std::string_view keyword, const Task& task, const Names& buffers) {
  text += fmt::format("{} {}", keyword, quote(task.name));
  print_work(text, task, buffers);
  if (task.lane != Lane::Compute) text += fmt::format(" lane {}", name_of(task.lane));
  if (task.peer >= 0) text += fmt::format(" peer {}", task.peer);
  if (task.batch_rule != BatchRule::Mixes) text += fmt::format(" batch {}", name_of(task.batch_rule));
  text += task.recomputable ? " recomputable\n" : "\n";
  for (const Variant& variant : task.variants) {
    text += "  variant " + quote(variant.name);
    print_work(text, variant, buffers);
    text += '\n';
  }
}

Task parse_task(WordReader& reader, const Names& buffers) {
  Task task;
  task.name = reader.word("the name of the task");
  while (!reader.at_end()) {
    if (parse_clause(reader, buffers, task)) continue;
    if (reader.take("batch")) {
      task.batch_rule = parse_enum<BatchRule>(reader, "batch rule", 3);
    } else if (reader.take("lane")) {
      task.lane = parse_enum<Lane>(reader, "lane", static_cast<int>(kLaneCount));
    } else if (reader.take("peer")) {
      task.peer = reader.small_integer("the rank");
    } else if (reader.take("recomputable")) {
      task.recomputable = true;
    } else {
      reader.expect_end();
    }
  }
  return task;
}

Variant parse_variant(WordReader& reader, const Names& buffers) {
  Variant variant;
  variant.name = reader.word("the name of the variant");
  while (!reader.at_end())
    if (!parse_clause(reader, buffers, variant)) reader.expect_end();
  return variant;
}

}  // namespace plimsoll::plan

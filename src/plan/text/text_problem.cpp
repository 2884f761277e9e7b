#include <array>
#include <iterator>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "plan/text/names.h"
#include "plan/text/text.h"

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
  if (work.scratch_fixed_bytes != 0 || work.scratch_per_sample_bytes != 0)
    fmt::format_to(out, " scratch {} {}", work.scratch_fixed_bytes, work.scratch_per_sample_bytes);
  if (work.fixed_ns != 0 || work.per_sample_ns != 0)
    fmt::format_to(out, " cost {} {}", work.fixed_ns, work.per_sample_ns);
  for (const InPlace& pair : work.may_share) fmt::format_to(out, " share {} {}", pair.read, pair.write);
}

template <typename Enum>
Enum parse_enum(WordReader& reader, std::string_view expected, int count) {
  const std::string& word = reader.word(expected);
  for (int i = 0; i < count; ++i)
    if (name_of(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  reader.refuse(fmt::format("'{}' is no {}", word, expected));
}

Buffer parse_buffer(WordReader& reader) {
  Buffer buffer;
  buffer.name = reader.word("the name of the buffer");
  buffer.kind = parse_enum<BufferKind>(reader, "kind of buffer", 4);
  buffer.tag = parse_enum<Tag>(reader, "memory tag", static_cast<int>(kTagCount));
  reader.expect("fixed");
  buffer.fixed_bytes = reader.integer("the fixed size");
  reader.expect("per_sample");
  buffer.per_sample_bytes = reader.integer("the size for each sample");
  buffer.is_collected = reader.take("collected");
  reader.expect_end();
  return buffer;
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
  } else if (reader.take("scratch")) {
    work.scratch_fixed_bytes = reader.integer("the fixed scratch");
    work.scratch_per_sample_bytes = reader.integer("the scratch for each sample");
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

std::string to_text(const Problem& problem) {
  const Names buffers = names_of(problem.buffers);
  std::string text = "problem " + quote(problem.name);
  if (problem.part_samples > 0) text += fmt::format(" part {}", problem.part_samples);
  text += '\n';
  for (const Buffer& buffer : problem.buffers)
    text += fmt::format("buffer {} {} {} fixed {} per_sample {}{}\n", quote(buffer.name), name_of(buffer.kind),
                        name_of(buffer.tag), buffer.fixed_bytes, buffer.per_sample_bytes,
                        buffer.is_collected ? " collected" : "");
  for (const Task& task : problem.tasks) {
    text += "task " + quote(task.name);
    print_work(text, task, buffers);
    if (task.batch_rule != BatchRule::Mixes) text += fmt::format(" batch {}", name_of(task.batch_rule));
    text += task.recomputable ? " recomputable\n" : "\n";
    for (const Variant& variant : task.variants) {
      text += "  variant " + quote(variant.name);
      print_work(text, variant, buffers);
      text += '\n';
    }
  }
  return text;
}

Problem parse_problem(std::string_view text, int64_t lines_before) {
  WordReader reader(text, lines_before);
  Problem problem;
  Names buffers;
  if (!reader.next_line()) reader.refuse("there is no problem");
  reader.expect("problem");
  problem.name = reader.word("the name of the problem");
  if (reader.take("part")) problem.part_samples = reader.integer("the samples of a part");
  reader.expect_end();
  while (reader.next_line()) {
    if (reader.take("buffer")) {
      problem.buffers.push_back(parse_buffer(reader));
      buffers.add(problem.buffers.back().name);
    } else if (reader.take("task")) {
      Task task;
      task.name = reader.word("the name of the task");
      while (!reader.at_end()) {
        if (parse_clause(reader, buffers, task)) continue;
        if (reader.take("batch")) {
          task.batch_rule = parse_enum<BatchRule>(reader, "batch rule", 3);
        } else if (reader.take("recomputable")) {
          task.recomputable = true;
        } else {
          reader.expect_end();
        }
      }
      problem.tasks.push_back(std::move(task));
    } else if (reader.take("variant")) {
      if (problem.tasks.empty()) reader.refuse("a variant comes before any task");
      Variant variant;
      variant.name = reader.word("the name of the variant");
      while (!reader.at_end())
        if (!parse_clause(reader, buffers, variant)) reader.expect_end();
      problem.tasks.back().variants.push_back(std::move(variant));
    } else {
      reader.expect_end();
    }
  }
  require_valid(problem);
  return problem;
}

}  // namespace plimsoll::plan

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "plan/text/names.h"
#include "plan/text/text.h"
#include "plan/text/text_task.h"

namespace plimsoll::plan {
namespace {

Buffer parse_buffer(WordReader& reader, const std::vector<std::string>& spaces) {
  Buffer buffer;
  buffer.name = reader.word("the name of the buffer");
  buffer.kind = parse_enum<BufferKind>(reader, "kind of buffer", 4);
  buffer.tag = parse_enum<Tag>(reader, "memory tag", static_cast<int>(kTagCount));
  reader.expect("fixed");
  buffer.fixed_bytes = reader.integer("the fixed size");
  reader.expect("per_sample");
  buffer.per_sample_bytes = reader.integer("the size for each sample");
  buffer.is_collected = reader.take("collected");
  buffer.is_given = reader.take("given");
  if (reader.take("in")) {
    const std::string& space = reader.word("the space");
    const auto at = std::find(spaces.begin(), spaces.end(), space);
    if (at == spaces.end()) reader.refuse(fmt::format("space '{}' is unknown", space));
    buffer.space = static_cast<SpaceId>(at - spaces.begin());
  }
  reader.expect_end();
  return buffer;
}

}  // namespace

std::string to_text(const Problem& problem) {
  const Names buffers = names_of(problem.buffers);
  std::string text = "problem " + quote(problem.name);
  if (problem.micro_batch > 0) text += fmt::format(" micro_batch {}", problem.micro_batch);
  text += '\n';
  for (size_t i = 1; i < problem.spaces.size(); ++i) text += "space " + quote(problem.spaces[i]) + '\n';
  for (const Buffer& buffer : problem.buffers)
    text += fmt::format("buffer {} {} {} fixed {} per_sample {}{}{}{}\n", quote(buffer.name), name_of(buffer.kind),
                        name_of(buffer.tag), buffer.fixed_bytes, buffer.per_sample_bytes,
                        buffer.is_collected ? " collected" : "", buffer.is_given ? " given" : "",
                        buffer.space == kHost ? "" : " in " + quote(problem.spaces[buffer.space]));
  for (const Task& task : problem.tasks) print_task(text, "task", task, buffers);
  return text;
}

Problem parse_problem(std::string_view text, int64_t lines_before) {
  WordReader reader(text, lines_before);
  Problem problem;
  Names buffers;
  if (!reader.next_line()) reader.refuse("there is no problem");
  reader.expect("problem");
  problem.name = reader.word("the name of the problem");
  if (reader.take("micro_batch")) problem.micro_batch = reader.integer("the samples of a micro-batch");
  reader.expect_end();
  while (reader.next_line()) {
    if (reader.take("space")) {
      problem.spaces.push_back(reader.word("the name of the space"));
    } else if (reader.take("buffer")) {
      problem.buffers.push_back(parse_buffer(reader, problem.spaces));
      buffers.add(problem.buffers.back().name);
    } else if (reader.take("task")) {
      problem.tasks.push_back(parse_task(reader, buffers));
    } else if (reader.take("variant")) {
      if (problem.tasks.empty()) reader.refuse("a variant comes before any task");
      problem.tasks.back().variants.push_back(parse_variant(reader, buffers));
    } else {
      reader.expect_end();
    }
  }
  require_valid(problem);
  return problem;
}

}  // namespace plimsoll::plan

// The text form of one task, which problems and plans share.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "plan/problem.h"
#include "plan/text/names.h"

namespace plimsoll::plan {

void print_task(std::string& text, std::string_view keyword, const Task& task, const Names& buffers);
Task parse_task(WordReader& reader, const Names& buffers);  // behind its keyword, to the end of the line
Variant parse_variant(WordReader& reader, const Names& buffers);

template <typename Enum>
Enum parse_enum(WordReader& reader, std::string_view expected, int count) {
  const std::string& word = reader.word(expected);
  for (int i = 0; i < count; ++i)
    if (name_of(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  reader.refuse(fmt::format("'{}' is no {}", word, expected));
}

}  // namespace plimsoll::plan

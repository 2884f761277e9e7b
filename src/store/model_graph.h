// The graph of a stored model: its passes as text, and the rules that a text from a file must keep.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "model/rewrite.h"

namespace plimsoll::store {

// An objective within a pass: it begins where the model ends.
struct StoredObjective {
  model::GraphPlace begin;
  std::vector<std::pair<std::string, std::string>> outputs;  // the loss and sums, and the values that they are
};

// A pass as it is stored in a file: names, and the values of the graph that they stand for.
struct StoredPass {
  Bytes text_bytes = 0;
  std::vector<std::pair<std::string, std::string>> inputs, targets, outputs;
  std::optional<StoredObjective> objective = {};
};

// The most that the text of all passes may have: what is read from a file is held in memory.
constexpr Bytes kLargestGraphText = 64 * MiB;

StoredPass describe_pass(const model::TracedPass& pass, const std::optional<model::TracedPass>& objective);

// The inverse: parses and checks. Operators are those that models are made of and that are safe with whatever passes
// their rules; variables are weights and statistics within the scope; statistics alone are updated. Throws
// Error(BadData).
struct ParsedPass {
  model::TracedPass forward;
  std::optional<model::TracedPass> objective;
};
ParsedPass parse_pass(std::string_view text, const StoredPass& stored, const std::string& scope);

}  // namespace plimsoll::store

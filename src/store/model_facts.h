// The facts of a stored model as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/model.h>
#include "memory/checked_file.h"
#include "store/model_graph.h"

namespace plimsoll::store {

struct StoredMetric {
  std::string name;
  std::string kind;    // a built-in metric whose value it has; empty: its tensor is a mean over the batch
  size_t tensors = 1;  // of the objective's sums
};

struct StoredFacts {
  std::string name;
  int64_t classes = 0, batch = 1;
  int64_t steps = 0;
  Preprocessing preprocessing;
  std::vector<StoredMetric> metrics;
  StoredPass inference;
  std::optional<StoredPass> training;
  std::vector<std::pair<std::string, std::string>> notes;
  memory::CheckedFile graph, weights;
};

constexpr Bytes kLargestFacts = 4 * MiB;

// The text holds a checksum of itself. Throws Error(Usage) for names that are not UTF-8.
std::string facts_text(const StoredFacts& facts);
// Throws Error(BadData) that names the path for a text that is damaged, of another version, or no facts of a model.
StoredFacts parse_facts(const std::string& text, const std::string& path);

}  // namespace plimsoll::store

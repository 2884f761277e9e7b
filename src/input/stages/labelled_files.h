// Array files of which one holds labels.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/dataset.h>

namespace plimsoll::input {

struct LabelRule {
  std::string component = {};  // empty: there are no labels
  int64_t classes = 0;         // labels of whole numbers must be below this; 0: any
};

// As Dataset::files; a label that is NaN, or of no class, is Error(BadData) of its row.
Dataset labelled_files(const std::vector<std::pair<std::string, std::string>>& names_and_paths, const LabelRule& labels,
                       const std::string& scratch_folder);

}  // namespace plimsoll::input

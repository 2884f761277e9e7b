// Array files of which one holds labels.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <plimsoll/dataset.h>

namespace plimsoll::dataset {

// As Dataset::files; a number of the component `label` that is NaN is Error(BadData) of its row.
Dataset labelled_files(const std::vector<std::pair<std::string, std::string>>& names_and_paths,
                       const std::string& label, const std::string& scratch_folder);

}  // namespace plimsoll::dataset

// Array files of which one holds labels.
#pragma once

#include <string>

#include <plimsoll/dataset.h>

namespace plimsoll::dataset {

// As Dataset::files with the components "x" and "y"; a label that is NaN is Error(BadData) of its row.
Dataset labelled_files(const std::string& x, const std::string& y, const std::string& scratch_folder);

}  // namespace plimsoll::dataset

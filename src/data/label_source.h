// Labels of an array: one that is NaN, or outside of the classes, is refused when it is read.
#pragma once

#include <memory>

#include "data/source.h"

namespace plimsoll::data {

// Reading throws Error(BadData) that names the file and the row of a label that is NaN or, where it is a whole number,
// not in [0, classes); 0 classes: any.
std::unique_ptr<Source> check_labels(std::unique_ptr<Source> source, int64_t classes);

}  // namespace plimsoll::data

// Labels of an array: one that is no number is refused where it is read.
#pragma once

#include <memory>

#include "data/source.h"

namespace plimsoll::data {

// Reading throws Error(BadData) that names the file and the row of a label that is NaN. Integers are never, and come
// back as they are.
std::unique_ptr<Source> refuse_nan_labels(std::unique_ptr<Source> source);

}  // namespace plimsoll::data

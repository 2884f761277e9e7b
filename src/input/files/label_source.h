// Labels of an array: one that is NaN, or outside of the classes, is refused when it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "input/files/source.h"

namespace plimsoll::input {

// Labels of whole numbers must be in [0, classes); 0 classes: any.
struct LabelBound {
  int64_t classes = 0;
  bool allows(int64_t label) const { return classes == 0 || (label >= 0 && label < classes); }
  std::string refusal(int64_t label) const;  // what is wrong with one that it does not allow
};

// Reading throws Error(BadData) that names the file and the row of a label that is NaN or, where it is a whole number,
// not in [0, classes); 0 classes: any.
std::unique_ptr<Source> check_labels(std::unique_ptr<Source> source, int64_t classes);

}  // namespace plimsoll::input

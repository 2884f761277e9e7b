// One half of the data, opened. What names mean in it, classes and columns, is decided by the half that trains, or by
// the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "input/opening/data.h"
#include "input/opening/data_places.h"
#include "input/opening/detect.h"

namespace plimsoll::input {

// Unset: not known, so the half says it itself. Empty: labels are numbers, columns have no names.
struct KnownNames {
  std::string from = {};  // who says so, for messages
  std::optional<std::vector<std::string>> classes = {}, columns = {};
  std::string label = {};  // the column
};

struct OpenedHalf {
  Samples samples;
  DataKind kind = DataKind::None;
  KnownNames names = {};
};

// Throws Error(BadData) that shows both for a name that the known ones lack, or that is missing; and for what is no
// data of the model.
OpenedHalf open_half(const HalfPlace& place, const DataSpec& spec, const ModelSpec& model, const KnownNames& known);

}  // namespace plimsoll::input

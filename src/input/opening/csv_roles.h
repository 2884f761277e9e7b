// Which columns of a CSV file feed a model, by their names.
#pragma once

#include <string>

#include <plimsoll/formats.h>
#include <plimsoll/model.h>
#include "input/opening/open_half.h"

namespace plimsoll::input {

struct CsvRoles {
  CsvOptions options;
  KnownNames names;  // of the inputs in their order and of the label; no classes
};

// Of a file as it was guessed. The only input of a model is made of all columns but the label, in the order of the
// known ones; the label is the one of the spec, else the known one, else one of a usual name, else the last one. Where
// labels are not needed, a file without them is fine. Throws Error(BadData) that shows both for other columns than the
// known ones, Error(Usage) for a label of the spec that is not there.
CsvRoles choose_columns(CsvOptions guessed, const std::string& path, const DataSpec& spec, const ModelSpec& model,
                        const KnownNames& known);

}  // namespace plimsoll::input

// Which of the named parts of data feed the inputs of a model, and which its targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/formats.h>
#include <plimsoll/model.h>

namespace plimsoll::input {

// Components of a sample as they are called on their way to a step: x and y, or where a model has several inputs or
// targets, their names.
std::vector<std::string> component_names(const ModelSpec& model);
// Their types: of the inputs, then of the targets.
std::vector<TensorType> component_types(const ModelSpec& model);

bool is_image(const TensorType& input);     // [B, channels, height, width] of reals
bool is_label_name(std::string_view name);  // "label", "y" ...

// Names of parts: of each input, then of each target.
using Roles = std::vector<std::string>;

// Several inputs or targets are found by their names; the only input by a usual name or because nothing else is there,
// the only target by `label`, or by a usual name. Throws Error(BadData) that says what there is.
Roles choose_roles(const std::vector<std::string>& names, const ModelSpec& model, const std::string& label,
                   const std::string& path);

// The columns "left_0", "left_1" ... of a CSV file as the field "left", for each input; the label stays a field of its
// own. For a model of several inputs. Throws Error(BadData) for an input without columns.
std::vector<CsvColumn> columns_of_inputs(const std::vector<CsvColumn>& columns, const ModelSpec& model,
                                         const std::string& path);

}  // namespace plimsoll::input

// What --map says against the data that it is said of.
#pragma once

#include "cli/arguments.h"

namespace plimsoll::cli {

// Throws Error(Usage) for a change of images that says nothing about the columns of a table.
void expect_maps_fit(const Arguments& arguments, const ModelSpec& model, const input::Data& data);

}  // namespace plimsoll::cli

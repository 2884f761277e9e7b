// Sizes of a built-in model that nobody gave follow from the data that it is used with.
#pragma once

#include <string>

#include <plimsoll/model.h>
#include "input/opening/data.h"

namespace plimsoll::input {

struct FollowedOptions {
  ModelOptions options;  // those that were given, and those that follow
  std::string text;      // for people: "6 classes, image size 32"; empty: nothing follows
};

// Whether the built-in model takes these options.
bool has_options(const std::string& model, const ModelOptions& options);

// For a classifier with one input of images: its channels and its image size are those of arrays and tables, and its
// classes are as many as the labels have. Reads headers, names and labels, no inputs; of TFRecord files no labels. A
// table is an image of 1 x 1 with a channel for each column, for a model that flattens its input. What the model does
// not allow stays as it is, for open_data to refuse.
FollowedOptions follow_data(const std::string& model, const ModelOptions& given, const DataSpec& spec);

}  // namespace plimsoll::input

// What the data of a training called its numbers, classes and columns, kept beside the weights.
#pragma once

#include <string>

#include "train/spec.h"

namespace plimsoll::train {

// What is known about the data that the model was trained on, with what the data of the spec says.
Preprocessing preprocessing_of(const Spec& spec, const ModelSpec& model);

// For WeightsReader::data_names: the names, and the sizes of a model of one input of images.
std::string data_names_text(const ModelSpec& model);
// Sets the names that a weights file has, and those of the options that are not set and that the built-in model has.
// Throws Error(BadData) for what is damaged or no weights file.
void read_data_names(const std::string& weights, Preprocessing& preprocessing);
void read_model_options(const std::string& weights, const std::string& model, ModelOptions& options);

}  // namespace plimsoll::train

// Adapters as a rewrite of a model.
#pragma once

#include <string_view>

#include <plimsoll/model.h>
#include <plimsoll/shrink.h>

namespace plimsoll::shrink {

constexpr std::string_view kLoraA = "lora_A", kLoraB = "lora_B";
bool is_adapter(std::string_view variable);  // by its name

// The model with adapters. Throws Error(Usage) for options that make no sense; those that depend on the layers of the
// model are refused when it is called.
Model adapt(const Model& model, const AdaptOptions& options);
ModelSpec adapt(const ModelSpec& spec, const AdaptOptions& options);

}  // namespace plimsoll::shrink

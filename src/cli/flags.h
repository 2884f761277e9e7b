// Groups of flags that several verbs share.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

void add_output(CLI::App& app, Arguments& s);
void add_memory(CLI::App& app, Arguments& s);
void add_scratch(CLI::App& app, Arguments& s, const char* what);
// Flags of every plan, of training, of evaluation and of prediction.
void add_line(CLI::App& app, Arguments& s);
// The same and those that only training has.
void add_training_line(CLI::App& app, Arguments& s);
void add_batch(CLI::App& app, Arguments& s);
void add_auto_batch(CLI::App& app, Arguments& s);
void add_optimiser(CLI::App& app, Arguments& s);
void add_model(CLI::App& app, Arguments& s, const char* also = "");
// Flags of a training step besides the model.
void add_training(CLI::App& app, Arguments& s, bool lists_rate);
void add_config(CLI::App& app, Arguments& s);
// Flags of a training step that is planned but not trained with.
void add_planned_step(CLI::App& app, Arguments& s);
void add_data(CLI::App& app, Arguments& s, bool trains);
// Flags of a run of many steps; `save_model` is how the flag for the directory of the model is spelled.
void add_run(CLI::App& app, Arguments& s, const char* save_model);
void add_weights(CLI::App& app, Arguments& s);

}  // namespace plimsoll::cli

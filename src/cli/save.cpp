// plimsoll save: a model directory made of a built-in model, or a run, and its weights.
#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "report/contents.h"
#include "report/run_report.h"
#include "train/checkpoint_store.h"
#include "train/model_file.h"

namespace plimsoll::cli {
namespace {

// The best weights of a run where it kept them (--early-stopping), else those of its newest checkpoint.
std::string weights_of_run(const std::string& run) {
  if (!report::is_run_directory(run))
    throw Error(fmt::format("'{}' is no folder of a run (train --run)", run), ErrorKind::BadData);
  std::string best = run + "/best.safetensors";
  std::error_code ignored;
  if (std::filesystem::exists(best, ignored)) return best;
  return train::find_newest_weights(fmt::format("{}/{}", run, report::kCheckpoints));
}

}  // namespace

int run_save(const Arguments& arguments) {
  if (!arguments.run.empty() && !arguments.weights.empty())
    throw Error("--run has weights of its own: leave --weights away", ErrorKind::Usage);
  const std::string run_weights = arguments.run.empty() ? "" : weights_of_run(arguments.run);
  const train::Spec spec = spec_with_data(arguments, train::Purpose::Evaluate);
  const std::string weights = run_weights.empty() ? weights_to_load(arguments, spec) : run_weights;
  ModelSpec model = model_of(spec);
  model.preprocessing = preprocessing_of(spec, model);
  const auto& stored = spec.stored_model;
  const model::TracedModel traced = stored ? *stored->traced : model::trace(model);
  stop_if_asked();
  train::save_model(arguments.output, model, traced, train::weights_of_file(weights, traced),
                    stored ? stored->notes : train::ModelNotes());
  const train::StoredModel saved = train::read_model(arguments.output);
  if (arguments.json)
    fmt::print("{}\n", report::saved_json(arguments.output, model.name(), saved.weights_bytes + saved.other_bytes));
  else
    fmt::print("saved   {} to {}: {}\n", model.name(), arguments.output,
               format_exact_bytes(saved.weights_bytes + saved.other_bytes));
  return 0;
}

}  // namespace plimsoll::cli

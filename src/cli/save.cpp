// plimsoll save: a model directory made of a built-in model, or a run, and its weights.
#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "report/contents.h"
#include "report/run_report.h"
#include "store/model_file.h"
#include "train/checkpoint_store.h"
#include "train/data_names.h"

namespace plimsoll::cli {
namespace {

// The weights of the best epoch of a run, or those of its newest checkpoint; without a word the best where one ended.
std::string weights_of_run(const std::string& run, const std::string& which) {
  if (!report::is_run_directory(run))
    throw Error(fmt::format("'{}' is no folder of a run (train --run)", run), ErrorKind::BadData);
  std::string best = fmt::format("{}/{}", run, report::kBestWeights);
  std::error_code ignored;
  const bool has_best = std::filesystem::exists(best, ignored);
  if (which == "best" && !has_best)
    throw Error(fmt::format("run '{}' keeps no best weights: no epoch of it has ended with a number to compare; give "
                            "--which last",
                            run),
                ErrorKind::BadData);
  if (which != "last" && has_best) return best;
  return train::find_newest_weights(fmt::format("{}/{}", run, report::kCheckpoints));
}

}  // namespace

int run_save(const Arguments& arguments) {
  const std::string run_weights = arguments.run.empty() ? "" : weights_of_run(arguments.run, arguments.which);
  Arguments with_weights = arguments;
  if (!run_weights.empty()) with_weights.weights = run_weights;
  const train::Spec spec = spec_with_data(with_weights, train::Purpose::Evaluate);
  const std::string weights = weights_to_load(with_weights, spec);
  ModelSpec model = model_of(spec);
  train::read_data_names(weights, model.preprocessing);
  model.preprocessing = train::preprocessing_of(spec, model);
  const auto& stored = spec.stored_model;
  const model::TracedModel traced = stored ? *stored->traced : model::trace(model);
  stop_if_asked();
  store::save_model(arguments.output, model, traced, store::weights_of_file(weights, traced),
                    stored ? stored->notes : store::ModelNotes());
  const store::StoredModel saved = store::read_model(arguments.output);
  if (arguments.json)
    fmt::print("{}\n", report::saved_json(arguments.output, model.name(), saved.weights_bytes + saved.other_bytes));
  else
    fmt::print("saved   {} to {}: {}\n", model.name(), arguments.output,
               format_exact_bytes(saved.weights_bytes + saved.other_bytes));
  return 0;
}

}  // namespace plimsoll::cli

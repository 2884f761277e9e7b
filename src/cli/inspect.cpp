// plimsoll inspect: what a built-in model, a weights file, a dumped plan or data holds.
#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "forecast/contents.h"
#include "input/files/npz.h"
#include "input/opening/data_report.h"
#include "input/opening/detect.h"
#include "input/opening/summary.h"
#include "memory/file.h"
#include "plan/check/check.h"
#include "report/plan_file.h"
#include "report/run_report.h"
#include "store/model_file.h"
#include "weights/weights_reader.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kShown = 20;

void print_rest(int64_t count, const char* what) {
  fmt::print("  ... and {} more {} (--all shows them)\n", count, what);
}

report::TensorRow row_of(const weights::StoredTensor& tensor) {
  return {tensor.name, std::string(name_of(tensor.dtype)) + to_string(tensor.dims), tensor.bytes};
}

int inspect_weights(const Arguments& arguments) {
  const weights::WeightsReader file(arguments.model);
  int64_t shown = 0;
  if (arguments.json) {
    fmt::print("{}", report::weights_json_begin(arguments.model, file.data_bytes()));
    file.for_each([&](const weights::StoredTensor& tensor) {
      fmt::print("{}", report::weights_json_row(row_of(tensor), shown++ == 0));
    });
    fmt::print("{}", report::weights_json_end());
    return 0;
  }
  fmt::print("{}: {} tensors, {}\n", arguments.model, file.tensors(), format_exact_bytes(file.data_bytes()));
  const int64_t wanted = arguments.all ? file.tensors() : kShown;
  file.for_each([&](const weights::StoredTensor& tensor) {
    if (shown++ < wanted) fmt::print("{}", report::tensor_text(row_of(tensor)));
  });
  if (shown > wanted) print_rest(shown - wanted, "tensors");
  return 0;
}

int inspect_model(const Arguments& arguments) {
  const train::Spec spec = spec_of(arguments, train::Purpose::Train);
  if (arguments.graph) {
    fmt::print("{}", forecast::model_graph_text(spec));
    return 0;
  }
  const report::ModelFacts facts = forecast::inspect_model(spec);
  if (arguments.json) {
    fmt::print("{}\n", report::model_json(facts, kIndent));
    return 0;
  }
  fmt::print("{}", report::model_text(facts));
  const auto count = static_cast<int64_t>(facts.variables.size());
  const int64_t shown = arguments.all ? count : std::min(count, kShown);
  for (int64_t i = 0; i < shown; ++i) fmt::print("{}", report::tensor_text(facts.variables[static_cast<size_t>(i)]));
  if (shown < count) print_rest(count - shown, "variables");
  return 0;
}

int inspect_stored(const Arguments& arguments) {
  if (arguments.graph) {
    fmt::print("{}", forecast::model_graph_text(spec_of(arguments, train::Purpose::Train)));
    return 0;
  }
  const report::StoredModelFacts facts = forecast::inspect_stored(store::read_model(arguments.model));
  const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : kShown;
  fmt::print("{}", arguments.json ? report::stored_model_json(facts, kIndent) + "\n"
                                  : report::stored_model_text(facts, most, "--all"));
  return 0;
}

int inspect_plan(const Arguments& arguments) {
  const report::PlanFile file = report::read_plan(arguments.model);
  const std::string fault = check(file.problem, file.plan, file.limits);
  const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : 10;
  fmt::print("{}", arguments.json ? report::plan_file_json(file, fault, arguments.model, kIndent) + "\n"
                                  : report::plan_file_text(file, fault, {most, "--all"}));
  return fault.empty() ? 0 : 1;
}

void inspect_data(const std::string& path, bool as_json) {
  const input::DataFacts facts = input::detect(path);
  const bool has_elements = facts.kind != input::DataKind::Arrays;
  input::TableSummary summary;
  if (has_elements) summary = input::summarise(*input::open_table(path));
  if (as_json)
    fmt::print("{}\n", input::data_json(facts, summary, kIndent));
  else
    fmt::print("{}{}", describe(facts), has_elements ? describe(summary) : "");
}

// Halves one after the other, as training takes them; in JSON as two values.
int inspect_data(const Arguments& arguments) {
  const input::Halves halves = input::find_halves(arguments.model);
  if (halves.train.empty()) {
    inspect_data(arguments.model, arguments.json);
    return 0;
  }
  inspect_data(halves.train, arguments.json);
  if (!halves.test.empty()) inspect_data(halves.test, arguments.json);
  return 0;
}

// Flags of a training step say nothing about files.
void expect_no_step_flags(const Arguments& arguments) {
  for (const report::ConfigEntry& entry : arguments.given)
    if (entry.name != "model" && entry.name != "json" && entry.name != "all")
      throw Error(fmt::format("--{} is about models, and '{}' is none; leave it away", entry.name, arguments.model),
                  ErrorKind::Usage);
}

}  // namespace

int run_inspect(const Arguments& arguments) {
  stop_if_asked();
  const std::string& name = arguments.model;
  const std::vector<std::string> models = model_names();
  std::error_code failure;
  const bool is_file = std::filesystem::is_regular_file(name, failure);
  if (!is_file && std::find(models.begin(), models.end(), name) != models.end()) return inspect_model(arguments);
  if (!is_file && store::is_model_directory(name)) return inspect_stored(arguments);
  const bool is_word = name.find_first_of("/.") == std::string::npos;
  if (is_file || !is_word) expect_no_step_flags(arguments);
  if (report::is_run_directory(name)) return show_run(arguments, name);
  const bool is_folder = std::filesystem::is_directory(name, failure);
  if ((is_folder || input::split_npz_path(name)) &&
      (input::find_kind(name) != input::DataKind::None || !input::find_halves(name).train.empty()))
    return inspect_data(arguments);
  // A word that looks like a path, or names something that is no regular file: opening it says what is wrong.
  if (!is_file && (!is_word || std::filesystem::exists(std::filesystem::symlink_status(name, failure))))
    memory::File::open(name);
  if (!is_file) return inspect_model(arguments);
  if (report::is_plan_file(name)) return inspect_plan(arguments);
  return input::find_kind(name) != input::DataKind::None ? inspect_data(arguments) : inspect_weights(arguments);
}

}  // namespace plimsoll::cli

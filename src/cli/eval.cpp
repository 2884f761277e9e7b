// plimsoll eval: loss and accuracy of saved weights on test data.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "memory/process.h"
#include "session/weights_file.h"
#include "train/evaluate.h"

namespace plimsoll::cli {
namespace {

void print(const train::Score& score, Bytes line, bool as_json) {
  if (as_json) {
    nlohmann::json result{{"event", "eval"},
                          {"version", 1},
                          {"samples", score.samples},
                          {"loss", score.loss},
                          {"measured_peak_bytes", peak_resident_bytes()},
                          {"line_bytes", line}};
    if (!std::isnan(score.accuracy)) result["accuracy"] = score.accuracy;
    return fmt::print("{}\n", result.dump());
  }
  fmt::print("loss    {:.4f} on {} samples\n", score.loss, score.samples);
  if (!std::isnan(score.accuracy)) fmt::print("correct {:.2f} %\n", 100 * score.accuracy);
  fmt::print("peak    measured {} (VmHWM) of {}\n", format_bytes(peak_resident_bytes()), format_exact_bytes(line));
}

}  // namespace

int run_eval(const Arguments& arguments) {
  const train::DataFiles files = find_data(arguments);
  if (files.test_x.empty() || files.test_y.empty())
    throw Error("no test data: give --data FOLDER, or --test-x and --test-y", ErrorKind::Usage);
  const auto training = train::make_training(spec_of(arguments, train::Purpose::Evaluate), is_stop_asked);
  train::Inputs test(*training, files.test_x, files.test_y, {.scratch_folder = arguments.scratch});
  plan_last_batch(*training, test);
  training->session->open();
  stop_if_asked();
  session::load_weights(*training->session, training->graph, arguments.weights);
  const train::Score score = evaluate(*training, test, is_stop_asked);
  stop_if_asked();
  print(score, training->line->limit(), arguments.json);
  memory::expect_line_kept(training->line->limit());
  return 0;
}

}  // namespace plimsoll::cli

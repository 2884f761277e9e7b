// plimsoll eval: loss and accuracy of saved weights on test data.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/evaluate.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "session/weights_file.h"

namespace plimsoll::cli {

int run_eval(const Settings& settings) {
  const DataFiles files = find_data(settings);
  if (files.test_x.empty() || files.test_y.empty())
    throw Error("no test data: give --data FOLDER, or --test-x and --test-y", ErrorKind::Usage);
  const auto load = make_workload(settings, Purpose::Evaluate);
  Inputs test(*load, files.test_x, files.test_y, settings, false, false);
  plan_last_batch(*load, test);
  load->session->open();
  stop_if_asked();
  session::load_weights(*load->session, load->graph, settings.weights);
  const Score score = evaluate(*load, test);
  stop_if_asked();
  if (settings.json) {
    nlohmann::json result{{"event", "eval"},
                          {"version", 1},
                          {"samples", score.samples},
                          {"loss", score.loss},
                          {"measured_peak_bytes", peak_resident_bytes()},
                          {"line_bytes", load->line->limit()}};
    if (!std::isnan(score.accuracy)) result["accuracy"] = score.accuracy;
    fmt::print("{}\n", result.dump());
    expect_line_kept(load->line->limit());
    return 0;
  }
  fmt::print("loss    {:.4f} on {} samples\n", score.loss, score.samples);
  if (!std::isnan(score.accuracy)) fmt::print("correct {:.2f} %\n", 100 * score.accuracy);
  fmt::print("peak    measured {} (VmHWM) of {}\n", format_bytes(peak_resident_bytes()),
             format_exact_bytes(load->line->limit()));
  expect_line_kept(load->line->limit());
  return 0;
}

}  // namespace plimsoll::cli

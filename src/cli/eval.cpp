// plimsoll eval: loss and accuracy of saved weights on test data.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "memory/process.h"
#include "report/training_report.h"
#include "session/weights_file.h"
#include "train/evaluate.h"

namespace plimsoll::cli {
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
  const report::ScoreFacts facts{score.loss, score.accuracy, score.samples};
  const Bytes peak = peak_resident_bytes(), line = training->line->limit();
  fmt::print("{}", arguments.json ? report::evaluation_json(facts, peak, line) + "\n"
                                  : report::evaluation_text(facts, peak, line));
  memory::expect_line_kept(line);
  return 0;
}

}  // namespace plimsoll::cli

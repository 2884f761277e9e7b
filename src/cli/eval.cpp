// plimsoll eval: loss and accuracy of saved weights on test data.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "memory/process.h"
#include "report/training_report.h"
#include "train/evaluate.h"

namespace plimsoll::cli {

train::Spec spec_to_evaluate(const Arguments& arguments) { return spec_with_data(arguments, train::Purpose::Evaluate); }

int run_eval(const Arguments& arguments) {
  const train::Spec spec = spec_to_evaluate(arguments);
  const std::string weights = weights_to_load(arguments, spec);
  if (!spec.data.test) throw Error("no test data: give --data PATH, or --test-x and --test-y", ErrorKind::Usage);
  const auto training = train::make_training(spec, is_stop_asked);
  train::Inputs test(*training, *spec.data.test);
  training->session->open();
  stop_if_asked();
  load_trained(*training, weights, arguments);
  const train::Score score = evaluate(*training, test, {.is_stop_asked = is_stop_asked});
  stop_if_asked();
  memory::drop_code_near(training->line->limit());  // closing runs other code than the steps did
  const report::ScoreFacts facts{
      score.value("loss"), score.value("accuracy"), score.samples, {test.skipped(), test.last_skipped()}};
  const report::InputFacts data = train::data_facts(*training);
  if (!arguments.json) fmt::print("data    {}\n", report::data_text(data));
  const Bytes peak = peak_resident_bytes(), line = training->line->limit();
  fmt::print("{}", arguments.json ? report::evaluation_json(facts, data, peak, line) + "\n"
                                  : report::evaluation_text(facts, peak, line));
  memory::expect_line_kept(line);
  return 0;
}

}  // namespace plimsoll::cli

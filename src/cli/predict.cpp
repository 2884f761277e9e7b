// plimsoll predict: what a model makes of data, to a file or to standard output.
#include <memory>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "report/training_report.h"
#include "train/data_names.h"
#include "train/predict.h"
#include "train/prediction_writer.h"

namespace plimsoll::cli {
namespace {

train::Spec spec_to_predict(const Arguments& arguments) {
  train::Spec spec = spec_to_evaluate(arguments);
  if (!spec.data.test) throw Error("no data: give --data PATH", ErrorKind::Usage);
  if (spec.pipeline.most_corrupt > 0)
    throw Error("predictions are one row for each sample, so none can be passed over; leave --on-corrupt skip away",
                ErrorKind::Usage);
  return spec;
}

void write_predictions(train::Training& training, train::Inputs& inputs, train::PredictionWriter& writer) {
  stop_if_asked();
  train::predict(training, inputs, [&](const Results& outputs, int64_t /*samples*/) {
    writer.write(outputs[0]);
    stop_if_asked();
  });
  memory::drop_code_near(training.line->limit());  // closing runs other code than the steps did
  writer.finish();
}

}  // namespace

int run_predict(const Arguments& arguments) {
  const bool to_file = !arguments.output.empty();
  const train::Spec spec = spec_to_predict(arguments);
  const std::string weights = weights_to_load(arguments, spec);
  const auto training = train::make_training(spec, is_stop_asked);
  const report::PlanFacts plan = train::plan_facts(*training);
  // Where predictions go to standard output, for another program, the plan goes to standard error.
  std::FILE* const plan_goes_to = to_file || arguments.json ? stdout : stderr;
  print_now(plan_goes_to, arguments.json ? report::plan_json(plan) + "\n" : report::plan_text(plan, {3, "--all"}));
  train::Inputs inputs(*training, *spec.data.test);
  const Tensor output = training->passes.outputs.only();
  const train::PredictionFacts facts{.samples = inputs.samples(),
                                     .output = {output.dtype(), output.shape()},
                                     .classes = training->model.classes,
                                     .names = train::preprocessing_of(spec, training->model).class_names};
  const auto writer = to_file ? train::make_prediction_file(arguments.output, facts)
                              : train::make_prediction_rows([](std::string_view text) { print_now(stdout, text); },
                                                            arguments.json, facts);
  training->session->open();
  stop_if_asked();
  load_trained(*training, weights, arguments);
  write_predictions(*training, inputs, *writer);
  memory::drop_code_near(training->line->limit());
  const Bytes peak = peak_resident_bytes(), line = training->line->limit();
  print_now(plan_goes_to, arguments.json ? report::prediction_json(facts.samples, arguments.output, peak, line) + "\n"
                                         : report::prediction_text(facts.samples, arguments.output, peak, line));
  memory::expect_line_kept(line);
  return 0;
}

}  // namespace plimsoll::cli

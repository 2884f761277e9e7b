// plimsoll quantize: a model directory with weights and activations of 8 bits, made of a trained model and data.
#include <optional>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "cli/output.h"
#include "cli/verbs.h"
#include "forecast/remedies.h"
#include "input/opening/batches.h"
#include "memory/process.h"
#include "report/shrunk.h"
#include "shrink/quantise.h"
#include "train/data_names.h"
#include "train/predict.h"
#include "weights/weights_file.h"

namespace plimsoll::cli {
namespace {

train::Spec spec_to_quantise(const Arguments& arguments) {
  train::Spec spec = spec_with_data(arguments, train::Purpose::Train);
  if (spec.data.is_empty()) throw Error("no calibration data: give --data PATH", ErrorKind::Usage);
  spec.purpose = train::Purpose::Evaluate;
  spec.predicts = spec.loads_weights = true;
  // Test data stays for testing where there is other data.
  if (spec.data.train) spec.data.test = std::exchange(spec.data.train, std::nullopt);
  return spec;
}

// The observed values are outputs, which are fetched; the loss is there only because a spec needs one.
ModelSpec observing_spec(const ModelSpec& spec, const Model& observing) {
  ModelSpec made = spec;
  made.model = observing;
  made.can_train = false;
  made.metrics.clear();
  made.training_objective = {};
  made.objective = [](const NamedTensors& outputs, const NamedTensors&) {
    return Objective{reduce_sum(cast(outputs.begin()->second, DType::F32), {0})};
  };
  return made;
}

// What the first runs leave behind in the process takes this much of the line of later ones.
constexpr Bytes kLeftBehind = MiB;

// The run that needs the larger line, of those that were planned and refused.
struct Refused {
  train::Spec spec;
  DoesNotFit why;
};

void plan_run(const train::Spec& spec, std::optional<Refused>& refused) {
  train::Spec planned = spec;
  planned.log_bytes += kLeftBehind;
  try {
    train::make_training(planned, is_stop_asked);
  } catch (const DoesNotFit& e) {
    // Here, where the process holds what it holds in the run.
    const DoesNotFit why(forecast::verify_smallest_line(planned, e.refusal(), is_stop_asked));
    if (!refused || why.refusal().need > refused->why.refusal().need) refused.emplace(Refused{planned, why});
  }
}

void run_over_data(const train::Spec& spec, const std::string& weights, int64_t most_samples,
                   const shrink::EachBatch& each) {
  const auto training = train::make_training(spec, is_stop_asked);
  train::Inputs inputs(*training, *spec.data.test);
  training->session->open();
  weights::load_weights(*training->session, training->graph, weights);
  stop_if_asked();
  train::predict(
      *training, inputs,
      [&](const Results& outputs, int64_t samples) {
        each(outputs, samples);
        stop_if_asked();
      },
      most_samples);
}

report::ShrunkFacts facts_of(const QuantiseReport& report, const std::string& output, Bytes line) {
  report::ShrunkFacts facts{.output = output,
                            .samples = report.samples,
                            .file_before = report.file_bytes_before,
                            .file_after = report.file_bytes_after,
                            .memory_before = report.memory_bytes_before,
                            .memory_after = report.memory_bytes_after,
                            .peak = peak_resident_bytes(),
                            .line = line};
  for (const QuantisedLayer& layer : report.layers) facts.layers.push_back({layer.name, layer.op, layer.is_int8});
  return facts;
}

// `spec` becomes that of the model whose values are observed.
int quantize(const Arguments& arguments, train::Spec& spec) {
  const std::string weights = weights_to_load(arguments, spec);
  ModelSpec model = model_of(spec);
  train::read_data_names(weights, model.preprocessing);
  model.preprocessing = train::preprocessing_of(spec, model);
  if (spec.batch > 0) model.batch = spec.batch;
  spec.log_bytes += shrink::bytes_to_quantise(weights);
  const Bytes line = train::resolve_line(spec).bytes;
  const QuantiseOptions options{.calibration = arguments.calibration,
                                .all = arguments.all,
                                .full_range = arguments.portable ? std::optional(false) : std::nullopt};
  std::optional<Refused> refused;
  const shrink::RunModel run = [&](const Model& observing, const shrink::EachBatch& each) {
    if (each && refused) {
      spec = refused->spec;
      throw DoesNotFit(refused->why);
    }
    spec.own_model = std::make_shared<const ModelSpec>(observing_spec(model, observing));
    if (each)
      run_over_data(spec, weights, arguments.samples, each);
    else
      plan_run(spec, refused);
  };
  shrink::QuantisedModel made = shrink::quantise_model(model, weights, options, run, line);
  stop_if_asked();
  store::ModelNotes notes = spec.stored_model ? spec.stored_model->notes : store::ModelNotes();
  notes.emplace_back("int8", fmt::format("calibrated by {} on {} samples", options.calibration, made.report.samples));
  store::save_model(arguments.output, model, *made.traced, made.weights(), notes);
  made.report.file_bytes_after = store::read_model(arguments.output).weights_bytes;
  made.report.file_bytes_before = weights::WeightsReader(weights).data_bytes();
  const report::ShrunkFacts facts = facts_of(made.report, arguments.output, line);
  print_now(stdout, arguments.json ? report::shrunk_json(facts) + "\n" : report::shrunk_text(facts));
  memory::expect_line_kept(line);
  return 0;
}

}  // namespace

int run_quantize(const Arguments& arguments) {
  train::Spec spec = spec_to_quantise(arguments);
  try {
    return quantize(arguments, spec);
  } catch (const DoesNotFit& e) {
    return refuse(arguments, spec, e);
  }
}

}  // namespace plimsoll::cli

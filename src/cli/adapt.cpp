// plimsoll adapt: trains adapters beside a model; plimsoll merge: adds them into its weights.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "cli/verbs.h"
#include "memory/output_file.h"
#include "memory/process.h"
#include "shrink/adapter_file.h"
#include "shrink/merge.h"
#include "weights/weights_file.h"

namespace plimsoll::cli {

namespace {

Arguments unadapted(Arguments arguments) {
  arguments.adapter.clear();
  return arguments;
}

}  // namespace

void complete_adapt(Arguments& arguments) {
  if (arguments.rank == 0 && arguments.adapter.empty()) arguments.rank = AdaptOptions{}.rank;
}

int run_adapt(const Arguments& arguments) {
  if (arguments.output.empty() && arguments.save.empty() && arguments.run.empty())
    throw Error("adapters would be lost: say where to write them with --output DIR", ErrorKind::Usage);
  return run_train(arguments);
}

void load_trained(train::Training& training, const std::string& weights, const Arguments& arguments) {
  weights::load_weights(*training.session, training.graph, weights, {.may_miss = training.starts_fresh});
  if (!arguments.adapter.empty())
    shrink::load_adapter(*training.session, training.graph, training.model, arguments.adapter);
}

int run_merge(const Arguments& arguments) {
  MemoryLine line = MemoryLine::process(line_of(arguments).bytes);
  const train::Spec spec = spec_of(unadapted(arguments), train::Purpose::Evaluate);
  const std::string weights = weights_to_load(arguments, spec);
  const ModelSpec model = model_of(spec);
  const model::TracedModel traced = model::trace(model);
  const shrink::MergeFacts facts = shrink::merge_facts(model, arguments.adapter);
  line.expect_training();  // it traces, reads and saves a model
  line.measure_process();
  const Reservation held =
      line.reserve(Tag::Staging, facts.bytes + weights::kWeightsFileBytes + 2 * memory::OutputFile::kBufferBytes);
  const store::WeightsSource base = store::weights_of_file(weights, traced);
  store::save_model(arguments.output, model, traced, shrink::merged_weights(model, base, arguments.adapter));
  const Bytes peak = peak_resident_bytes();
  if (arguments.json)
    fmt::print(R"({{"event":"merge","merged_weights":{},"measured_peak_bytes":{},"line_bytes":{}}})"
               "\n",
               facts.weights, peak, line.limit());
  else
    fmt::print("merged  {} weights with their adapters into {}\npeak    measured {} of a line of {}\n", facts.weights,
               arguments.output, format_bytes(peak), format_bytes(line.limit()));
  memory::expect_line_kept(line.limit());
  return 0;
}

}  // namespace plimsoll::cli

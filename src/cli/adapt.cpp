// plimsoll adapt: trains adapters beside a model; plimsoll merge: adds them into its weights.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "session/weights_file.h"
#include "shrink/adapter_file.h"
#include "shrink/merge.h"

namespace plimsoll::cli {

namespace {

Arguments unadapted(Arguments arguments) {
  arguments.adapter.clear();
  return arguments;
}

}  // namespace

int run_adapt(const Arguments& arguments) {
  Arguments adapting = arguments;
  constexpr int64_t kRank = AdaptOptions{}.rank;
  if (adapting.rank == 0 && adapting.adapter.empty()) adapting.rank = kRank;
  if (adapting.output.empty() && adapting.save.empty() && adapting.run.empty())
    throw Error("adapters would be lost: say where to write them with --output DIR", ErrorKind::Usage);
  return run_train(adapting);
}

void load_trained(train::Training& training, const std::string& weights, const Arguments& arguments) {
  session::load_weights(*training.session, training.graph, weights, {.may_miss = training.starts_fresh});
  if (!arguments.adapter.empty())
    shrink::load_adapter(*training.session, training.graph, training.model, arguments.adapter);
}

int run_merge(const Arguments& arguments) {
  const Bytes line = line_of(arguments).bytes;
  const train::Spec spec = spec_of(unadapted(arguments), train::Purpose::Evaluate);
  const std::string weights = weights_to_load(arguments, spec);
  const ModelSpec model = model_of(spec);
  const model::TracedModel traced = model::trace(model);
  const int64_t merged = shrink::count_adapted(model, arguments.adapter);
  const train::WeightsSource base = train::weights_of_file(weights, traced);
  train::save_model(arguments.output, model, traced, shrink::merged_weights(model, base, arguments.adapter));
  const Bytes peak = peak_resident_bytes();
  if (arguments.json)
    fmt::print(R"({{"event":"merge","merged_weights":{},"measured_peak_bytes":{},"line_bytes":{}}})"
               "\n",
               merged, peak, line);
  else
    fmt::print("merged  {} weights with their adapters into {}\npeak    measured {} of a line of {}\n", merged,
               arguments.output, format_bytes(peak), format_bytes(line));
  memory::expect_line_kept(line);
  return 0;
}

}  // namespace plimsoll::cli

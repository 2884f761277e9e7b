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

int run_adapt(const Arguments& arguments) {
  Arguments adapting = arguments;
  constexpr int64_t kRank = AdaptOptions{}.rank;
  if (adapting.rank == 0 && adapting.adapter.empty()) adapting.rank = kRank;
  if (adapting.output.empty() && adapting.save.empty() && adapting.run.empty())
    throw Error("adapters would be lost: say where to write them with --output DIR", ErrorKind::Usage);
  return run_train(adapting);
}

void load_trained(train::Training& training, const Arguments& arguments) {
  session::load_weights(*training.session, training.graph, arguments.weights, {.may_miss = training.starts_fresh});
  if (!arguments.adapter.empty())
    shrink::load_adapter(*training.session, training.graph, unadapted_model(arguments), arguments.adapter);
}

int run_merge(const Arguments& arguments) {
  const Bytes line = line_of(arguments).bytes;
  const shrink::MergedWeights merged =
      shrink::merge_weights(unadapted_model(arguments), arguments.weights, arguments.adapter, arguments.output);
  const Bytes peak = peak_resident_bytes();
  if (arguments.json)
    fmt::print(R"({{"event":"merge","tensors":{},"merged":{},"measured_peak_bytes":{},"line_bytes":{}}})"
               "\n",
               merged.tensors, merged.merged, peak, line);
  else
    fmt::print("merged  {} of {} tensors have an adapter in them\npeak    measured {} of a line of {}\n", merged.merged,
               merged.tensors, format_bytes(peak), format_bytes(line));
  memory::expect_line_kept(line);
  return 0;
}

}  // namespace plimsoll::cli

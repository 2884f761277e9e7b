// plimsoll profile: where the time of a training step goes, operator by operator, and what it waits for data.
#include "forecast/profile.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "memory/output_file.h"
#include "memory/process.h"
#include "ranks/agreement.h"

namespace plimsoll::cli {

namespace {

int profile_as(const Arguments& arguments, const std::shared_ptr<ranks::Communicator>& communicator) {
  const bool writes = !communicator || communicator->rank() == 0;
  train::Spec spec;
  std::unique_ptr<train::Training> training;
  ranks::run_together(communicator.get(), [&] {
    spec = spec_to_profile(arguments);
    spec.communicator = communicator;
    training = make_training_of_rank(spec);
    return std::string("fits");
  });
  if (communicator) expect_same_training(arguments, *training);
  const report::Profile profile =
      forecast::measure_profile(*training, spec.profile_steps, static_cast<size_t>(arguments.top), is_stop_asked);
  if (!arguments.trace.empty() && writes) {
    memory::OutputFile out(arguments.trace);
    const session::PlannedStep& step = training->main_step();
    report::write_trace(profile, step.program, step.plan, [&](std::string_view text) { out.write(text); });
    out.finish();
  }
  print_now(stdout, arguments.json ? report::profile_json(profile, 2) + "\n" : report::profile_text(profile));
  memory::expect_line_kept(training->line->limit());
  if (communicator) communicator->meet();
  return 0;
}

}  // namespace

train::Spec spec_to_profile(const Arguments& arguments) { return spec_with_data(arguments, train::Purpose::Profile); }

int run_profile(const Arguments& arguments) { return run_with_ranks(arguments, profile_as); }

}  // namespace plimsoll::cli

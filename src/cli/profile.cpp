// plimsoll profile: where the time of a training step goes, operator by operator, and what it waits for data.
#include "train/profile.h"

#include <fmt/format.h>

#include "cli/verbs.h"
#include "memory/output_file.h"
#include "memory/process.h"
#include "train/batch_search.h"

namespace plimsoll::cli {

int run_profile(const Arguments& arguments) {
  const train::Spec spec = spec_with_data(arguments, train::Purpose::Profile);
  const auto training = train::make_sized_training(spec, is_stop_asked);
  const report::Profile profile =
      train::measure_profile(*training, spec.profile_steps, static_cast<size_t>(arguments.top), is_stop_asked);
  if (!arguments.trace.empty()) {
    memory::OutputFile out(arguments.trace);
    const session::PlannedStep& step = training->main_step();
    report::write_trace(profile, step.program, step.plan, [&](std::string_view text) { out.write(text); });
    out.finish();
  }
  fmt::print("{}", arguments.json ? report::profile_json(profile, 2) + "\n" : report::profile_text(profile));
  memory::expect_line_kept(training->line->limit());
  return 0;
}

}  // namespace plimsoll::cli

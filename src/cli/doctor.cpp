// plimsoll doctor: what this machine offers, and what the process itself costs before any model.
#include <fmt/format.h>

#include <plimsoll/version.h>
#include "cli/verbs.h"
#include "report/machine.h"

namespace plimsoll::cli {

int run_doctor(const Arguments& arguments) {
  stop_if_asked();
  const std::string scratch = arguments.scratch.empty() ? "/tmp" : arguments.scratch;
  const report::MachineFacts facts =
      report::gather_machine_facts(PLIMSOLL_VERSION_TEXT, line_of(arguments), scratch, arguments.measure);
  if (arguments.json) {
    fmt::print("{}\n", report::machine_json(facts, 2));
    return 0;
  }
  fmt::print("{}", report::machine_text(facts));
  if (facts.costs_too_much()) fmt::print(stderr, "warning: the process costs more than it should\n");
  return 0;
}

}  // namespace plimsoll::cli

// plimsoll report: what the folder of a run holds.
#include <limits>

#include <fmt/format.h>

#include "cli/verbs.h"
#include "report/run_report.h"

namespace plimsoll::cli {

int show_run(const Arguments& arguments, const std::string& path) {
  constexpr size_t kRows = 20;
  const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : kRows;
  const report::RunFacts facts = report::read_run(path, most);
  fmt::print("{}", arguments.json ? report::run_json(facts, 2) + "\n" : report::run_text(facts, "--all"));
  return 0;
}

int run_report(const Arguments& arguments) {
  stop_if_asked();
  return show_run(arguments, arguments.run);
}

}  // namespace plimsoll::cli

// A refusal: the smallest line that works, and other remedies.
#include <fmt/format.h>

#include "cli/output.h"
#include "cli/verbs.h"
#include "forecast/forecast.h"

namespace plimsoll::cli {
namespace {

// From the start of the program to the end of a refusal.
constexpr double kMostSeconds = 2;

std::vector<report::RemedyRow> search(const train::Spec& spec, const Refusal& refusal,
                                      std::vector<std::string>& not_tried) {
  const forecast::MayGoOn may_go_on = forecast::within_seconds(kMostSeconds - forecast::seconds_of_thread());
  const auto remedies = forecast::find_remedies(spec, refusal, may_go_on, is_stop_asked, &not_tried);
  std::vector<report::RemedyRow> rows = forecast::remedy_rows(spec, remedies);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].flags = flags_of(spec, remedies[i].spec);
  return rows;
}

}  // namespace

int refuse(const Arguments& arguments, MakeSpec make_spec, const DoesNotFit& e) {
  // No smallest line: the machine has less memory than the line, so no other line helps.
  if (make_spec != nullptr && e.refusal().smallest_line > 0) return refuse(arguments, make_spec(arguments), e);
  std::fflush(stdout);
  print_error(fmt::format("plimsoll: {}\n", e.what()));
  return e.exit_code();
}

int refuse(const Arguments& arguments, const train::Spec& spec, const DoesNotFit& e) {
  std::fflush(stdout);
  const Refusal refusal = forecast::verify_smallest_line(spec, e.refusal(), is_stop_asked);
  print_error(fmt::format("plimsoll: {} (--memory {})\n", describe(refusal), line_text(refusal.smallest_line)));
  std::vector<std::string> not_tried;
  const auto rows = arguments.no_remedies ? std::vector<report::RemedyRow>{} : search(spec, refusal, not_tried);
  print_error(report::remedies_text(rows, not_tried));
  if (arguments.json) print_now(stdout, report::refusal_json(refusal, rows, 2, not_tried) + "\n");
  stop_if_asked();
  return e.exit_code();
}

}  // namespace plimsoll::cli

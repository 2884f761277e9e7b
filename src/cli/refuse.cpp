// A refusal: the smallest line that works, and other remedies.
#include <chrono>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/verbs.h"
#include "train/forecast.h"

namespace plimsoll::cli {
namespace {

constexpr double kSearchSeconds = 8;  // no planning starts later

std::vector<report::RemedyRow> search(const train::Spec& spec, const Refusal& refusal) {
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  const auto may_go_on = [&](double share) {
    return std::chrono::duration<double>(Clock::now() - started).count() < share * kSearchSeconds;
  };
  const auto remedies = train::find_remedies(spec, refusal, may_go_on, is_stop_asked);
  std::vector<report::RemedyRow> rows = train::remedy_rows(spec, remedies);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].flags = flags_of(spec, remedies[i].spec);
  return rows;
}

}  // namespace

int refuse(const Arguments& arguments, train::Purpose purpose, const DoesNotFit& e) {
  return refuse(
      arguments, [&] { return spec_with_data(arguments, purpose); }, e);
}

int refuse(const Arguments& arguments, const std::function<train::Spec()>& make_spec, const DoesNotFit& e) {
  std::fflush(stdout);
  // No smallest line: the machine has less memory than the line, so no other line helps.
  if (e.refusal().smallest_line == 0) {
    print_error(fmt::format("plimsoll: {}\n", e.what()));
    return e.exit_code();
  }
  const train::Spec spec = make_spec();
  const Refusal refusal = train::verify_smallest_line(spec, e.refusal(), is_stop_asked);
  print_error(fmt::format("plimsoll: {} (--memory {})\n", describe(refusal), line_text(refusal.smallest_line)));
  const auto rows = arguments.no_remedies ? std::vector<report::RemedyRow>{} : search(spec, refusal);
  print_error(report::remedies_text(rows));
  if (arguments.json) print_now(stdout, report::refusal_json(refusal, rows, 2) + "\n");
  stop_if_asked();
  return e.exit_code();
}

}  // namespace plimsoll::cli

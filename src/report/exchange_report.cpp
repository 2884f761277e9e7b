#include "report/exchange_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/types.h>

namespace plimsoll::report {

std::string exchange_text(const ExchangeFacts& facts) {
  const std::string share =
      facts.step_ns > 0 ? fmt::format(" ({:.1f} % of a step)", 100 * facts.exposed_ns / facts.step_ns) : "";
  return fmt::format(
      "ranks   {} · a rank sends {} a step · exchanges take {:.2f} ms, of which not hidden {:.2f} ms{}\n", facts.ranks,
      format_bytes(static_cast<Bytes>(facts.sent_bytes)), facts.busy_ns / 1e6, facts.exposed_ns / 1e6, share);
}

nlohmann::json exchange_json(const ExchangeFacts& facts) {
  return {{"ranks", facts.ranks},
          {"steps", facts.steps},
          {"sent_bytes_a_step", facts.sent_bytes},
          {"exchange_ns_a_step", facts.busy_ns},
          {"not_hidden_ns_a_step", facts.exposed_ns},
          {"step_ns", facts.step_ns},
          {"network", {{"bytes_per_s", facts.bytes_per_s}, {"message_ns", facts.message_ns}}}};
}

}  // namespace plimsoll::report

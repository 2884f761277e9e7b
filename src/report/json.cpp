#include "report/json.h"

#include <nlohmann/json.hpp>

namespace plimsoll::report {

nlohmann::json decisions_json(const plan::Plan& plan) {
  nlohmann::json decisions = nlohmann::json::array();
  for (const plan::Decision& decision : plan.decisions)
    decisions.push_back(
        {{"what", decision.what}, {"bytes_saved", decision.bytes_saved}, {"ns_paid", decision.ns_paid}});
  return decisions;
}

}  // namespace plimsoll::report

// JSON forms that several reports share.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"
#include "report/data.h"

namespace plimsoll::report {

nlohmann::json decisions_json(const plan::Plan& plan);
nlohmann::json data_json(const InputFacts& facts);
nlohmann::json data_profile_json(const DataProfile& profile);

}  // namespace plimsoll::report

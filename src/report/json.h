// JSON forms that several reports share.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

namespace plimsoll::report {

nlohmann::json decisions_json(const plan::Plan& plan);

}  // namespace plimsoll::report

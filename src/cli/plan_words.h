// What a plan does, in words: shared by plan, train and inspect.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/settings.h"
#include "plan/plan.h"

namespace plimsoll::cli {

// "in 4 parts of 8 samples · recomputes 12 tasks (+4.1 %) · ... · bit-identical". The folder may be empty.
std::string actions_text(const plan::Problem& problem, const plan::Plan& plan, const std::string& scratch_folder,
                         const Changes& changes = {});
// "bit-identical", or why not.
std::string exactness_text(const plan::Plan& plan, const Changes& changes = {});
// The same in one word, for programs.
std::string exactness_word(const plan::Plan& plan, const Changes& changes);
// "1.24 s a step, +15.1 % against 1.08 s unconstrained"
std::string time_text(const plan::Plan& plan);
// "+15.1 %"
std::string percent_more(double now, double before);
// The largest decisions, one a line, at most so many.
std::string decisions_text(const plan::Plan& plan, size_t most);
// The task at the moment of the peak.
std::string peak_task(const plan::Problem& problem, const plan::Plan& plan);
// Bytes of each tag at the moment of the peak, with what is held beside the arena.
std::string holders_text(const plan::BytesByTag& bytes);
// "conv1 needs relu1 98 MiB, kernel 9 MiB, ... at once, beside 300 MiB of variables".
std::string needs_text(const plan::Problem& problem, plan::TaskId task, int64_t samples, size_t most);

nlohmann::json decisions_json(const plan::Plan& plan);

}  // namespace plimsoll::cli

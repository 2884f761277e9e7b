// The text forms of what goes into and comes out of the planner: they print and parse back exactly.
#pragma once

#include <string>
#include <string_view>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

// problem mlp
// buffer x input data fixed 0 per_sample 3136
// task fc1 reads x w1 writes h workspace 0 4096 cost 100 2.5 share 0 0 batch rows recomputable
//
// Buffers and tasks are called by name; by '@' and number where a name is not unique. Cost is in nanoseconds, and
// like workspace it is a fixed part and a part for each sample. Parsers throw Error naming the line; `lines_before`
// stand before the text in its file.
std::string to_text(const Problem& problem);
Problem parse_problem(std::string_view text, int64_t lines_before = 0);

std::string to_text(const Limits& limits);
Limits parse_limits(std::string_view text, int64_t lines_before = 0);

// A plan names tasks and buffers of its problem.
std::string to_text(const Plan& plan, const Problem& problem);
Plan parse_plan(std::string_view text, const Problem& problem, int64_t lines_before = 0);

}  // namespace plimsoll::plan

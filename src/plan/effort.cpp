#include "plan/effort.h"

namespace plimsoll::plan {
namespace {

constexpr Bytes kBytesToSearchTask = 3600;  // beside its option

}  // namespace

Bytes bytes_of_option(const Problem& problem) { return kBytesToPlanTask * std::ssize(problem.tasks); }

Bytes bytes_of_recompute_search(const Problem& problem) { return kBytesToSearchTask * std::ssize(problem.tasks); }

}  // namespace plimsoll::plan

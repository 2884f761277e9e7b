// plimsoll plan: how the training fits, before any data is touched or any tensor allocated.
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/auto_batch.h"
#include "cli/plan_dump.h"
#include "cli/plan_report.h"
#include "cli/verbs.h"

namespace plimsoll::cli {
int run_plan(const Settings& settings) {
  if (settings.curve) return run_curve(settings);
  const auto load = make_sized_workload(settings, Purpose::Train);
  if (!settings.dump.empty())
    dump_plan(load->session->steps().front(),
              load->changes.half.any()
                  ? fmt::format("{}, {} in 16 bits", load->spec.name(), to_string(load->changes.half))
                  : load->spec.name(),
              settings.dump);
  const SmallestLine smallest = find_smallest_line(*load);
  if (settings.json)
    fmt::print("{}\n", plan_json(*load, smallest).dump(2));
  else
    fmt::print("{}", plan_text(*load, settings.all ? std::numeric_limits<size_t>::max() : 10, smallest));
  return 0;
}

}  // namespace plimsoll::cli

// plimsoll prune: training that makes weights zero. plimsoll strip: a pruned model without the zeros.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include <plimsoll/memory_line.h>
#include "cli/output.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "shrink/strip.h"

namespace plimsoll::cli {
namespace {

nlohmann::json to_json(const StripReport& report) {
  const auto bytes = [](const ModelBytes& of) {
    return nlohmann::json{{"memory_bytes", of.memory}, {"file_bytes", of.file}};
  };
  nlohmann::json json{{"event", "strip"}, {"before", bytes(report.before)}, {"after", bytes(report.after)}};
  for (const StrippedWeight& weight : report.weights)
    json["weights"].push_back({{"name", weight.name},
                               {"elements", weight.elements},
                               {"zeros", weight.zeros},
                               {"bytes_before", weight.bytes_before},
                               {"bytes_after", weight.bytes_after}});
  return json;
}

}  // namespace

void complete_prune(Arguments& arguments) { arguments.prunes = true; }

int run_prune(const Arguments& arguments) {
  if (arguments.save_model.empty() && arguments.save.empty() && arguments.run.empty())
    throw Error("the pruned model would be lost: give --save-model DIR", ErrorKind::Usage);
  return run_train(arguments);
}

int run_strip(const Arguments& arguments) {
  MemoryLine line = MemoryLine::process(line_of(arguments).bytes);
  const Reservation held = line.reserve(Tag::Staging, shrink::kStripBytes);
  const StripReport report = shrink::strip_model(arguments.model, arguments.output);
  if (arguments.json)
    print_now(stdout, to_json(report).dump() + "\n");
  else
    print_now(stdout, to_string(report) + fmt::format("stripped to {}\n", arguments.output));
  memory::expect_line_kept(line.limit());
  return 0;
}

}  // namespace plimsoll::cli

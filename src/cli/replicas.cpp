#include "cli/replicas.h"

#include <omp.h>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "memory/default_line.h"
#include "together/join_ranks.h"
#include "together/replica_group.h"

namespace plimsoll::cli {

void expect_replicas_fit(const Arguments& arguments) {
  const auto refuse = [](const std::string& why) { throw Error(why, ErrorKind::Usage); };
  constexpr int kMost = 1024;
  if (arguments.replicas > kMost)
    refuse(fmt::format("--replicas {} are more threads than make sense: give at most {}", arguments.replicas, kMost));
  if (!arguments.ranks.empty() || !arguments.pipeline.empty() || together::is_one_of_several())
    refuse(
        "replicas are threads of one process, ranks are processes: give one of --replicas and --ranks, or --pipeline");
  if (arguments.sharding == "auto")
    refuse("replicas plan one after another, so that --shard auto can't compare their plans: say what they share");
  if (arguments.auto_batch) refuse("the batch of all replicas must be known: give --batch instead of --auto-batch");
  if (arguments.memory.find(',') != std::string::npos)
    refuse("replicas have one line together: give --memory one size");
}

MemoryLine line_of_replicas(const Arguments& arguments) {
  return MemoryLine::process(arguments.memory.empty() ? memory::default_line(memory::gather_memory_facts()).bytes
                                                      : std::max<Bytes>(1, line_of(arguments).bytes));
}

int run_with_replicas(const Arguments& given, const std::function<int(const Arguments&, const Together&)>& work) {
  expect_replicas_fit(given);
  const MemoryLine line = line_of_replicas(given);
  if (given.threads > 0) omp_set_num_threads(given.threads);
  together::ReplicaGroup group(given.replicas,
                               std::chrono::milliseconds(static_cast<int64_t>(given.rank_timeout * 1000)));
  together::ReplicaLine shared(line, given.replicas);
  int exit_code = 0;
  group.run([&](int replica) {
    Arguments arguments = given;
    arguments.threads = group.threads_of(replica);
    arguments.network = group.network();
    if (replica > 0) {
      mute_output();
      arguments.progress = "none";
    }
    const int own = work(arguments, {group.end(replica), &shared});
    if (replica == 0) exit_code = own;
  });
  return exit_code;
}

}  // namespace plimsoll::cli

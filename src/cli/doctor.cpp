// plimsoll doctor: what this machine offers, and what the process itself costs before any model.
#include <omp.h>

#include <thread>

#include <fmt/format.h>
#include <hwy/targets.h>
#include <nlohmann/json.hpp>

#include "cli/verbs.h"
#include "cli/workload.h"
#include "kernels/dnnl_kernel.h"
#include "memory/cgroup.h"
#include "memory/kept_facts.h"
#include "memory/process.h"

namespace plimsoll::cli {
namespace {

// The most that the process may take before any model.
constexpr Bytes kFixedCostGoal = 20 * MiB;

// Brings everything up that every run needs: the pool of threads, the engine, a kernel.
void warm_up() {
#pragma omp parallel
  {}
  const kernels::ConcreteType square{DType::F32, {16, 16}, {}, false};
  const dnnl::matmul::primitive_desc pd(
      {kernels::plain_desc(DType::F32, square.dims), kernels::plain_desc(DType::F32, square.dims),
       kernels::plain_desc(DType::F32, square.dims)},
      kernels::user_scratchpad(), kernels::cpu_engine());
  const dnnl::matmul primitive(pd);
}

std::string isa_name() {
  const auto version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}, vectors {}", version->major, version->minor, version->patch,
                     hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets()));
}

}  // namespace

int run_doctor(const Settings& settings) {
  stop_if_asked();
  warm_up();
  trim_allocator();
  const Bytes fixed = resident_bytes();
  const Bytes charged = MemoryLine::process(GiB).process_bytes();
  const DefaultLine line = resolve_line(settings);
  const std::string scratch = settings.scratch.empty() ? "/tmp" : settings.scratch;
  const Bytes disk = available_disk_bytes(scratch);
  const bool is_disk = !is_memory_backed(scratch);
  constexpr Bytes kProbeBytes = 64 * MiB;
  KeptDiskSpeed speed;
  if (is_disk && settings.measure) measure_and_keep_disk_speed(scratch, kProbeBytes);
  if (is_disk) speed = kept_disk_speed(scratch, kProbeBytes);
  const bool huge_pages =
      read_small_file("/sys/kernel/mm/transparent_hugepage/enabled").find("[never]") == std::string::npos;
  if (settings.json) {
    fmt::print("{}\n", nlohmann::json{{"version", 1},
                                      {"plimsoll", PLIMSOLL_VERSION},
                                      {"kernels", isa_name()},
                                      {"threads", omp_get_max_threads()},
                                      {"fixed_cost_bytes", fixed},
                                      {"charged_bytes", charged},
                                      {"default_line_bytes", line.bytes},
                                      {"default_line_reason", line.reason},
                                      {"available_bytes", available_memory_bytes()},
                                      {"scratch", scratch},
                                      {"scratch_free_bytes", disk},
                                      {"scratch_read_bytes_per_s", speed.speed.read_bytes_per_s},
                                      {"scratch_write_bytes_per_s", speed.speed.write_bytes_per_s},
                                      {"scratch_speed_is_measured", speed.is_measured},
                                      {"kept_in", kept_facts_path()},
                                      {"huge_pages", huge_pages}}
                           .dump(2));
    return 0;
  }
  fmt::print("plimsoll    {}\n", PLIMSOLL_VERSION);
  fmt::print("kernels     {}\n", isa_name());
  fmt::print("threads     {} of {}\n", omp_get_max_threads(), std::thread::hardware_concurrency());
  fmt::print("fixed cost  {} of the process before any model (code, libraries, threads); goal at most {}\n",
             format_bytes(fixed), format_bytes(kFixedCostGoal));
  fmt::print("            a line is charged {} for it: code that runs later, stacks and buffers included\n",
             format_bytes(charged));
  fmt::print("memory      {} could be taken now\n", format_bytes(available_memory_bytes()));
  fmt::print("line        {}, {}\n", format_exact_bytes(line.bytes), line.reason);
  fmt::print("huge pages  {}\n",
             huge_pages ? "yes" : "no: steps may be slower; see transparent_hugepage in your system");
  fmt::print("scratch     {} free in {}{}\n", format_bytes(disk), scratch,
             is_disk ? "" : ", which is memory and not a disk: choose another with --scratch");
  if (is_disk)
    fmt::print("            plans take it to read {}/s and write {}/s, {}\n",
               format_bytes(static_cast<Bytes>(speed.speed.read_bytes_per_s)),
               format_bytes(static_cast<Bytes>(speed.speed.write_bytes_per_s)),
               speed.is_measured
                   ? fmt::format("measured once and kept in {} (--measure measures again)", kept_facts_path())
                   : "an ordinary disk's: there is no cache folder to keep a measurement in");
  if (fixed > kFixedCostGoal) fmt::print(stderr, "warning: the process costs more than it should\n");
  return 0;
}

}  // namespace plimsoll::cli

#include "report/machine.h"

#include <omp.h>

#include <thread>

#include <fmt/format.h>
#include <hwy/targets.h>
#include <nlohmann/json.hpp>

#include <plimsoll/memory_line.h>
#include "base/thread_pool.h"
#include "kernels/dnnl_kernel.h"
#include "memory/cgroup.h"
#include "memory/process.h"
#include "memory/trial_lines.h"

namespace plimsoll::report {
namespace {

constexpr Bytes kProbeBytes = 64 * MiB;  // written to a disk to measure it

// Brings up what every run needs: the pool of threads, the engine, a kernel.
void warm_up() {
  start_pool();
  const kernels::ConcreteType square{DType::F32, {16, 16}, {}, false};
  const dnnl::matmul::primitive_desc pd(
      {kernels::plain_desc(DType::F32, square.dims), kernels::plain_desc(DType::F32, square.dims),
       kernels::plain_desc(DType::F32, square.dims)},
      kernels::user_scratchpad(), kernels::cpu_engine());
  const dnnl::matmul primitive(pd);
}

std::string kernel_names() {
  const auto version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}, vectors {}", version->major, version->minor, version->patch,
                     hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets()));
}

}  // namespace

MachineFacts gather_machine_facts(const std::string& version, const memory::DefaultLine& line,
                                  const std::string& scratch_folder, bool measures_disk) {
  MachineFacts facts;
  warm_up();
  memory::trim_allocator();
  facts.fixed_cost_bytes = resident_bytes();
  {
    const memory::TrialLines trial;
    facts.charged_bytes = MemoryLine::process(GiB).process_bytes();
  }
  facts.version = version;
  facts.kernels = kernel_names();
  facts.threads = omp_get_max_threads();
  facts.processors = static_cast<int>(std::thread::hardware_concurrency());
  facts.line = line;
  facts.scratch_folder = scratch_folder;
  facts.scratch_free_bytes = memory::available_disk_bytes(scratch_folder);
  facts.scratch_is_disk = !memory::is_memory_backed(scratch_folder);
  if (facts.scratch_is_disk && measures_disk) memory::measure_and_keep_disk_speed(scratch_folder, kProbeBytes);
  if (facts.scratch_is_disk) facts.scratch_speed = memory::kept_disk_speed(scratch_folder, kProbeBytes);
  facts.speeds_kept_in = memory::kept_facts_path();
  facts.has_huge_pages =
      memory::read_small_file("/sys/kernel/mm/transparent_hugepage/enabled").find("[never]") == std::string::npos;
  facts.available_bytes = memory::available_memory_bytes();
  return facts;
}

std::string machine_text(const MachineFacts& facts) {
  std::string text = fmt::format("plimsoll    {}\n", facts.version);
  text += fmt::format("kernels     {}\n", facts.kernels);
  text += fmt::format("threads     {} of {}\n", facts.threads, facts.processors);
  text += fmt::format("fixed cost  {} of the process before any model (code, libraries, threads); goal at most {}\n",
                      format_bytes(facts.fixed_cost_bytes), format_bytes(MachineFacts::kFixedCostGoal));
  text += fmt::format("            a line is charged {} for it: code that runs later, stacks and buffers included\n",
                      format_bytes(facts.charged_bytes));
  text += fmt::format("memory      {} could be taken now\n", format_bytes(facts.available_bytes));
  text += fmt::format("line        {}, {}\n", format_exact_bytes(facts.line.bytes), facts.line.reason);
  text +=
      fmt::format("huge pages  {}\n",
                  facts.has_huge_pages ? "yes" : "no: steps may be slower; see transparent_hugepage in your system");
  text += fmt::format("scratch     {} free in {}{}\n", format_bytes(facts.scratch_free_bytes), facts.scratch_folder,
                      facts.scratch_is_disk ? "" : ", which is memory and not a disk: choose another folder");
  if (!facts.scratch_is_disk) return text;
  const memory::DiskSpeed& speed = facts.scratch_speed.speed;
  return text + fmt::format("            plans take it to read {}/s and write {}/s, {}\n",
                            format_bytes(static_cast<Bytes>(speed.read_bytes_per_s)),
                            format_bytes(static_cast<Bytes>(speed.write_bytes_per_s)),
                            facts.scratch_speed.is_measured
                                ? fmt::format("measured once and kept in {}", facts.speeds_kept_in)
                                : "an ordinary disk's: there is no cache folder to keep a measurement in");
}

std::string machine_json(const MachineFacts& facts, int indent) {
  return nlohmann::json{{"version", 1},
                        {"plimsoll", facts.version},
                        {"kernels", facts.kernels},
                        {"threads", facts.threads},
                        {"fixed_cost_bytes", facts.fixed_cost_bytes},
                        {"charged_bytes", facts.charged_bytes},
                        {"default_line_bytes", facts.line.bytes},
                        {"default_line_reason", facts.line.reason},
                        {"available_bytes", facts.available_bytes},
                        {"scratch", facts.scratch_folder},
                        {"scratch_free_bytes", facts.scratch_free_bytes},
                        {"scratch_read_bytes_per_s", facts.scratch_speed.speed.read_bytes_per_s},
                        {"scratch_write_bytes_per_s", facts.scratch_speed.speed.write_bytes_per_s},
                        {"scratch_speed_is_measured", facts.scratch_speed.is_measured},
                        {"kept_in", facts.speeds_kept_in},
                        {"huge_pages", facts.has_huge_pages}}
      .dump(indent);
}

}  // namespace plimsoll::report

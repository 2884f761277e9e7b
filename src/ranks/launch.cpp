#include "ranks/launch.h"

#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace plimsoll::ranks {
namespace {

std::optional<int> number_of(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, status] = std::from_chars(text, end, number);
  return status == std::errc() && stop == end && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<Launch> find_launch(const Environment& environment) {
  struct Names {
    const char *rank, *size, *local_size;
  };
  // Slurm's variables are also set for the single process of a batch script; only srun sets those of PMI or PMIx.
  const bool is_srun = environment("PMIX_RANK") != nullptr || environment("PMI_RANK") != nullptr;
  for (const Names& names : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                             Names{"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
                             Names{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"}}) {
    const auto rank = number_of(environment, names.rank), size = number_of(environment, names.size);
    const bool is_slurm = std::strcmp(names.rank, "SLURM_PROCID") == 0;
    if (!rank || !size || *size < 1 || *rank >= *size || (is_slurm && !is_srun)) continue;
    return Launch{*rank, *size, std::max(1, number_of(environment, names.local_size).value_or(1))};
  }
  return std::nullopt;
}

int slurm_tasks(const Environment& environment) {
  return environment("SLURM_JOB_ID") == nullptr ? 0 : number_of(environment, "SLURM_NTASKS").value_or(0);
}

std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& words) {
  std::vector<std::string> command{"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"};
  // The transports that take the least memory. When a rank is lost the others are killed at once: their checkpoints are
  // undamaged at any time.
  for (const auto& [name, value] :
       {std::pair{"pml", "ob1"}, std::pair{"btl", "self,vader,tcp"}, std::pair{"osc", "pt2pt"},
        std::pair{"coll", "basic,libnbc,self"}, std::pair{"odls_base_sigkill_timeout", "0"}})
    command.insert(command.end(), {"--mca", name, value});
  command.insert(command.end(), {"-n", fmt::format("{}", ranks)});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

}  // namespace plimsoll::ranks

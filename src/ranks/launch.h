// How a process learns that it is one of several ranks, and how several are started.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::ranks {

using Environment = std::function<const char*(const char* name)>;  // std::getenv

// What mpirun or srun tells a process that it starts.
struct Launch {
  int rank = 0, size = 1;
  int local_size = 1;  // ranks of this machine, which share its cores
  bool operator==(const Launch&) const = default;
};
// Unset: the process was not started as one of several ranks.
std::optional<Launch> find_launch(const Environment& environment);

// Tasks that Slurm gave to this job, 0 outside of one.
int slurm_tasks(const Environment& environment);

// The command that starts `words` (a program and its arguments) as so many ranks: as root too, and with more ranks than
// cores. Threads of a rank are not tied to one core.
std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& words);

}  // namespace plimsoll::ranks

#include "support/hosts.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace plimsoll::testing {
namespace {

constexpr const char* kPath = "PATH=$PATH:/sbin:/usr/sbin";

bool succeeds(const std::string& command) {
  return std::system(("{ " + command + "; } > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace

Hosts::Hosts(int count, const std::string& folder) : agent_(folder + "/agent") {
  if (!succeeds(fmt::format("{} ip -V && {} tc -V && nsenter -V", kPath, kPath))) {
    why_not_ = "ip, tc or nsenter is not installed";
    return;
  }
  switch_ = hold("switch");
  for (int i = 0; i < count && switch_ > 0; ++i)
    if (const pid_t host = hold(fmt::format("host{}", i)); host > 0) hosts_.push_back(host);
  if (static_cast<int>(hosts_.size()) < count)
    why_not_ = "this process may not make network namespaces";
  else
    join();
}

Hosts::~Hosts() {
  hosts_.push_back(switch_);
  for (const pid_t one : hosts_)
    if (one > 0) {
      ::kill(one, SIGKILL);
      ::waitpid(one, nullptr, 0);
    }
}

// -1: that is not allowed.
pid_t Hosts::hold(const std::string& name) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool is_made = ::unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 && ::sethostname(name.data(), name.size()) == 0;
    const char answer = is_made ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) != 1 || !is_made) ::_exit(1);
    // The child keeps no file of the test open.
    for (int file = 0; file < 256; ++file) ::close(file);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char answer = 'n';
  const bool has_answer = child > 0 && ::read(ready[0], &answer, 1) == 1;
  ::close(ready[0]);
  if (has_answer && answer == 'y') return child;
  if (child > 0) ::waitpid(child, nullptr, 0);
  return -1;
}

bool Hosts::run_in(pid_t holder, const std::string& command) const {
  return succeeds(fmt::format("{} nsenter -t {} -n {}", kPath, holder, command));
}

void Hosts::join() {
  bool is_joined = run_in(switch_, "ip link add name br0 type bridge") && run_in(switch_, "ip link set br0 up");
  std::ofstream script(agent_);
  script << "#!/bin/sh\nhost=$1; shift\ncase $host in\n";
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const pid_t host = hosts_[i];
    is_joined = is_joined &&
                run_in(switch_, fmt::format("ip link add name port{} type veth peer name eth0 netns {}", i, host)) &&
                run_in(switch_, fmt::format("ip link set port{} master br0 up", i)) &&
                run_in(host, fmt::format("ip addr add 10.77.0.{}/24 dev eth0", i + 1)) &&
                run_in(host, "ip link set eth0 up") && run_in(host, "ip link set lo up");
    script << fmt::format("10.77.0.{}) process={} ;;\n", i + 1, host);
  }
  script << "esac\nexec nsenter -t $process -n -u sh -c \"$*\"\n";
  script.close();
  std::filesystem::permissions(agent_, std::filesystem::perms::owner_all);
  if (!is_joined) why_not_ = "this kernel makes no veth pair or no bridge";
}

std::string Hosts::mpirun() const {
  std::string hosts;
  for (size_t i = 0; i < hosts_.size(); ++i) hosts += fmt::format("{}10.77.0.{}:1", i > 0 ? "," : "", i + 1);
  return fmt::format(
      "{} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 nsenter -t {} -n -u timeout 120 mpirun --quiet "
      "--host {} -n {} --bind-to none --mca plm_rsh_agent {} --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include "
      "10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24",
      kPath, hosts_.at(0), hosts, hosts_.size(), agent_);
}

bool Hosts::limit_link(int host, const std::string& rate, int queue_bytes) {
  const std::string limit = fmt::format("root tbf rate {} burst 16kb limit {}", rate, queue_bytes);
  return run_in(switch_, fmt::format("tc qdisc add dev port{} {}", host, limit)) &&
         run_in(hosts_.at(static_cast<size_t>(host)), "tc qdisc add dev eth0 " + limit);
}

int64_t Hosts::dropped(int host) const {
  int64_t sum = 0;
  for (const auto& [holder, device] : {std::pair{switch_, fmt::format("port{}", host)},
                                       std::pair{hosts_.at(static_cast<size_t>(host)), std::string("eth0")}}) {
    std::FILE* const told =
        ::popen(fmt::format("{} nsenter -t {} -n tc -s qdisc show dev {}", kPath, holder, device).c_str(), "r");
    std::array<char, 512> line{};
    int64_t packets = 0;
    while (told != nullptr && std::fgets(line.data(), line.size(), told) != nullptr)
      if (std::sscanf(line.data(), " Sent %*d bytes %*d pkt (dropped %ld", &packets) == 1) sum += packets;
    if (told != nullptr) ::pclose(told);
  }
  return sum;
}

}  // namespace plimsoll::testing

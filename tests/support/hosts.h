// Hosts joined by a switch, each of them a network namespace that a process holds. These processes end with the test,
// also when it crashes, and the namespaces with them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace plimsoll::testing {

class Hosts {
 public:
  // `folder`: for a script that starts processes on a host. See `why_not`.
  Hosts(int count, const std::string& folder);
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  ~Hosts();

  // A sentence that says why no hosts could be made; empty when they were.
  const std::string& why_not() const { return why_not_; }
  int count() const { return static_cast<int>(hosts_.size()); }

  // Goes before a command: mpirun on the first host, with one rank on each, over TCP alone.
  std::string mpirun() const;
  // Limits the link of a host to a rate in each direction, with a queue of so many bytes; what does not fit into it is
  // dropped. False: this kernel can't.
  bool limit_link(int host, const std::string& rate, int queue_bytes);
  // Packets that the link of a host dropped so far.
  int64_t dropped(int host) const;

 private:
  pid_t hold(const std::string& name);
  bool run_in(pid_t holder, const std::string& command) const;
  void join();

  std::vector<pid_t> hosts_;
  pid_t switch_ = -1;
  std::string why_not_;
  const std::string agent_;
};

}  // namespace plimsoll::testing

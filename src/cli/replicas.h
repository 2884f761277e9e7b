// Training with several replicas in this process: threads that share each batch, under one line.
#pragma once

#include <functional>
#include <memory>

#include "cli/arguments.h"
#include "ranks/communicator.h"
#include "together/replica_line.h"

namespace plimsoll::cli {

// How a training runs together with others: as a rank, as a replica, or alone.
struct Together {
  std::shared_ptr<ranks::Communicator> communicator = {};  // null: it trains alone
  together::ReplicaLine* line = nullptr;                   // of replicas: they plan under it in turn

  // Replicas plan one after another, ranks at once.
  void plan(const std::function<void()>& work) const {
    line == nullptr ? work() : line->plan(communicator->rank(), work);
  }
  void open(const std::function<void()>& work) const { line == nullptr ? work() : line->open(work); }
};

// The line of the process that its replicas share.
MemoryLine line_of_replicas(const Arguments& arguments);
// Throws Error(Usage) for flags that replicas can't have.
void expect_replicas_fit(const Arguments& arguments);

// Does the work of a verb as each of --replicas: the first one prints. Returns its exit code.
int run_with_replicas(const Arguments& given, const std::function<int(const Arguments&, const Together&)>& work);

}  // namespace plimsoll::cli

// Training with several ranks: starting them, joining them, agreeing before the first step, and ending together.
#pragma once

#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "ranks/agreement.h"

namespace plimsoll::cli {

// Whether this process has to start the ranks that were asked for: it is none of them itself.
bool must_start_ranks(const Arguments& arguments);
// The number that --ranks asks for. Throws Error(Usage) for what is no number.
int count_ranks(const Arguments& arguments);
// Starts them, waits for their end, and starts them again where that was asked for. The exit code of all.
int start_ranks(const Arguments& arguments);

// The other ranks, when this process was started as one of several; null: it trains alone. Ranks other than the first
// print nothing from then on. Sets what a rank has of its own: its line, and its share of the cores.
std::shared_ptr<ranks::Communicator> join_ranks(Arguments& arguments);

// The line of a rank in "256MiB,512MiB": one for each rank, or one for all. Throws Error(Usage) for another number.
std::string line_of_rank(const std::string& lines, int rank, int ranks);

// Plans. Where a rank is refused, the line that it names was tried, as `refuse` does for one process.
std::unique_ptr<train::Training> make_training_of_rank(const train::Spec& spec);

// Throws AgreedError(Usage) with what differs when the ranks were given different trainings.
void expect_same_training(const Arguments& arguments, const train::Training& training);

// Does the work of a verb: alone; as one of the ranks that were started, whose failure ends all; or, when ranks are
// asked for and this process is none, by starting them. Returns the exit code.
int run_with_ranks(const Arguments& given,
                   const std::function<int(const Arguments&, const std::shared_ptr<ranks::Communicator>&)>& work);

// Ends all ranks after an error, of this one or agreed on; returns the exit code.
int end_together(ranks::Communicator& communicator, const Error& error);

}  // namespace plimsoll::cli

// What ranks agree on before they go on: that all of them can, and that they do the same.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/error.h>
#include "ranks/communicator.h"

namespace plimsoll::ranks {

// Thrown on all ranks; one prints it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Runs work that may fail on one rank and not on others, such as planning. The work returns a text that reports success
// of this rank. When it fails on any rank, all ranks throw AgreedError: with the message itself where all have the
// same, else with the texts of all ranks by number. Without other ranks, the exception of `work` passes through.
void run_together(Communicator* communicator, const std::function<std::string()>& work);

// A name for people, and a value.
using RankFacts = std::vector<std::pair<std::string, std::string>>;
// Throws AgreedError(Usage) with what differs.
void expect_same_on_ranks(Communicator& communicator, const RankFacts& facts);

}  // namespace plimsoll::ranks

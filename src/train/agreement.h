// What ranks agree on before the first step: that all of them can start, and that they train the same.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ranks/communicator.h"
#include "train/training.h"

namespace plimsoll::train {

// Thrown on all ranks; one prints it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Runs work that may fail on one rank and not on others, such as planning. The work returns a text that reports success
// of this rank. When it fails on any rank, all ranks throw AgreedError: with the message itself where all have the
// same, else with the texts of all ranks by number. Without other ranks, the exception of `work` passes through.
void run_together(ranks::Communicator* communicator, const std::function<std::string()>& work);

// A name for people, and a value.
using RankFacts = std::vector<std::pair<std::string, std::string>>;
// What must be the same on all ranks of a training, whoever started it.
RankFacts rank_facts(const Training& training);
// Throws AgreedError(Usage) with what differs.
void expect_same_on_ranks(ranks::Communicator& communicator, const RankFacts& facts);
// Exchanges must be the same on all ranks; in a pipeline each message that a rank waits for must have a sender. A rank
// that waits for a message which nobody sends would hang until the deadline. Throws AgreedError for a mismatch.
void expect_matching_exchanges(const Training& training);

}  // namespace plimsoll::train

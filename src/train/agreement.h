// What must be the same on all ranks of a training.
#pragma once

#include "ranks/agreement.h"
#include "train/training.h"

namespace plimsoll::train {

// Whoever started it.
ranks::RankFacts rank_facts(const Training& training);
// Exchanges must be the same on all ranks; in a pipeline each message that a rank waits for must have a sender. A rank
// that waits for a message which nobody sends would hang until the deadline. Throws ranks::AgreedError for a mismatch.
void expect_matching_exchanges(const Training& training);

}  // namespace plimsoll::train

// One way to set the step up (its micro-batches, what is stored) with the schedules found for it.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/bound.h"
#include "plan/pack/pack.h"
#include "plan/search/relief.h"
#include "plan/search/staged.h"
#include "plan/search/stays.h"

namespace plimsoll::plan {

// Actions are tasks of the staged problem. Packed once it is asked for.
struct Candidate {
  std::vector<TaskId> actions;
  double ns = 0;
  double ordinary_ns = 0;  // with an ordinary disk
  Bytes peak_bytes = 0;
  Stays stays{};
  std::vector<PackItem> items{};
  Packing packing{};

  // Gives back what packing made, which is several times the actions.
  void forget_packing() {
    stays = {};
    items = {};
    packing = {};
  }
};

class Option {
 public:
  // `least_ns`: what the whole step takes. Micro-batches that fit a cache better may look faster than that; they are
  // not asked for, because a sum over micro-batches rounds differently.
  Option(const Problem& problem, const Limits& limits, const Split& split, const std::vector<TaskId>& order,
         const Stored& stored, double least_ns);

  const Staged& staged() const { return staged_; }
  const Bound& bound() const { return bound_; }
  // No candidate that fits the line is faster. One that runs tasks again is not taken to be faster than one that does
  // not, however well its transfers fall.
  double least_ns(Bytes line) const { return std::max(plain_.front().ns, staged_.ns + relief_.least_ns(line)); }
  // Nothing is done twice in these; by rising time.
  std::vector<Candidate>& plain() { return plain_; }
  // The same with tasks that run again; found when first asked for.
  std::vector<Candidate>& recomputing();
  bool is_searched() const { return is_searched_; }

  // Packs as well as the line asks for. What is tried does not depend on the line otherwise: a short search always, a
  // long one only when that is not enough, and that one stops where it fits.
  bool fits(Candidate& candidate, Bytes line) const;
  void pack_for(Candidate& candidate, Bytes line) const;
  // Once more, as low as it can be, when the packing that was enough wastes more than next to nothing.
  void tighten(Candidate& candidate) const;
  Bytes arena_bytes(const Candidate& candidate) const { return staged_.sizes.variables + candidate.packing.height; }
  // What a line must have for it, as far as that is known: before it is packed, no gaps are counted.
  Bytes need_bytes(const Candidate& candidate) const {
    return plan_bytes(candidate) + (candidate.items.empty() ? candidate.peak_bytes : arena_bytes(candidate));
  }
  // What its plan takes beside the arena: each micro-batch has actions of its own.
  Bytes plan_bytes(const Candidate& candidate) const {
    return limits_.bytes_of_actions(std::ssize(candidate.actions) * std::ssize(staged_.micro_batches));
  }

 private:
  bool is_one_of_many() const { return has_transfers_ || staged_.micro_batches.size() > 1; }
  void add(std::vector<Candidate>& candidates, const std::vector<TaskId>& actions, Bytes peak_bytes) const;
  Candidate make_candidate(std::vector<TaskId> actions, Bytes peak_bytes) const;

  const Limits& limits_;
  Staged staged_;
  Bound bound_;
  Relief relief_;
  double least_ns_ = 0;  // of all candidates found from now on
  bool has_transfers_ = false;
  bool is_searched_ = false;
  std::vector<Candidate> plain_, recomputing_;
};

}  // namespace plimsoll::plan

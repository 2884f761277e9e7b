// One option: a choice of micro-batches, variants and what is stored on disk, with the candidates found for it.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/bound.h"
#include "plan/pack/pack.h"
#include "plan/search/relief.h"
#include "plan/search/staged.h"
#include "plan/search/stays.h"

namespace plimsoll::plan {

// A sequence of actions, which are tasks of the staged problem. Packed when first needed.
struct Candidate {
  std::vector<TaskId> actions;
  double ns = 0;
  double ordinary_ns = 0;  // with an ordinary disk
  Bytes peak_bytes = 0;
  Stays stays{};
  std::vector<PackItem> items{};
  Packing packing{};

  // Frees what packing made, which is several times as large as the actions.
  void forget_packing() {
    stays = {};
    items = {};
    packing = {};
  }
};

class Option {
 public:
  // `least_ns`: the time of the whole batch without a line. Predictions below it are raised to it: micro-batches may
  // look faster, as they fit caches better, but are not chosen for speed, because sums over them round differently.
  Option(const Problem& problem, const Limits& limits, const Split& split, const std::vector<TaskId>& order,
         const Stored& stored, double least_ns);

  const Staged& staged() const { return staged_; }
  const Bound& bound() const { return bound_; }
  // No candidate that fits the line is faster. Candidates that recompute count as no faster than those that do not,
  // even where their transfers overlap better.
  double least_ns(Bytes line) const { return std::max(plain_.front().ns, staged_.ns + relief_.least_ns(line)); }
  // Candidates without recomputation, the fastest first.
  std::vector<Candidate>& plain() { return plain_; }
  // Candidates with recomputation, the fastest first; searched for at the first call.
  std::vector<Candidate>& recomputing();
  bool is_searched() const { return is_searched_; }

  // Packs only as well as the line needs: a short search always, a long one when that is not enough, which stops where
  // it fits. What each search tries does not depend on the line.
  bool fits(Candidate& candidate, Bytes line) const;
  void pack_for(Candidate& candidate, Bytes line) const;
  // Repacks at full effort when fragmentation exceeds 0.5 % of the arena.
  void tighten(Candidate& candidate) const;
  Bytes arena_bytes(const Candidate& candidate) const { return staged_.sizes.variables + candidate.packing.height; }
  // The smallest line for it, as far as known: before it is packed, gaps are not counted.
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
  double least_ns_ = 0;  // no candidate is predicted to be faster
  bool has_transfers_ = false;
  bool is_searched_ = false;
  std::vector<Candidate> plain_, recomputing_;
};

}  // namespace plimsoll::plan

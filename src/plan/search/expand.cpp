#include "plan/search/expand.h"

#include <algorithm>
#include <utility>

namespace plimsoll::plan {
namespace {

// Maps actions of the candidate, in which one micro-batch stands for all, to actions of the plan.
class Unfold {
 public:
  Unfold(const Staged& staged, const Candidate& candidate)
      : staged_(staged),
        actions_(candidate.actions),
        micro_batches_(static_cast<int32_t>(staged.micro_batches.size())) {
    const auto find = [&](TaskId mark) {
      return static_cast<int32_t>(std::find(actions_.begin(), actions_.end(), mark) - actions_.begin());
    };
    if (micro_batches_ == 1) return;
    begin_ = find(staged.begin);
    end_ = find(staged.end);
    inside_ = end_ - begin_ - 1;
  }

  std::vector<Action> actions() const {
    std::vector<Action> actions;
    const auto push = [&](int32_t from, int32_t to, int32_t micro_batch) {
      for (int32_t s = from; s < to; ++s) {
        Action action = staged_.meaning[actions_[s]];
        if (staged_.has_rows[actions_[s]]) action.micro_batch = micro_batch;
        actions.push_back(action);
      }
    };
    const auto count = static_cast<int32_t>(actions_.size());
    if (micro_batches_ == 1) {
      push(0, count, 0);
      return actions;
    }
    push(0, begin_, 0);
    for (int32_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) push(begin_ + 1, end_, micro_batch);
    push(end_ + 1, count, 0);
    return actions;
  }

  // Calls push(first, last) for each stretch of the plan's actions that a stretch of the candidate's becomes.
  template <typename Push>
  void unfold(int32_t first, int32_t last, const Push& push) const {
    if (micro_batches_ == 1 || last < begin_ || first > end_) return push(place(first, 0), place(last, 0));
    if (first <= begin_)
      return push(std::min(first, begin_), last >= end_ ? place_at_end(last) : place(last, micro_batches_ - 1));
    for (int32_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
      const bool is_last = micro_batch == micro_batches_ - 1;
      const int32_t until = last < end_ ? place(last, micro_batch)
                            : is_last   ? place_at_end(last)
                                        : place(end_ - 1, micro_batch);
      push(place(first, micro_batch), until);
    }
  }

  int32_t place(int32_t action, int32_t micro_batch) const {
    if (micro_batches_ == 1 || action < begin_) return action;
    if (action <= begin_) return begin_;
    if (action < end_) return begin_ + micro_batch * inside_ + action - begin_ - 1;
    return begin_ + micro_batches_ * inside_ + std::max(action - end_ - 1, 0);
  }

 private:
  // A life that ends at the end mark ends with the last action of the last micro-batch.
  int32_t place_at_end(int32_t last) const {
    return last == end_ ? begin_ + micro_batches_ * inside_ - 1 : place(last, 0);
  }

  const Staged& staged_;
  const std::vector<TaskId>& actions_;
  const int32_t micro_batches_;
  int32_t begin_ = 0, end_ = 0, inside_ = 0;
};

std::vector<Life> make_lives(const Staged& staged, const Candidate& candidate, const Unfold& unfold) {
  std::vector<Life> lives;
  Bytes variable_offset = 0;
  const Stays& stays = candidate.stays;
  for (const Stay& stay : stays.stays) {
    const Bytes bytes = staged.sizes.buffers[stay.buffer];
    Bytes offset = variable_offset;
    if (staged.problem.buffers[stay.buffer].kind == BufferKind::Variable)
      variable_offset += bytes;
    else
      offset = staged.sizes.variables + candidate.packing.offsets[stay.slot];
    unfold.unfold(stay.first_action, stay.last_action, [&](int32_t first, int32_t last) {
      lives.push_back({staged.buffer_of[stay.buffer], first, last, offset, bytes});
    });
  }
  for (size_t i = stays.slots.size(); i < candidate.items.size(); ++i) {
    const PackItem& item = candidate.items[i];
    const auto action = static_cast<int32_t>(item.lower);
    unfold.unfold(action, action, [&](int32_t first, int32_t last) {
      lives.push_back({kWorkspace, first, last, staged.sizes.variables + candidate.packing.offsets[i], item.size});
    });
  }
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return std::pair(a.first_action, a.buffer) < std::pair(b.first_action, b.buffer);
  });
  return lives;
}

}  // namespace

std::vector<Holder> holders_at(const Option& option, const Candidate& candidate, int32_t action) {
  const Staged& staged = option.staged();
  const Stays& stays = candidate.stays;
  std::vector<Holder> holders;
  std::vector<int32_t> holder_of_slot(stays.slots.size(), -1);
  const auto push = [&](BufferId id) {
    const Buffer& buffer = staged.problem.buffers[id];
    holders.push_back({buffer.name, buffer.tag, staged.sizes.buffers[id]});
  };
  for (size_t i = 0; i < stays.stays.size(); ++i) {
    const Stay& stay = stays.stays[i];
    if (stay.first_action > action || stay.last_action < action) continue;
    if (staged.problem.buffers[stay.buffer].kind == BufferKind::Variable)
      push(stay.buffer);
    else if (int32_t& holder = holder_of_slot[stay.slot];
             holder < 0 || stays.stays[holder].first_action < stay.first_action)
      holder = static_cast<int32_t>(i);
  }
  for (const int32_t i : holder_of_slot)
    if (i >= 0) push(stays.stays[i].buffer);
  if (action < static_cast<int32_t>(candidate.actions.size())) {
    const TaskId task = candidate.actions[action];
    if (staged.sizes.workspace[task] > 0)
      holders.push_back(
          {"workspace of " + staged.problem.tasks[task].name, Tag::Workspace, staged.sizes.workspace[task]});
  }
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return holders;
}

BytesByTag sum_by_tag(const std::vector<Holder>& holders) {
  BytesByTag by_tag{};
  for (const Holder& holder : holders) by_tag[static_cast<size_t>(holder.tag)] += holder.bytes;
  return by_tag;
}

Plan expand(const Problem& problem, const Option& option, const Candidate& candidate) {
  const Staged& staged = option.staged();
  const Unfold unfold(staged, candidate);
  Plan plan;
  plan.arena_bytes = option.arena_bytes(candidate);
  plan.variable_bytes = staged.sizes.variables;
  plan.micro_batches = staged.micro_batches;
  plan.transfers = staged.transfers;
  plan.actions = unfold.actions();
  plan.lives = make_lives(staged, candidate, unfold);
  for (size_t b = 0; b < problem.buffers.size(); ++b)
    if (problem.buffers[b].kind == BufferKind::Variable && staged.problem.buffers[b].kind != BufferKind::Variable)
      plan.stored.push_back(static_cast<BufferId>(b));
  plan.live_bytes = candidate.stays.peak_bytes;
  plan.peak_action = candidate.stays.peak_action < 0 ? -1 : unfold.place(candidate.stays.peak_action, 0);
  plan.peak_action = std::min(plan.peak_action, static_cast<int32_t>(plan.actions.size()) - 1);
  plan.peak_by_tag = sum_by_tag(holders_at(option, candidate, std::max(candidate.stays.peak_action, 0)));
  plan.exactness = staged.micro_batches.size() > 1 ? Exactness::WithinTolerance : Exactness::BitIdentical;
  return plan;
}

}  // namespace plimsoll::plan

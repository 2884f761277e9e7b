#include "plan/search/expand.h"

#include <algorithm>
#include <utility>

namespace plimsoll::plan {
namespace {

// Steps of the candidate, in which all parts are one, against steps of the plan.
class Unfold {
 public:
  Unfold(const Staged& staged, const Candidate& candidate)
      : staged_(staged), steps_(candidate.steps), parts_(static_cast<int32_t>(staged.parts.size())) {
    const auto find = [&](TaskId mark) {
      return static_cast<int32_t>(std::find(steps_.begin(), steps_.end(), mark) - steps_.begin());
    };
    if (parts_ == 1) return;
    begin_ = find(staged.begin);
    end_ = find(staged.end);
    inside_ = end_ - begin_ - 1;
  }

  std::vector<Action> steps() const {
    std::vector<Action> steps;
    const auto push = [&](int32_t from, int32_t to, int32_t part) {
      for (int32_t s = from; s < to; ++s) {
        Action step = staged_.meaning[steps_[s]];
        if (staged_.has_rows[steps_[s]]) step.part = part;
        steps.push_back(step);
      }
    };
    const auto count = static_cast<int32_t>(steps_.size());
    if (parts_ == 1) {
      push(0, count, 0);
      return steps;
    }
    push(0, begin_, 0);
    for (int32_t part = 0; part < parts_; ++part) push(begin_ + 1, end_, part);
    push(end_ + 1, count, 0);
    return steps;
  }

  // A stretch of the candidate's steps wherever it comes to lie.
  template <typename Push>
  void unfold(int32_t first, int32_t last, const Push& push) const {
    if (parts_ == 1 || last < begin_ || first > end_) return push(place(first, 0), place(last, 0));
    if (first <= begin_)
      return push(std::min(first, begin_), last >= end_ ? place_at_end(last) : place(last, parts_ - 1));
    for (int32_t part = 0; part < parts_; ++part) {
      const bool is_last = part == parts_ - 1;
      const int32_t until = last < end_ ? place(last, part) : is_last ? place_at_end(last) : place(end_ - 1, part);
      push(place(first, part), until);
    }
  }

  int32_t place(int32_t step, int32_t part) const {
    if (parts_ == 1 || step < begin_) return step;
    if (step <= begin_) return begin_;
    if (step < end_) return begin_ + part * inside_ + step - begin_ - 1;
    return begin_ + parts_ * inside_ + std::max(step - end_ - 1, 0);
  }

 private:
  // What ends with the last mark ends with the last step of the last part.
  int32_t place_at_end(int32_t last) const { return last == end_ ? begin_ + parts_ * inside_ - 1 : place(last, 0); }

  const Staged& staged_;
  const std::vector<TaskId>& steps_;
  const int32_t parts_;
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
    unfold.unfold(stay.first_step, stay.last_step, [&](int32_t first, int32_t last) {
      lives.push_back({staged.buffer_of[stay.buffer], first, last, offset, bytes});
    });
  }
  for (size_t i = stays.slots.size(); i < candidate.items.size(); ++i) {
    const PackItem& item = candidate.items[i];
    const auto step = static_cast<int32_t>(item.lower);
    unfold.unfold(step, step, [&](int32_t first, int32_t last) {
      lives.push_back({kWorkspace, first, last, staged.sizes.variables + candidate.packing.offsets[i], item.size});
    });
  }
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return std::pair(a.first_step, a.buffer) < std::pair(b.first_step, b.buffer);
  });
  return lives;
}

}  // namespace

std::vector<Holder> holders_at(const Option& option, const Candidate& candidate, int32_t step) {
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
    if (stay.first_step > step || stay.last_step < step) continue;
    if (staged.problem.buffers[stay.buffer].kind == BufferKind::Variable)
      push(stay.buffer);
    else if (int32_t& holder = holder_of_slot[stay.slot];
             holder < 0 || stays.stays[holder].first_step < stay.first_step)
      holder = static_cast<int32_t>(i);
  }
  for (const int32_t i : holder_of_slot)
    if (i >= 0) push(stays.stays[i].buffer);
  if (step < static_cast<int32_t>(candidate.steps.size())) {
    const TaskId task = candidate.steps[step];
    if (staged.sizes.workspace[task] > 0)
      holders.push_back({"workspace of " + staged.problem.tasks[task].name, Tag::Workspace, staged.sizes.workspace[task]});
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
  plan.part_samples = staged.parts;
  plan.transfers = staged.transfers;
  plan.steps = unfold.steps();
  plan.lives = make_lives(staged, candidate, unfold);
  for (size_t b = 0; b < problem.buffers.size(); ++b)
    if (problem.buffers[b].kind == BufferKind::Variable && staged.problem.buffers[b].kind != BufferKind::Variable)
      plan.stored.push_back(static_cast<BufferId>(b));
  plan.live_bytes = candidate.stays.peak_bytes;
  plan.peak_step = candidate.stays.peak_step < 0 ? -1 : unfold.place(candidate.stays.peak_step, 0);
  plan.peak_step = std::min(plan.peak_step, static_cast<int32_t>(plan.steps.size()) - 1);
  plan.peak_by_tag = sum_by_tag(holders_at(option, candidate, std::max(candidate.stays.peak_step, 0)));
  plan.exactness = staged.parts.size() > 1 ? Exactness::WithinTolerance : Exactness::BitIdentical;
  return plan;
}

}  // namespace plimsoll::plan

#include "run/executor.h"

#include <algorithm>
#include <chrono>

#include "run/thread_waits.h"

namespace plimsoll::run {

class Executor::Binder {
 public:
  Binder(Executor& executor, const lower::Program& program, const plan::Plan& plan, std::byte* base,
         const FilePlaces& file)
      : to_(executor),
        program_(program),
        plan_(plan),
        base_(base),
        file_(file),
        places_(find_places(program.problem, plan)) {
    for (const int64_t samples : plan.micro_batches) {
      to_.states_.emplace_back();
      to_.first_samples_.push_back(first_);
      first_ += samples;
    }
    const auto& micro_batches = plan.micro_batches;
    has_smaller_last_ = micro_batches.size() > 1 && micro_batches.back() < micro_batches.front();
    loaded_by_.assign(program.problem.buffers.size(), 0);
  }

  void run() {
    size_t ins = 0, outs = 0, moves = 0;
    for (const plan::Action& action : plan_.actions) {
      if (is_transfer(program_.problem, action)) {
        ++moves;
        continue;
      }
      ins += program_.tasks[static_cast<size_t>(action.task)].of(action).in.size();
      outs += work_of(program_.problem, plan_, action).writes.size();
    }
    // Sized once: the actions point into these.
    to_.in_.reserve(ins);
    to_.out_.reserve(outs);
    to_.actions_.reserve(plan_.actions.size());
    to_.transfers_.reserve(moves);
    for (const lower::ProgramTask& task : program_.tasks)
      for (const lower::Kernels* kernels : {&task.own, &task.slim})
        for (const auto& kernel : {kernels->first, kernels->later, kernels->last})
          if (kernel != nullptr && (to_.kernels_.empty() || to_.kernels_.back() != kernel))
            to_.kernels_.push_back(kernel);
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      if (is_transfer(program_.problem, plan_.actions[i]))
        bind_transfer(i);
      else
        bind_task(i);
    }
    wait_for_saves();
    if (std::ranges::any_of(program_.problem.tasks, is_exchange)) bind_meetings();
  }

 private:
  kernels::Kernel* kernel_for(const lower::Kernels& kernels, int32_t micro_batch) const {
    const bool is_last = micro_batch + 1 == static_cast<int32_t>(plan_.micro_batches.size());
    if (is_last && has_smaller_last_ && kernels.last != nullptr) return kernels.last.get();
    return micro_batch > 0 && kernels.later != nullptr ? kernels.later.get() : kernels.first.get();
  }

  // In a buffer that holds the whole batch, a micro-batch uses its own rows.
  Bytes first_byte(plan::BufferId id, int32_t micro_batch) const {
    const plan::Buffer& buffer = program_.problem.buffers[static_cast<size_t>(id)];
    const int64_t first = holds_whole_batch(buffer) ? to_.first_samples_[static_cast<size_t>(micro_batch)] : 0;
    return first * buffer.per_sample_bytes;
  }
  std::byte* locate(plan::BufferId id, Bytes place, int32_t micro_batch) const {
    return base_ + place + first_byte(id, micro_batch);
  }

  void bind_task(size_t i) {
    const plan::Action& action = plan_.actions[i];
    const plan::ActionPlaces& places = places_[i];
    const lower::ProgramTask& task = program_.tasks[static_cast<size_t>(action.task)];
    const plan::Work& work = work_of(program_.problem, plan_, action);
    BoundAction bound{kernel_for(task.of(action), action.micro_batch),
                      to_.in_.data() + to_.in_.size(),
                      to_.out_.data() + to_.out_.size(),
                      nullptr,
                      action.micro_batch,
                      0};
    for (const lower::KernelOperand& operand : task.of(action).in) {
      const bool updated = operand.list == lower::KernelOperand::List::Updates;
      const auto index = static_cast<size_t>(operand.index);
      const plan::BufferId id = (updated ? work.updates : work.reads)[index];
      if (program_.problem.buffers[static_cast<size_t>(id)].is_given) {
        to_.given_.push_back({id, to_.in_.size(), first_byte(id, action.micro_batch) + operand.offset, false});
        to_.in_.push_back(nullptr);
        continue;
      }
      to_.in_.push_back(locate(id, (updated ? places.updates : places.reads)[index], action.micro_batch) +
                        operand.offset);
    }
    for (size_t w = 0; w < work.writes.size(); ++w) {
      const plan::BufferId id = work.writes[w];
      if (program_.problem.buffers[static_cast<size_t>(id)].is_given)
        to_.given_.push_back({id, to_.out_.size(), first_byte(id, action.micro_batch), true});
      to_.out_.push_back(locate(id, places.writes[w], action.micro_batch));
    }
    if (places.workspace >= 0) bound.workspace = base_ + places.workspace;
    for (const auto* list : {&work.reads, &work.updates})
      for (const plan::BufferId id : *list)
        bound.wait_for = std::max(bound.wait_for, loaded_by_[static_cast<size_t>(id)]);
    to_.actions_.push_back(bound);
  }

  void bind_transfer(size_t i) {
    const plan::Task& task = task_of(program_.problem, plan_, plan_.actions[i]);
    const auto id = static_cast<size_t>(moved_by(task));
    const int64_t samples = *std::max_element(plan_.micro_batches.begin(), plan_.micro_batches.end());
    const Bytes bytes = placed_bytes(program_.problem.buffers[id], samples);
    to_.actions_.push_back({nullptr, nullptr, nullptr, nullptr, static_cast<int32_t>(to_.transfers_.size()), 0});
    to_.transfers_.push_back({is_load(task), base_ + moved_place(i), file_.places[id], bytes});
    if (is_load(task)) loaded_by_[id] = static_cast<int32_t>(to_.transfers_.size());
  }

  // Where the one buffer of a transfer lies.
  Bytes moved_place(size_t i) const {
    return (places_[i].writes.empty() ? places_[i].reads : places_[i].writes).front();
  }

  // Memory must not change while it is being saved: the first action that changes it waits. Loads need not wait, since
  // transfers keep their order.
  void wait_for_saves() {
    for (size_t i = 0; i < to_.actions_.size(); ++i) {
      const BoundAction& save = to_.actions_[i];
      if (save.kernel != nullptr || to_.transfers_[static_cast<size_t>(save.micro_batch)].is_load) continue;
      const Bytes first = moved_place(i), last = first + to_.transfers_[static_cast<size_t>(save.micro_batch)].bytes;
      for (size_t j = i + 1; j < to_.actions_.size(); ++j) {
        if (to_.actions_[j].kernel == nullptr || !changes(j, first, last)) continue;
        to_.actions_[j].wait_for = std::max(to_.actions_[j].wait_for, save.micro_batch + 1);
        break;
      }
    }
  }

  bool changes(size_t action, Bytes first, Bytes last) const {
    const plan::Work& work = work_of(program_.problem, plan_, plan_.actions[action]);
    const plan::ActionPlaces& places = places_[action];
    const int64_t samples = plan_.micro_batches.front();
    const auto hits = [&](Bytes place, Bytes bytes) { return place < last && place + bytes > first; };
    const auto any_hits = [&](const std::vector<plan::BufferId>& ids, const std::vector<Bytes>& at) {
      for (size_t k = 0; k < ids.size(); ++k) {
        const plan::Buffer& buffer = program_.problem.buffers[static_cast<size_t>(ids[k])];
        if (hits(at[k], placed_bytes(buffer, holds_whole_batch(buffer) ? first_ : samples))) return true;
      }
      return false;
    };
    return any_hits(work.writes, places.writes) || any_hits(work.updates, places.updates) ||
           (places.workspace >= 0 && hits(places.workspace, workspace_bytes(work, samples)));
  }

  static bool is_exchange(const plan::Task& task) { return task.lane == plan::Lane::Network; }

  // Memory that an action reads or changes.
  struct Touched {
    Bytes first, last;
    bool changes;
  };
  std::vector<Touched> touched_by(size_t action) const {
    std::vector<Touched> all;
    const plan::ActionPlaces& places = places_[action];
    const auto add = [&](const std::vector<plan::BufferId>& ids, const std::vector<Bytes>& at, bool changes) {
      for (size_t k = 0; k < ids.size(); ++k) {
        const plan::Buffer& buffer = program_.problem.buffers[static_cast<size_t>(ids[k])];
        if (!buffer.is_given) all.push_back({at[k], at[k] + placed_bytes(buffer, first_), changes});
      }
    };
    const plan::Task& task = task_of(program_.problem, plan_, plan_.actions[action]);
    const bool moves = is_transfer(program_.problem, plan_.actions[action]);
    const plan::Work& work = moves ? task : work_of(program_.problem, plan_, plan_.actions[action]);
    add(work.reads, places.reads, false);
    add(work.writes, places.writes, true);
    add(work.updates, places.updates, true);
    if (places.workspace >= 0)
      all.push_back({places.workspace, places.workspace + workspace_bytes(work, first_), true});
    return all;
  }

  // An exchange runs beside later actions. An action that needs memory of the exchange waits for it.
  void bind_meetings() {
    struct Running {
      int32_t number;
      std::vector<Touched> memory;
    };
    std::vector<Running> running;
    int32_t exchanges = 0;
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      const std::vector<Touched> mine = touched_by(i);
      const auto hits = [&](const Touched& theirs) {
        return std::ranges::any_of(mine, [&](const Touched& one) {
          return (one.changes || theirs.changes) && one.first < theirs.last && theirs.first < one.last;
        });
      };
      const bool starts = is_exchange(task_of(program_.problem, plan_, plan_.actions[i]));
      Meeting meeting{static_cast<int32_t>(i), 0, starts};
      if (!starts)  // exchanges keep their order by themselves
        for (const Running& one : running)
          if (std::ranges::any_of(one.memory, hits)) meeting.wait_for = one.number;
      std::erase_if(running, [&](const Running& one) { return one.number <= meeting.wait_for; });
      if (starts) running.push_back({++exchanges, mine});
      if (starts || meeting.wait_for > 0) to_.meetings_.push_back(meeting);
    }
  }

  Executor& to_;
  const lower::Program& program_;
  const plan::Plan& plan_;
  std::byte* base_;
  const FilePlaces& file_;
  const std::vector<plan::ActionPlaces> places_;
  int64_t first_ = 0;  // after construction: the samples of the whole batch
  bool has_smaller_last_ = false;
  std::vector<int32_t> loaded_by_;  // by buffer: the transfer that last loaded it, counted from 1
};

Executor::Executor(const lower::Program& program, const plan::Plan& plan, std::byte* base, const FilePlaces& file)
    : queue_(file.transfers) {
  Binder(*this, program, plan, base, file).run();
}

void Executor::give(plan::BufferId input, const std::byte* data) noexcept {
  for (const GivenOperand& given : given_)
    if (given.buffer == input) in_[given.operand] = data + given.offset;
}

void Executor::give_all(std::span<std::byte* const> places) noexcept {
  for (const GivenOperand& given : given_) {
    std::byte* const place = places[static_cast<size_t>(given.buffer)] + given.offset;
    if (given.is_out)
      out_[given.operand] = place;
    else
      in_[given.operand] = place;
  }
}

void Executor::begin(const kernels::StepState& state) noexcept {
  look_at_processors();
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i] = state;
    states_[i].first_sample += first_samples_[i];
  }
  if (queue_ != nullptr) tickets_before_ = queue_->started();
  next_meeting_ = meetings_.data();
  if (exchanges_ != nullptr) exchanges_before_ = exchanges_->started();
}

void Executor::end() noexcept {
  if (queue_ != nullptr) queue_->wait_all();
  if (exchanges_ != nullptr) exchanges_->wait_all();
}

kernels::Args Executor::args_of(const BoundAction& action) const noexcept {
  return {action.in, action.out, action.workspace, &states_[static_cast<size_t>(action.micro_batch)],
          static_cast<int32_t>(&action - actions_.data())};
}

void Executor::run_action(const BoundAction& action) noexcept {
  if (action.wait_for > 0) queue_->wait(tickets_before_ + action.wait_for);
  if (next_meeting_ != meetings_.data() + meetings_.size() && next_meeting_->action == &action - actions_.data()) {
    const Meeting& meeting = *next_meeting_++;
    if (exchanges_ != nullptr && meeting.wait_for > 0) exchanges_->wait(exchanges_before_ + meeting.wait_for);
    if (exchanges_ != nullptr && meeting.is_exchange) {
      exchanges_->start(action.kernel, args_of(action));
      return;
    }
  }
  if (action.kernel != nullptr) return action.kernel->run(args_of(action));
  const BoundTransfer& transfer = transfers_[static_cast<size_t>(action.micro_batch)];
  if (transfer.is_load)
    queue_->start_read(transfer.place, transfer.memory, transfer.bytes);
  else
    queue_->start_write(transfer.place, transfer.memory, transfer.bytes);
}

void Executor::run(const kernels::StepState& state) noexcept {
  begin(state);
  for (const BoundAction& action : actions_) run_action(action);
  end();
}

void Executor::run_watched(const kernels::StepState& state, const std::function<void(size_t action)>& look) {
  begin(state);
  for (size_t i = 0; i < actions_.size(); ++i) {
    run_action(actions_[i]);
    if (exchanges_ != nullptr) exchanges_->wait_all();  // `look` may read their results
    look(i);
  }
  end();
}

void Executor::run_timed(const kernels::StepState& state, std::span<int64_t> step_ns) noexcept {
  using Clock = std::chrono::steady_clock;
  begin(state);
  auto last = Clock::now();
  for (size_t i = 0; i < actions_.size(); ++i) {
    run_action(actions_[i]);
    const auto now = Clock::now();
    step_ns[i] = std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count();
    last = now;
  }
  end();
}

}  // namespace plimsoll::run

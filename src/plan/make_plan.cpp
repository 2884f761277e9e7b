#include "plan/make_plan.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "plan/effort.h"
#include "plan/search/expand.h"
#include "plan/search/option.h"
#include "plan/search/order.h"
#include "plan/search/send_early.h"
#include "plan/search/split.h"
#include "plan/search/store.h"
#include "plan/search/variants.h"

namespace plimsoll::plan {
namespace {

void require_valid(const Problem& problem, const Limits& limits) {
  require_valid(problem);
  if (problem.spaces.size() > 1)
    throw Error(fmt::format("'{}' has buffers in {} spaces: plans are made for one, '{}'", problem.name,
                            problem.spaces.size(), problem.spaces.front()));
  if (limits.batch <= 0) throw Error(fmt::format("a batch of {} samples cannot be planned", limits.batch));
  constexpr double kLargest = 1e18;  // sums of sizes stay far from overflow
  double total = 0;
  for (const Buffer& buffer : problem.buffers)
    total += static_cast<double>(buffer.fixed_bytes) +
             static_cast<double>(buffer.per_sample_bytes) * static_cast<double>(limits.batch);
  for (const Task& task : problem.tasks)
    total += static_cast<double>(task.workspace_fixed_bytes) +
             static_cast<double>(task.workspace_per_sample_bytes) * static_cast<double>(limits.batch);
  if (total > kLargest) throw Error(fmt::format("a batch of {} samples is too large to count", limits.batch));
}

constexpr size_t kLongStep = 40'000;  // tasks

class Planner {
 public:
  Planner(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits)
      : whole_(whole), problems_(problems), limits_(limits) {
    require_valid(whole, limits);
    for (const Problem* problem : problems) require_valid(*problem, limits);
    describe_as_written();
    for (size_t i = 0; i < problems.size(); ++i) add_options(i);
    add_finer_options();
  }

  // The fastest candidate that fits. A larger line has all candidates of a smaller one, and each is packed in the same
  // way: so a larger line is never slower, and takes another plan only if that does not fit the smaller line.
  Choice run(Bytes line) {
    std::optional<Choice> choice = run_below(line, std::numeric_limits<double>::infinity());
    return choice ? std::move(*choice) : refuse();
  }

  // Nothing when no plan takes less time than this.
  std::optional<Choice> run_below(Bytes line, double ns) {
    limits_.bytes = line;
    best_ = nullptr;
    best_ns_ = ns;
    for (Entry& entry : entries_) look_for_better(entry, entry.option.plain());
    // Options with the lowest bound on time first: what they find makes the search of others unnecessary.
    std::vector<std::pair<double, Entry*>> by_promise;
    for (Entry& entry : entries_)
      if (entry.option.bound().bytes <= line) by_promise.emplace_back(entry.option.least_ns(line), &entry);
    std::stable_sort(by_promise.begin(), by_promise.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [promise, entry] : by_promise)
      if (is_faster(*entry, promise) && may_search(*entry)) look_for_better(*entry, entry->option.recomputing());
    if (best_ == nullptr) return std::nullopt;
    best_->option.tighten(*best_candidate_);
    Plan plan = finish(*best_, *best_candidate_);
    std::vector<Alternative> alternatives = list_alternatives();
    record_faster_alternative(plan, alternatives);
    return Choice{best_->problem, std::move(plan), std::move(alternatives)};
  }

  Floor floor() const {
    const Entry& lowest = find_lowest_bound();
    return {lowest.problem, lowest.option.bound().bytes, task_of(lowest, lowest.option.bound().task)};
  }

 private:
  struct Entry {
    size_t number;
    size_t problem;
    Variants variants;
    Stored stored;
    Option option;
  };

  // The peak and time of the program as written: given order, nothing shared.
  void describe_as_written() {
    const Sizes sizes = measure(whole_, limits_.batch, limits_.batch);
    std::vector<TaskId> order(whole_.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    unconstrained_bytes_ = make_timeline(whole_, sizes, order, false).peak_bytes;
    // Exchanges run concurrently with the computation.
    double exchange_ns = 0;
    for (const Task& task : whole_.tasks)
      (task.lane == Lane::Compute ? unconstrained_ns_ : exchange_ns) += cost_ns(task, limits_.batch);
    unconstrained_ns_ = std::max(unconstrained_ns_, exchange_ns);
  }

  std::vector<TaskId> order_of(const Problem& problem, const Sizes& sizes) {
    std::vector<TaskId> order(problem.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    if (limits_.levers.order) order = choose_order(problem, sizes, limits_.levers.in_place);
    send_early(problem, order);
    // Where the whole batch is one of the problems, its order is searched for only once.
    if (&problem == &whole_) ordered_bytes_ = make_timeline(problem, sizes, order, limits_.levers.in_place).peak_bytes;
    return order;
  }

  // The peak that order alone gives.
  Bytes ordered_bytes() {
    if (!ordered_bytes_) order_of(whole_, measure(whole_, limits_.batch, limits_.batch));
    return *ordered_bytes_;
  }

  void add_options(size_t index) {
    const Problem& problem = *problems_[index];
    const bool in_micro_batches = problem.micro_batch > 0 && problem.micro_batch < limits_.batch;
    const Split split = in_micro_batches ? find_split(problem) : Split{};
    if (in_micro_batches && !split.is_possible()) {
      if (problems_.size() > 1) return;
      throw Error(fmt::format("a batch in micro-batches cannot be planned: {} needs the whole batch at once",
                              problem.tasks[split.mixing].name));
    }
    for (const Variants& variants : list_variants(problem)) {
      if (variants.empty()) {
        add_options(index, problem, split, variants);
      } else if (limits_.levers.variants) {
        add_options(index, choose_variants(problem, variants), split, variants);
      }
    }
  }

  void add_options(size_t index, const Problem& problem, const Split& split, const Variants& variants) {
    const int64_t micro_batch = problem.micro_batch > 0 ? problem.micro_batch : limits_.batch;
    const std::vector<TaskId> order =
        order_of(problem, measure(problem, limits_.batch, std::min(micro_batch, limits_.batch)));
    const bool is_plain = micro_batch >= limits_.batch && variants.empty();
    add_options(index, problem, split, variants, order, is_plain ? Stores::All : Stores::Few);
    if (is_plain) plain_orders_.emplace_back(index, order);
  }

  // Added last, so that they take no search memory from options that can go lower.
  void add_finer_options() {
    for (const auto& [index, order] : plain_orders_)
      add_options(index, *problems_[index], {}, {}, order, Stores::Finer);
    plain_orders_.clear();
  }

  void add_options(size_t index, const Problem& problem, const Split& split, const Variants& variants,
                   const std::vector<TaskId>& order, Stores which) {
    for (Stored& stored : list_stores(problem, limits_, split, which)) {
      const Bytes more = bytes_of_option(problem);
      if (!entries_.empty() && held_bytes_ + more > limits_.search_bytes) return;
      held_bytes_ += more;
      Option option(problem, limits_, split, order, stored, unconstrained_ns_);
      entries_.push_back({entries_.size(), index, variants, std::move(stored), std::move(option)});
    }
  }

  // Whether the search for values to recompute fits beside the options that exist.
  bool may_search(const Entry& entry) const {
    return entry.option.is_searched() ||
           held_bytes_ + bytes_of_recompute_search(entry.option.staged().problem) <= limits_.search_bytes;
  }

  // Refusals of very long steps are to be quick: they name the need without recomputation, unless that was searched
  // for.
  bool may_search_for_lowest(const Entry& entry) const {
    return entry.option.is_searched() || (may_search(entry) && entry.option.staged().problem.tasks.size() <= kLongStep);
  }

  // Ties go to the option, then the candidate, that comes first.
  bool is_faster(const Entry& entry, double ns) const {
    return ns < best_ns_ || (ns == best_ns_ && best_ != nullptr && entry.number < best_->number);
  }

  void look_for_better(Entry& entry, std::vector<Candidate>& candidates) {
    for (Candidate& candidate : candidates) {
      if (!is_faster(entry, candidate.ns)) return;
      if (!entry.option.fits(candidate, limits_.bytes)) continue;
      best_ = &entry;
      best_candidate_ = &candidate;
      best_ns_ = candidate.ns;
      return;
    }
  }

  // The task of the problem that a staged task stands for; -1: a transfer or a mark.
  TaskId task_of(const Entry& entry, TaskId staged) const {
    const TaskId task = staged < 0 ? -1 : entry.option.staged().meaning[staged].task;
    return task < std::ssize(problems_[entry.problem]->tasks) ? task : -1;
  }

  const Entry& find_lowest_bound() const {
    return *std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.option.bound().bytes < b.option.bound().bytes;
    });
  }

  // The lowest bound of all options. Its task is named only where it is one of this problem.
  Bound bound_for(size_t problem) const {
    const Floor lowest = floor();
    return {lowest.bytes, lowest.problem == problem ? lowest.task : -1};
  }

  // Of all candidates that are faster than the chosen one: they were tried, and need more than the line.
  std::vector<Alternative> list_alternatives() {
    std::vector<Alternative> alternatives;
    const auto add_faster = [&](double ns, Bytes bytes) {
      if (best_ == nullptr || ns < best_ns_) alternatives.push_back({ns, std::max(bytes, limits_.bytes + 1)});
    };
    const auto add_all = [&](const Entry& entry, const std::vector<Candidate>& candidates) {
      for (const Candidate& candidate : candidates) add_faster(candidate.ns, entry.option.need_bytes(candidate));
    };
    for (Entry& entry : entries_) {
      add_all(entry, entry.option.plain());
      if (entry.option.is_searched()) add_all(entry, entry.option.recomputing());
    }
    // When only micro-batches were planned: the whole batch is no option here, but known to be as fast as possible.
    if (std::find(problems_.begin(), problems_.end(), &whole_) == problems_.end())
      add_faster(unconstrained_ns_, ordered_bytes() + limits_.bytes_of_actions(std::ssize(whole_.tasks)));
    return alternatives;
  }

  Plan finish(Entry& entry, const Candidate& candidate) {
    Plan plan = expand(*problems_[entry.problem], entry.option, candidate);
    if (!entry.variants.empty())
      for (Action& action : plan.actions)
        if (!is_transfer(*problems_[entry.problem], action)) action.variant = entry.variants[action.task];
    plan.predicted_ns = candidate.ns;
    plan.unconstrained_ns = unconstrained_ns_;
    plan.unconstrained_bytes = unconstrained_bytes_;
    const Bound bound = bound_for(entry.problem);
    plan.lower_bound_bytes = bound.bytes;
    plan.lower_bound_task = bound.task;
    plan.decisions = describe(entry, candidate);
    return plan;
  }

  std::vector<Decision> describe(Entry& entry, const Candidate& candidate) {
    const Staged& staged = entry.option.staged();
    std::vector<Decision> decisions;
    if (unconstrained_bytes_ > ordered_bytes())
      decisions.push_back({"order and in place", unconstrained_bytes_ - ordered_bytes(), 0});
    if (staged.micro_batches.size() > 1)
      decisions.push_back({fmt::format("run in {} micro-batches of {} samples", staged.micro_batches.size(),
                                       staged.micro_batches.front()),
                           std::max<Bytes>(ordered_bytes() - entry.option.plain().front().peak_bytes, 0),
                           std::max(staged.ns - unconstrained_ns_, 0.0)});
    std::vector<Decision> single = describe_reruns(staged, candidate);
    describe_variants(entry, single);
    for (const auto* flags : {&entry.stored.variables, &entry.stored.values})
      for (size_t b = 0; b < flags->size(); ++b)
        if ((*flags)[b])
          single.push_back({(flags == &entry.stored.values ? "spill " : "stream ") + staged.problem.buffers[b].name,
                            staged.sizes.buffers[b], 0});
    std::stable_sort(single.begin(), single.end(),
                     [](const Decision& a, const Decision& b) { return a.bytes_saved > b.bytes_saved; });
    decisions.insert(decisions.end(), single.begin(), single.end());
    return decisions;
  }

  // One for each task that runs again, under the name of the largest value it makes.
  std::vector<Decision> describe_reruns(const Staged& staged, const Candidate& candidate) const {
    std::vector<int32_t> runs(staged.problem.tasks.size(), 0);
    for (const TaskId task : candidate.actions) ++runs[task];
    std::vector<Decision> decisions;
    for (size_t t = 0; t < runs.size(); ++t) {
      const std::vector<BufferId>& writes = staged.problem.tasks[t].writes;
      if (runs[t] < 2 || writes.empty()) continue;
      const BufferId id = *std::max_element(writes.begin(), writes.end(), [&](BufferId a, BufferId b) {
        return staged.sizes.buffers[a] < staged.sizes.buffers[b];
      });
      const bool is_load_again = staged.problem.tasks[t].lane == Lane::Disk;
      decisions.push_back({(is_load_again ? "load again " : "recompute ") + staged.problem.buffers[id].name,
                           staged.sizes.buffers[id], (runs[t] - 1) * staged.problem.tasks[t].fixed_ns});
    }
    return decisions;
  }

  void describe_variants(const Entry& entry, std::vector<Decision>& decisions) const {
    const std::vector<int64_t>& micro_batches = entry.option.staged().micro_batches;
    for (size_t t = 0; t < entry.variants.size(); ++t) {
      if (entry.variants[t] < 0) continue;
      const Task& task = problems_[entry.problem]->tasks[t];
      const Variant& variant = task.variants[entry.variants[t]];
      double ns = 0;
      for (const int64_t samples : micro_batches) ns += cost_ns(variant, samples) - cost_ns(task, samples);
      decisions.push_back(
          {fmt::format("{} at {}", variant.name, task.name),
           workspace_bytes(task, micro_batches.front()) - workspace_bytes(variant, micro_batches.front()), ns});
    }
  }

  struct Lowest {
    Entry* entry = nullptr;
    Candidate* candidate = nullptr;
    Bytes bytes = 0;
    bool is_below(Bytes other) const { return candidate != nullptr && bytes <= other; }
  };

  // Options with the lowest bound first; those that can't be lower than the lowest found are neither searched nor
  // packed.
  Lowest find_lowest() {
    std::vector<Entry*> by_bound;
    for (Entry& entry : entries_) by_bound.push_back(&entry);
    std::stable_sort(by_bound.begin(), by_bound.end(),
                     [](const Entry* a, const Entry* b) { return a->option.bound().bytes < b->option.bound().bytes; });
    Lowest lowest;
    for (Entry* entry : by_bound) {
      if (lowest.is_below(entry->option.bound().bytes)) break;
      std::vector<Candidate*> by_need;
      for (Candidate& candidate : entry->option.plain()) by_need.push_back(&candidate);
      if (may_search_for_lowest(*entry))
        for (Candidate& candidate : entry->option.recomputing()) by_need.push_back(&candidate);
      // No packing is lower than the peak, and each action of the plan takes memory too.
      const auto least_need = [&](const Candidate* candidate) {
        return candidate->peak_bytes + entry->option.plan_bytes(*candidate);
      };
      std::stable_sort(by_need.begin(), by_need.end(),
                       [&](const Candidate* a, const Candidate* b) { return least_need(a) < least_need(b); });
      for (Candidate* candidate : by_need) {
        if (lowest.is_below(least_need(candidate))) break;
        entry->option.pack_for(*candidate, 0);
        const Bytes bytes = entry->option.arena_bytes(*candidate) + entry->option.plan_bytes(*candidate);
        if (lowest.is_below(bytes)) {
          candidate->forget_packing();
          continue;
        }
        if (lowest.candidate != nullptr) lowest.candidate->forget_packing();
        lowest = {entry, candidate, bytes};
      }
    }
    return lowest;
  }

  // Names the lowest of all candidates, each packed at full effort: a line of that need is accepted.
  Choice refuse() {
    const auto [entry, lowest, need] = find_lowest();
    const int32_t peak_action = std::max(lowest->stays.peak_action, 0);
    std::vector<Holder> holders = holders_at(entry->option, *lowest, peak_action);
    const BytesByTag by_tag = sum_by_tag(holders);
    constexpr size_t kLargestHolders = 10;
    holders.resize(std::min(holders.size(), kLargestHolders));
    const Bound bound = bound_for(entry->problem);
    return {entry->problem,
            Shortfall{.need_bytes = need,
                      .limit_bytes = limits_.bytes,
                      .deficit_bytes = need - limits_.bytes,
                      .tightest_task = lowest->actions.empty() ? -1 : task_of(*entry, lowest->actions[peak_action]),
                      .holders = std::move(holders),
                      .by_tag = by_tag,
                      .lower_bound_bytes = bound.bytes,
                      .lower_bound_task = bound.task},
            list_alternatives()};
  }

  const Problem& whole_;
  const std::span<const Problem* const> problems_;
  Limits limits_;  // options refer to it; only its bytes change
  Bytes unconstrained_bytes_ = 0;
  std::optional<Bytes> ordered_bytes_;  // once it was asked for
  double unconstrained_ns_ = 0;
  std::deque<Entry> entries_;
  std::vector<std::pair<size_t, std::vector<TaskId>>> plain_orders_;  // by problem, while options are made
  Bytes held_bytes_ = 0;                                              // by the entries
  Entry* best_ = nullptr;
  Candidate* best_candidate_ = nullptr;
  double best_ns_ = 0;
};

}  // namespace

std::variant<Plan, Shortfall> make_plan(const Problem& problem, const Limits& limits) {
  const Problem* const problems[] = {&problem};
  return choose_plan(problem, problems, limits).answer;
}

Choice choose_plan(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits) {
  return Planner(whole, problems, limits).run(limits.bytes);
}

std::optional<Choice> choose_faster_plan(const Problem& whole, std::span<const Problem* const> problems,
                                         const Limits& limits, double ns) {
  return Planner(whole, problems, limits).run_below(limits.bytes, ns);
}

void record_faster_alternative(Plan& plan, std::span<const Alternative> others) {
  for (const Alternative& other : others)
    if (other.ns < plan.predicted_ns && (plan.next_faster_bytes == 0 || other.bytes < plan.next_faster_bytes))
      plan.next_faster_bytes = other.bytes;
}

class LineSearch::Search : public Planner {
  using Planner::Planner;
};
LineSearch::LineSearch(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits)
    : search_(std::make_unique<Search>(whole, problems, limits)) {}
LineSearch::~LineSearch() = default;
Choice LineSearch::plan_at(Bytes line) { return search_->run(line); }
Floor LineSearch::floor() const { return search_->floor(); }

}  // namespace plimsoll::plan

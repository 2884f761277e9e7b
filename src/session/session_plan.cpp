// How a session lowers its steps and splits the line between them: the part that is done before memory is taken.
#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/kept_facts.h"
#include "memory/process.h"
#include "plan/check/check.h"
#include "plan/effort.h"
#include "plan/make_plan.h"
#include "plan/search/split.h"
#include "session/session.h"

namespace plimsoll {
namespace {

// Of what is only there to plan and to be looked at: the blocks of a task or buffer without what the allocator adds.
Bytes bytes_of_details(const lower::Program& program, const plan::Plan& plan) {
  const auto text = [](const std::string& name) { return name.capacity() > 15 ? name.capacity() + 1 : 0; };
  const auto list = [](const auto& items) { return items.capacity() * sizeof(items[0]); };
  size_t bytes = list(program.problem.buffers) + list(program.problem.tasks) + list(program.tasks) + list(plan.steps) +
                 list(plan.lives);
  for (const plan::Buffer& buffer : program.problem.buffers) bytes += text(buffer.name);
  for (const plan::Task& task : program.problem.tasks)
    bytes += text(task.name) + list(task.reads) + list(task.writes) + list(task.updates) + list(task.may_share);
  for (const lower::ProgramTask& task : program.tasks) bytes += list(task.in);
  return static_cast<Bytes>(bytes);
}

// An action of a plan, its lives (two on average), and what the executor holds for it: measured on the longest plans.
constexpr Bytes kBytesOfAction = 192;
constexpr Bytes kBytesOfBoundAction = 104;  // of that, the executor
// A task of a program with its operands, names and costs, measured in the same way.
constexpr Bytes kBytesOfTask = 1200;
constexpr Bytes kBytesToLowerNode = 320;  // of the graph: what lowering takes beside the program that it makes
// Where the line has less left, planning still takes this much.
constexpr Bytes kLeastSearchBytes = 8 * MiB;

}  // namespace

Session::Session(Graph& graph, const MemoryLine& line, const std::vector<Request>& requests,
                 const SessionOptions& options)
    : graph_(graph), options_(options), line_(line), given_steps_(requests.size()) {
  const auto turn = line_.take_planning_turn();
  graph_.finalize();
  state_.seed = options.seed;
  // Kernels of a training step decide the layouts of variables, so it is lowered before others.
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].updates.size() > requests[b].updates.size(); });
  steps_.resize(requests.size());
  Bytes before = 0;
  for (const size_t i : order) {
    before = counted_bytes();
    lower_step(steps_[i], requests[i]);
  }
  if (!order.empty() && line_.covers_process()) leave_room_for_later(steps_[order.back()], counted_bytes() - before);
  close_layouts();
  if (options.levers.spill && !options.scratch_folder.empty())
    disk_speed_ = kept_disk_speed(options.scratch_folder, options.disk_limit).speed;
  plan_steps(order);
}

Bytes Session::counted_bytes() const {
  if (!line_.covers_process() || options_.later_plans == 0) return 0;
  const ProcessMemory memory = measure_process_memory();
  return memory.heap_bytes + memory.generated_code_bytes;
}

// A step that is planned later takes what the last one took: its tasks, until the session opens, and its kernels, of
// which micro-batches have up to twice as many.
void Session::leave_room_for_later(const PlannedStep& last, Bytes lowered_bytes) {
  const Bytes details = options_.keeps_plans ? 0 : bytes_of_details(last.program, last.plan);
  const Bytes each = 2 * std::max<Bytes>(0, lowered_bytes - details) + std::ssize(last.program.tasks) * step_bytes();
  later_bytes_ = options_.later_plans * round_up(each, kProcessQuantum / 2);
}

// What a plan turns out to take beside its arena can be more than was left for it: kernels of micro-batches, actions of
// later steps. All are then planned again, and leave that much.
void Session::plan_steps(const std::vector<size_t>& order) {
  constexpr int kRounds = 5;
  Bytes process_before = MemoryLine::kUnlimited;
  for (int round = 1;; ++round) {
    hold_surroundings();
    // What grew in the round before and stayed, such as tables of libraries, is measured now: it is not left twice.
    left_for_planning_ -= std::clamp<Bytes>(line_.process_bytes() - process_before, 0, left_for_planning_);
    process_before = line_.process_bytes();
    Bytes missing = 0;
    for (auto i = order.begin(); i != order.end() && missing == 0; ++i) {
      actions_of_later_steps_ = 0;
      for (auto later = i + 1; later != order.end(); ++later)
        actions_of_later_steps_ += std::ssize(steps_[*later].program.tasks);
      missing = plan_step(steps_[*i]);
    }
    if (missing == 0) missing = settle();
    if (missing == 0) {
      left_for_planning_ = 0;  // it is there now, and measured
      return;
    }
    if (round == kRounds) refuse_grown(steps_[order.front()]);
    left_for_planning_ += missing;
    forget_plans(order);
  }
}

// Everything is planned: what the process now holds is measured instead of counted. Returns what is too much.
Bytes Session::settle() {
  Bytes actions = 0;
  for (const PlannedStep& step : steps_) actions += step.planned_actions;
  // Plans exist now; executors come when the session opens.
  if (line_.covers_process()) plans_held_.resize(actions * (kBytesOfBoundAction + options_.caller_step_bytes));
  line_.measure_process(leaving_bytes());
  runtime_bytes_ =
      line_.process_bytes() + library_held_.bytes() + caller_held_.bytes() + later_held_.bytes() + plans_held_.bytes();
  if (!line_.covers_process()) return 0;
  return std::max<Bytes>(0, line_.used() - line_.limit());
}

// The surroundings leave less than the arena that the plans agreed on.
void Session::refuse_grown(const PlannedStep& step) const {
  plan::Shortfall shortfall;
  shortfall.need_bytes = arena_bytes_ + left_for_planning_;
  throw DoesNotFit(describe(step.program.problem, shortfall, 0));
}

void Session::forget_plans(const std::vector<size_t>& order) {
  stored_.reset();
  arena_bytes_ = file_bytes_ = 0;
  arena_held_.clear();
  for (const size_t i : order) {
    PlannedStep again;
    again.request = std::move(steps_[i].request);
    steps_[i] = std::move(again);
    lower_step(steps_[i], Request(steps_[i].request));
  }
}

lower::LowerOptions Session::lower_options(const Request& request) const {
  lower::LowerOptions lowering;
  lowering.batch = request.batch;
  lowering.masks = options_.masks;
  lowering.half_values = options_.half_values;
  return lowering;
}

void Session::lower_step(PlannedStep& step, const Request& request) {
  if (request.batch <= 0) throw Error(fmt::format("a batch of {} is none", request.batch));
  for (const Tensor& fetch : request.fetches)
    if (!fetch.is_set() || &fetch.graph() != &graph_) throw Error("a fetch is unset or belongs to another graph");
  step.request = request;
  step.program = lower::lower(graph_, request.fetch_ids(), request.updates, lower_options(request), layouts_, kernels_);
  step.lowered_tasks = std::ssize(step.program.tasks);
}

// Variables that no kernel met stay row-major from now on: their place must not change when more steps are planned.
void Session::close_layouts() {
  for (const Variable& variable : graph_.variables()) layouts_.try_emplace(variable.value, kernels::Layout());
}

// Half the batch, a quarter, and so on down to one sample; in larger strides where each takes long to plan.
std::vector<int64_t> Session::split_sizes(const Request& request, const lower::Program& whole) const {
  constexpr size_t kManyTasks = 5000;
  const int64_t stride = whole.tasks.size() > kManyTasks ? 8 : 2;
  std::vector<int64_t> sizes;
  if (!options_.levers.micro_batch) return sizes;
  for (int64_t samples = request.batch; samples > 1;) {
    samples = (samples + stride - 1) / stride;
    if ((request.batch + samples - 1) / samples > plan::kMostParts) break;
    sizes.push_back(samples);
  }
  return sizes;
}

std::vector<lower::Program> Session::lower_splits(const Request& request, const lower::Program& whole) {
  std::vector<lower::Program> splits;
  const std::vector<int64_t> sizes = split_sizes(request, whole);
  if (sizes.empty()) return splits;
  const plan::Split split = find_split(whole.problem);
  if (!split.is_possible()) return splits;
  lower::LowerOptions lowering = lower_options(request);
  lowering.waits.assign(graph_.nodes().size(), false);
  for (size_t t = 0; t < whole.tasks.size(); ++t) {
    const std::vector<plan::BufferId>& reads = whole.problem.tasks[t].reads;
    if (whole.tasks[t].origin >= 0 && split.when[t] == plan::Split::When::After)
      lowering.waits[static_cast<size_t>(whole.tasks[t].origin)] = std::any_of(
          reads.begin(), reads.end(),
          [&](plan::BufferId id) { return whole.problem.buffers[static_cast<size_t>(id)].per_sample_bytes > 0; });
  }
  for (const int64_t samples : sizes) {
    lowering.part_samples = samples;
    lower::KernelStore kernels;  // those of a split that is not chosen go with its program
    auto program = lower_in_parts(graph_, request.fetch_ids(), request.updates, lowering, layouts_, kernels);
    if (program) splits.push_back(std::move(*program));
  }
  return splits;
}

// All of them exist at once while the fastest is chosen.
bool Session::has_room_for_splits(const PlannedStep& step, const plan::Limits& limits) const {
  const Bytes each = kBytesOfTask * std::ssize(step.program.tasks) + bytes_of_option(step.program.problem);
  return std::ssize(split_sizes(step.request, step.program)) * each <= limits.search_bytes;
}

std::vector<plan::Problem> Session::problems(size_t number) {
  const PlannedStep& step = steps_.at(number);
  std::vector<plan::Problem> problems;
  lower::KernelStore kernels;
  const lower::Program whole = lower::lower(graph_, step.request.fetch_ids(), step.request.updates,
                                            lower_options(step.request), layouts_, kernels);
  problems.push_back(whole.problem);
  if (!has_room_for_splits(step, step.limits)) return problems;
  for (lower::Program& split : lower_splits(step.request, whole)) problems.push_back(std::move(split.problem));
  return problems;
}

// Of the step, once it is planned: lowered again it takes as much.
Bytes Session::bytes_of_plan(const PlannedStep& step) {
  return step.lowered_tasks * kBytesOfTask + step.planned_actions * kBytesOfAction;
}

// Room for one more: the least recently used go. Kernels that only they had go with them.
void Session::evict_plans() {
  Bytes held = 0;
  for (size_t i = given_steps_; i < steps_.size(); ++i) held += bytes_of_plan(steps_[i]);
  const Bytes more = steps_.empty() ? 0 : bytes_of_plan(steps_.back());
  while (steps_.size() > given_steps_ && held + more > options_.plan_cache_bytes) {
    const auto oldest =
        std::min_element(steps_.begin() + static_cast<int64_t>(given_steps_), steps_.end(),
                         [](const PlannedStep& a, const PlannedStep& b) { return a.last_used < b.last_used; });
    held -= bytes_of_plan(*oldest);
    steps_.erase(oldest);
  }
  kernels_.drop_unused();
}

// Planning beside an arena that is there already must not pass the line either.
void Session::expect_room_to_plan() const {
  if (!line_.covers_process() || steps_.empty()) return;
  const int64_t tasks = steps_.front().lowered_tasks;
  const Bytes bytes = tasks * (kBytesOfTask + kBytesOfAction) +
                      std::max(kBytesToLowerNode * std::ssize(graph_.nodes()), tasks * plan::kBytesToPlanTask);
  if (bytes <= line_.free()) return;
  Refusal refusal;
  refusal.line = line_.limit();
  refusal.runtime = line_.process_bytes();
  refusal.data = options_.data_bytes;
  refusal.need = line_.used() + bytes;
  refusal.smallest_line = round_line(refusal.need + kProcessQuantum);
  refusal.reason =
      fmt::format("to plan a step for another batch takes {} beside the arena: plan it before the session opens",
                  format_bytes(bytes));
  throw DoesNotFit(std::move(refusal));
}

Bytes Session::step_bytes() const { return line_.covers_process() ? kBytesOfAction + options_.caller_step_bytes : 0; }

// What is given back when the session opens, before the arena is touched.
Bytes Session::leaving_bytes() const {
  Bytes bytes = 0;
  if (!options_.keeps_plans && !arena_)
    for (const PlannedStep& step : steps_) bytes += bytes_of_details(step.program, step.plan);
  return bytes;
}

// What the session holds around the arena, but for its plans.
Bytes Session::surrounding_bytes() const {
  return kernels_.library_bytes() + (line_.covers_process() ? options_.caller_bytes : 0) + later_bytes_ +
         transfer_bytes() + options_.data_bytes;
}

// Taken again from the start: what the process holds may have changed.
void Session::hold_surroundings() {
  library_held_.release();
  caller_held_.release();
  later_held_.release();
  plans_held_.release();
  staging_held_.release();
  arena_held_.clear();
  if (!arena_) data_.reset();
  line_.measure_process(leaving_bytes());
  runtime_bytes_ = line_.process_bytes() + kernels_.library_bytes();
  has_surroundings_ = surrounding_bytes() <= line_.free();
  if (!has_surroundings_) return;
  library_held_ = line_.reserve(Tag::Runtime, kernels_.library_bytes());
  caller_held_ = line_.reserve(Tag::Runtime, line_.covers_process() ? options_.caller_bytes : 0);
  later_held_ = line_.reserve(Tag::Runtime, later_bytes_);
  plans_held_ = line_.reserve(Tag::Runtime, 0);
  staging_held_ = line_.reserve(Tag::Staging, transfer_bytes());
  if (!data_ && options_.data_bytes > 0) data_ = line_.share(Tag::Data, options_.data_bytes);
}

Bytes Session::limit_for_arena() const {
  if (line_.limit() == MemoryLine::kUnlimited) return MemoryLine::kUnlimited;
  // When even the surroundings do not fit, plan against nothing: the refusal then names the whole need.
  if (!has_surroundings_) return 0;
  Bytes held = 0;
  for (const Reservation& reservation : arena_held_) held += reservation.bytes();
  return std::max<Bytes>(0, line_.free() + held - actions_of_later_steps_ * step_bytes() - left_for_planning_);
}

plan::Limits Session::limits_for(const PlannedStep& step) const {
  plan::Limits limits;
  limits.bytes = limit_for_arena();
  limits.batch = step.request.batch;
  limits.levers = options_.levers;
  limits.step_bytes = step_bytes();
  // Planning is done before the arena is taken, in the memory that will be the arena's.
  if (line_.covers_process() && limits.bytes < MemoryLine::kUnlimited)
    limits.search_bytes =
        std::max(kLeastSearchBytes, arena_ ? line_.free() : limits.bytes + surrounding_bytes() - leaving_bytes());
  if (may_spill()) {
    limits.disk_bytes = options_.disk_limit;
    limits.disk_read_bytes_per_s = disk_speed_.read_bytes_per_s;
    limits.disk_write_bytes_per_s = disk_speed_.write_bytes_per_s;
  }
  limits.stored = stored_;
  return limits;
}

// By this session, of the line.
Bytes Session::held_bytes() const {
  Bytes held = data_ ? data_->limit() : 0;
  for (const Reservation* one : {&library_held_, &caller_held_, &later_held_, &plans_held_, &staging_held_})
    held += one->bytes();
  for (const Reservation& reservation : arena_held_) held += reservation.bytes();
  return held;
}

// Of the process, when planning takes so much beside what is planned.
Bytes Session::peak_of_planning(Bytes planning_bytes) const {
  return line_.used() - held_bytes() + leaving_bytes() +
         std::max(planning_bytes, kBytesToLowerNode * std::ssize(graph_.nodes()));
}

Refusal Session::describe(const plan::Problem& problem, const plan::Shortfall& shortfall, Bytes planning_bytes) const {
  Refusal refusal;
  refusal.line = line_.limit();
  refusal.others = line_.used() - line_.process_bytes() - held_bytes();
  refusal.data = options_.data_bytes;
  refusal.runtime = line_.process_bytes() + surrounding_bytes() - options_.data_bytes + plans_held_.bytes() +
                    actions_of_later_steps_ * step_bytes() + left_for_planning_;
  refusal.need = shortfall.need_bytes + refusal.runtime + refusal.data + refusal.others;
  if (line_.covers_process()) {
    const Bytes to_plan = peak_of_planning(planning_bytes);
    if (to_plan > refusal.need)
      refusal.reason = fmt::format("planning the {} tasks of the step takes more than running it: {}",
                                   problem.tasks.size(), format_bytes(planning_bytes));
    refusal.need = round_line(std::max(refusal.need, to_plan) + kProcessQuantum);
  }
  refusal.smallest_line = round_line(refusal.need);
  refusal.holders = shortfall.holders;
  if (shortfall.tightest_task >= 0)
    refusal.tightest_task = problem.tasks[static_cast<size_t>(shortfall.tightest_task)].name;
  return refusal;
}

// The least line that works is named: planned with as little memory as the line left, or with more if that finds a
// lower plan and the machine has it.
void Session::refuse(const PlannedStep& step, std::span<const plan::Problem* const> problems,
                     const plan::Limits& limits, const plan::Choice& choice) const {
  const plan::Problem& whole = step.program.problem;
  const auto describe_choice = [&](const plan::Choice& made, Bytes planning_bytes) {
    return describe(*problems[made.problem], std::get<plan::Shortfall>(made.answer), planning_bytes);
  };
  Refusal refusal = describe_choice(choice, bytes_to_plan(whole));
  const Bytes to_search = bytes_of_option(whole) + bytes_of_recompute_search(whole);
  if (limits.search_bytes < to_search && available_memory_bytes() > 4 * to_search) {
    plan::Limits open = limits;
    open.bytes = 0;
    open.search_bytes = MemoryLine::kUnlimited;
    const plan::Problem* const one[] = {&whole};
    const plan::Choice searched = choose_plan(whole, one, open);
    Refusal other = describe(whole, std::get<plan::Shortfall>(searched.answer), to_search);
    if (other.need < refusal.need) refusal = std::move(other);
  }
  throw DoesNotFit(std::move(refusal));
}

// Behind the variables in the arena: a variable passes through there on its way from or to row-major memory or the
// file.
Bytes Session::staging_bytes(const PlannedStep& step) const {
  const std::vector<plan::BufferId>& stored = step.plan.stored;
  Bytes most = 0;
  for (const lower::Port& port : step.program.variables) {
    Bytes bytes = 0;
    if (!port.type.layout.is_plain()) bytes += round_up(port.type.count() * size_of(port.type.dtype), kAlignment);
    const auto first = std::lower_bound(stored.begin(), stored.end(), port.buffer);
    if (first != stored.end() && *first < port.buffer + port.tiles) bytes += round_up(port.type.bytes(), kAlignment);
    most = std::max(most, bytes);
  }
  return most;
}

// The whole step first. Micro-batches are looked at when that costs time or does not fit.
Bytes Session::plan_step(PlannedStep& step) {
  const plan::Problem& whole = step.program.problem;
  const plan::Limits limits = limits_for(step);
  const plan::Problem* const one[] = {&whole};
  plan::Choice choice = choose_plan(whole, one, limits);
  const auto* plan = std::get_if<plan::Plan>(&choice.answer);
  if (plan != nullptr && plan->predicted_ns <= plan->unconstrained_ns)
    return accept(step, std::move(std::get<plan::Plan>(choice.answer)), limits);
  std::vector<lower::Program> splits;
  if (has_room_for_splits(step, limits)) splits = lower_splits(step.request, step.program);
  std::vector<const plan::Problem*> problems;
  for (const lower::Program& split : splits) problems.push_back(&split.problem);
  std::optional<plan::Choice> better;
  if (!splits.empty())
    better = plan == nullptr ? choose_plan(whole, problems, limits)
                             : choose_faster_plan(whole, problems, limits, plan->predicted_ns);
  if (better && std::holds_alternative<plan::Plan>(better->answer)) {
    step.program = std::move(splits[better->problem]);
    splits.clear();
    kernels_.drop_unused();
    return accept(step, std::move(std::get<plan::Plan>(better->answer)), limits);
  }
  if (plan != nullptr) return accept(step, std::move(std::get<plan::Plan>(choice.answer)), limits);
  const auto need = [](const plan::Choice& made) { return std::get<plan::Shortfall>(made.answer).need_bytes; };
  if (better && need(*better) < need(choice)) refuse(step, problems, limits, *better);
  refuse(step, one, limits, choice);
}

// A plan that fits was still made past the line when planning took more than running the step does.
void Session::expect_room_for_planning(const plan::Problem& problem, const plan::Plan& plan) {
  if (!line_.covers_process() || arena_) return;
  const Bytes peak = peak_of_planning(bytes_to_plan(problem));
  peak_of_planning_ = std::max(peak_of_planning_, peak);
  if (peak <= line_.limit()) return;
  plan::Shortfall shortfall;
  shortfall.need_bytes = plan.arena_bytes + std::ssize(plan.steps) * step_bytes();
  throw DoesNotFit(describe(problem, shortfall, bytes_to_plan(problem)));
}

// Returns what is missing when the arena that earlier steps agreed on is more than this one leaves.
Bytes Session::accept(PlannedStep& step, plan::Plan plan, const plan::Limits& limits) {
  step.plan = std::move(plan);
  step.plan.steps.shrink_to_fit();
  step.plan.lives.shrink_to_fit();
  step.limits = limits;
  step.planned_actions = std::ssize(step.plan.steps);
  const std::string fault = check(step.program.problem, step.plan, limits);
  if (!fault.empty()) throw Error("the planner made a plan that its check refuses: " + fault);
  const Bytes staging = staging_bytes(step);
  const Bytes own = std::max(step.plan.arena_bytes, step.plan.variable_bytes + staging);
  const Bytes for_steps = limits.bytes_of_steps(std::ssize(step.plan.steps));
  if (own > limits.bytes - for_steps) {
    plan::Shortfall shortfall;
    shortfall.need_bytes = own + for_steps;
    shortfall.holders = {{"all variables", Tag::Weights, step.plan.variable_bytes},
                         {"one of them in another order, on its way in or out", Tag::Staging, staging}};
    throw DoesNotFit(describe(step.program.problem, shortfall, 0));
  }
  expect_room_for_planning(step.program.problem, step.plan);
  if (arena_bytes_ > limits.bytes - for_steps) return arena_bytes_ + for_steps - limits.bytes;
  arena_bytes_ = std::max(arena_bytes_, own);
  plans_held_.resize(plans_held_.bytes() + for_steps);
  if (!stored_) stored_ = step.plan.stored;
  step.file_places = Homes::place_in_file(step.program.problem, step.plan, &file_bytes_);
  hold_arena(step);
  return 0;
}

void Session::hold_arena(const PlannedStep& accepted) {
  const plan::BytesByTag* by_tag = &accepted.plan.peak_by_tag;
  Bytes largest = accepted.plan.arena_bytes;
  for (const PlannedStep& step : steps_) {
    if (step.plan.arena_bytes <= largest) continue;
    largest = step.plan.arena_bytes;
    by_tag = &step.plan.peak_by_tag;
  }
  arena_held_.clear();
  Bytes named = 0;
  for (size_t i = 0; i < kTagCount; ++i) {
    if ((*by_tag)[i] == 0) continue;
    arena_held_.push_back(line_.reserve(static_cast<Tag>(i), (*by_tag)[i]));
    named += (*by_tag)[i];
  }
  // Gaps between buffers are nobody's; they count as workspace.
  if (arena_bytes_ > named) arena_held_.push_back(line_.reserve(Tag::Workspace, arena_bytes_ - named));
}

}  // namespace plimsoll

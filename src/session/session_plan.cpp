// How a session lowers its steps and splits the line between them: the part that is done before memory is taken.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "memory/process.h"
#include "plan/check.h"
#include "plan/make_plan.h"
#include "plan/split.h"
#include "session/session.h"

namespace plimsoll {
namespace {

// Down to a power of two: a plan should not depend on the noise of a measurement.
DiskSpeed round_speed(const DiskSpeed& speed) {
  const auto round = [](double bytes_per_s) { return std::exp2(std::floor(std::log2(std::max(bytes_per_s, 1.0)))); };
  return {round(speed.read_bytes_per_s), round(speed.write_bytes_per_s)};
}

// Measured once in a process: a line that one session was told to be enough is enough for the next.
DiskSpeed speed_of_disk(const std::string& folder) {
  static std::mutex mutex;
  static std::map<std::string, DiskSpeed> known;
  const std::lock_guard lock(mutex);
  const auto at = known.find(folder);
  return at != known.end() ? at->second : known[folder] = round_speed(measure_disk(folder));
}

// A step of a plan, its lives (two on average), and what the executor holds for it: measured on the longest plans. The
// first thousands are part of the reserve.
constexpr Bytes kBytesOfStep = 192;
constexpr int64_t kStepsInReserve = 5000;

}  // namespace

Session::Session(Graph& graph, MemoryLine& line, const std::vector<Request>& requests, const SessionOptions& options)
    : graph_(graph), options_(options), line_(line) {
  graph_.finalize();
  state_.seed = options.seed;
  // Kernels of a training step decide the layouts of variables, so it is lowered before others.
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].updates.size() > requests[b].updates.size(); });
  steps_.resize(requests.size());
  for (const size_t i : order) lower_step(steps_[i], requests[i]);
  close_layouts();
  if (options.levers.spill && !options.scratch_folder.empty()) disk_speed_ = speed_of_disk(options.scratch_folder);
  plan_steps(order);
}

// Planning takes memory of its own. An earlier step that was given all of the line can leave a later one, whose plans
// came after, less than the arena that is agreed by then: all are planned again, and each leaves that much to those
// behind it.
void Session::plan_steps(const std::vector<size_t>& order) {
  constexpr int kRounds = 4;
  for (int round = 1;; ++round) {
    take_surroundings();
    Bytes missing = 0;
    for (auto i = order.begin(); i != order.end() && missing == 0; ++i) {
      steps_behind_ = order.end() - i - 1;
      missing = plan_step(steps_[*i]);
    }
    if (missing == 0) return;
    if (round == kRounds) refuse_grown(steps_[order.front()]);
    left_for_planning_ += 2 * missing;
    forget_plans(order);
  }
}

// The surroundings leave less than the arena that the plans agreed on.
void Session::refuse_grown(const PlannedStep& step) const {
  Shortfall shortfall;
  shortfall.need_bytes = arena_bytes_;
  throw DoesNotFit(describe(step.program.problem, shortfall));
}

void Session::forget_plans(const std::vector<size_t>& order) {
  stored_.reset();
  arena_bytes_ = file_bytes_ = bytes_of_plans_ = 0;
  planned_steps_ = 0;
  for (const size_t i : order) lower_step(steps_[i], Request(steps_[i].request));
}

LowerOptions Session::lower_options(const Request& request) const {
  LowerOptions lowering;
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
  step.program = lower(graph_, request.fetch_ids(), request.updates, lower_options(request), layouts_, kernels_);
}

// Variables that no kernel met stay row-major from now on: their place must not change when more steps are planned.
void Session::close_layouts() {
  for (const Variable& variable : graph_.variables()) layouts_.try_emplace(variable.value, Layout());
}

// Parts of half the batch, of a quarter, and so on down to one sample; in larger strides where each takes long.
std::vector<Program> Session::lower_splits(const Request& request, const Program& whole) {
  std::vector<Program> splits;
  if (!options_.levers.micro_batch || request.batch == 1) return splits;
  const Split split = find_split(whole.problem);
  if (!split.is_possible()) return splits;
  LowerOptions lowering = lower_options(request);
  lowering.waits.assign(graph_.nodes().size(), false);
  for (size_t t = 0; t < whole.tasks.size(); ++t) {
    const std::vector<BufferId>& reads = whole.problem.tasks[t].reads;
    if (whole.tasks[t].origin >= 0 && split.when[t] == Split::When::After)
      lowering.waits[static_cast<size_t>(whole.tasks[t].origin)] =
          std::any_of(reads.begin(), reads.end(),
                      [&](BufferId id) { return whole.problem.buffers[static_cast<size_t>(id)].per_sample_bytes > 0; });
  }
  constexpr size_t kManyTasks = 5000;
  const int64_t stride = whole.tasks.size() > kManyTasks ? 8 : 2;
  for (int64_t samples = lowering.batch; samples > 1;) {
    samples = (samples + stride - 1) / stride;
    lowering.part_samples = samples;
    KernelStore kernels;  // those of a split that is not chosen go with its program
    auto program = lower_in_parts(graph_, request.fetch_ids(), request.updates, lowering, layouts_, kernels);
    if (program) splits.push_back(std::move(*program));
  }
  return splits;
}

std::vector<Problem> Session::problems(size_t number) {
  const PlannedStep& step = steps_.at(number);
  std::vector<Problem> problems;
  KernelStore kernels;
  const Program whole =
      lower(graph_, step.request.fetch_ids(), step.request.updates, lower_options(step.request), layouts_, kernels);
  problems.push_back(whole.problem);
  for (Program& split : lower_splits(step.request, whole)) problems.push_back(std::move(split.problem));
  return problems;
}

// What the line must hold besides the arena: also the plans that were made already.
void Session::take_surroundings() {
  Bytes runtime = options_.reserve + kernels_.library_bytes() + bytes_of_plans_;
  if (options_.covers_process) {
    trim_allocator();
    runtime += resident_bytes() - (arena_ ? arena_->committed() : 0);
  }
  hold_surroundings(runtime);
}

void Session::hold_surroundings(Bytes runtime_bytes) {
  runtime_held_.release();
  data_held_.release();
  staging_held_.release();
  runtime_bytes_ = runtime_bytes;
  if (runtime_bytes_ + options_.data_bytes + transfer_bytes() > line_.free()) return;
  runtime_held_ = line_.reserve(Tag::Runtime, runtime_bytes_);
  data_held_ = line_.reserve(Tag::Data, options_.data_bytes);
  staging_held_ = line_.reserve(Tag::Staging, transfer_bytes());
}

Bytes Session::limit_for_arena() const {
  if (line_.limit() == MemoryLine::kUnlimited) return MemoryLine::kUnlimited;
  Bytes held = 0;
  for (const Reservation& reservation : arena_held_) held += reservation.bytes();
  // When even the surroundings do not fit, plan against nothing: the refusal then names the whole need.
  if (runtime_held_.bytes() < runtime_bytes_) return 0;
  return std::max<Bytes>(0, line_.free() + held - left_for_planning_ * steps_behind_);
}

Limits Session::limits_for(const PlannedStep& step) const {
  Limits limits;
  limits.bytes = limit_for_arena();
  limits.batch = step.request.batch;
  limits.levers = options_.levers;
  if (options_.covers_process) {
    limits.step_bytes = kBytesOfStep;
    limits.free_steps = std::max<int64_t>(0, kStepsInReserve - planned_steps_);
  }
  if (may_spill()) {
    limits.disk_bytes = options_.disk_limit;
    limits.disk_read_bytes_per_s = disk_speed_.read_bytes_per_s;
    limits.disk_write_bytes_per_s = disk_speed_.write_bytes_per_s;
  }
  limits.stored = stored_;
  return limits;
}

Fit Session::describe(const Problem& problem, const Shortfall& shortfall) const {
  Fit fit;
  fit.line = line_.limit();
  fit.runtime = runtime_bytes_ + transfer_bytes();
  fit.data = options_.data_bytes;
  fit.need = shortfall.need_bytes + left_for_planning_ * steps_behind_ + fit.runtime + fit.data;
  fit.smallest_line = round_up(fit.need + (options_.covers_process ? kRuntimeSpread : 0), MiB);
  fit.holders = shortfall.holders;
  if (shortfall.tightest_task >= 0)
    fit.tightest_task = problem.tasks[static_cast<size_t>(shortfall.tightest_task)].name;
  return fit;
}

// Behind the variables in the arena: a variable passes through there on its way from or to row-major memory or the
// file.
Bytes Session::staging_bytes(const PlannedStep& step) const {
  const std::vector<BufferId>& stored = step.plan.stored;
  Bytes most = 0;
  for (const Port& port : step.program.variables) {
    Bytes bytes = 0;
    if (!port.type.layout.is_plain()) bytes += round_up(port.type.count() * size_of(port.type.dtype), kAlignment);
    const auto first = std::lower_bound(stored.begin(), stored.end(), port.buffer);
    if (first != stored.end() && *first < port.buffer + port.tiles) bytes += round_up(port.type.bytes(), kAlignment);
    most = std::max(most, bytes);
  }
  return most;
}

// The whole step first. Splits are looked at when that costs time or does not fit: their kernels take memory of their
// own, so the line leaves them a little less. When that is less than the arena of the steps before, nothing is
// accepted.
Bytes Session::plan_step(PlannedStep& step) {
  const Problem& whole = step.program.problem;
  const Limits limits = limits_for(step);
  auto answer = make_plan(whole, limits);
  const auto* plan = std::get_if<Plan>(&answer);
  if (plan != nullptr && plan->predicted_ns <= plan->unconstrained_ns) {
    accept(step, std::move(std::get<Plan>(answer)), limits);
    return 0;
  }
  std::vector<Program> splits = lower_splits(step.request, step.program);
  if (splits.empty()) {
    if (plan == nullptr) throw DoesNotFit(describe(whole, std::get<Shortfall>(answer)));
    accept(step, std::move(std::get<Plan>(answer)), limits);
    return 0;
  }
  std::vector<const Problem*> problems;
  for (const Program& split : splits) problems.push_back(&split.problem);
  const Bytes runtime_before = runtime_bytes_;
  const std::optional<Fit> whole_fit =
      plan == nullptr ? std::optional(describe(whole, std::get<Shortfall>(answer))) : std::nullopt;
  take_surroundings();
  const Limits limits_of_splits = limits_for(step);
  std::optional<Choice> choice = plan == nullptr
                                     ? choose_plan(whole, problems, limits_of_splits)
                                     : choose_faster_plan(whole, problems, limits_of_splits, plan->predicted_ns);
  if (choice && std::holds_alternative<Plan>(choice->answer)) {
    const Bytes missing = arena_bytes_ - limits_of_splits.bytes;
    if (missing <= 0) {
      step.program = std::move(splits[choice->problem]);
      accept(step, std::move(std::get<Plan>(choice->answer)), limits_of_splits);
      return 0;
    }
    if (plan == nullptr) return missing;
  }
  if (plan == nullptr) {
    const Fit split_fit = describe(*problems[choice->problem], std::get<Shortfall>(choice->answer));
    throw DoesNotFit(split_fit.need < whole_fit->need ? split_fit : *whole_fit);
  }
  splits.clear();
  hold_surroundings(runtime_before);
  accept(step, std::move(std::get<Plan>(answer)), limits);
  return 0;
}

void Session::accept(PlannedStep& step, Plan plan, const Limits& limits) {
  step.plan = std::move(plan);
  step.plan.steps.shrink_to_fit();
  step.plan.lives.shrink_to_fit();
  step.limits = limits;
  const std::string fault = check(step.program.problem, step.plan, limits);
  if (!fault.empty()) throw Error("the planner made a plan that its check refuses: " + fault);
  const Bytes staging = staging_bytes(step);
  const Bytes needed = std::max({arena_bytes_, step.plan.arena_bytes, step.plan.variable_bytes + staging});
  const Bytes for_steps = limits.bytes_of_steps(static_cast<int64_t>(step.plan.steps.size()));
  if (needed > limits.bytes - for_steps) {
    Shortfall shortfall;
    shortfall.need_bytes = needed + for_steps;
    shortfall.holders = {{"all variables", Tag::Weights, step.plan.variable_bytes},
                         {"one of them in another order, on its way in or out", Tag::Staging, staging}};
    throw DoesNotFit(describe(step.program.problem, shortfall));
  }
  arena_bytes_ = needed;
  planned_steps_ += static_cast<int64_t>(step.plan.steps.size());
  bytes_of_plans_ += for_steps;
  hold_surroundings(runtime_bytes_ + for_steps);
  if (!stored_) stored_ = step.plan.stored;
  step.file_places = Homes::place_in_file(step.program.problem, step.plan, &file_bytes_);
}

}  // namespace plimsoll

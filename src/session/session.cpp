#include "session/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "memory/process.h"
#include "plan/check.h"
#include "plan/make_plan.h"
#include "plan/split.h"
#include "session/fit.h"
#include "session/variables.h"

namespace plimsoll {
namespace {

std::vector<ValueId> ids_of(const std::vector<Tensor>& tensors) {
  std::vector<ValueId> ids;
  for (const Tensor& tensor : tensors) ids.push_back(tensor.id());
  return ids;
}

bool equal(const Request& a, const Request& b) {
  return a.batch == b.batch && a.updates == b.updates && ids_of(a.fetches) == ids_of(b.fetches);
}

// Down to a power of two: a plan should not depend on the noise of a measurement.
DiskSpeed round_speed(const DiskSpeed& speed) {
  const auto round = [](double bytes_per_s) { return std::exp2(std::floor(std::log2(std::max(bytes_per_s, 1.0)))); };
  return {round(speed.read_bytes_per_s), round(speed.write_bytes_per_s)};
}

// Where a buffer lies at the start of the step.
Bytes place_of(const Plan& plan, BufferId buffer) {
  for (const Life& life : plan.lives)
    if (life.buffer == buffer) return life.offset;
  return -1;
}

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
  if (options.levers.spill && !options.scratch_folder.empty())
    disk_speed_ = round_speed(measure_disk(options.scratch_folder));
  take_surroundings();
  // Kernels of parts take memory too, so they are made before it is counted what the process holds.
  bool has_splits = false;
  for (PlannedStep& step : steps_) {
    if (fits_freely(step.program.problem, limits_for(step))) continue;
    lower_splits(step);
    has_splits = has_splits || !step.splits.empty();
  }
  if (has_splits) take_surroundings();
  for (const size_t i : order) plan_step(steps_[i]);
}

Session::~Session() { close(); }

void Session::lower_step(PlannedStep& step, const Request& request) {
  if (request.batch <= 0) throw Error(fmt::format("a batch of {} is none", request.batch));
  for (const Tensor& fetch : request.fetches)
    if (!fetch.is_set() || &fetch.graph() != &graph_) throw Error("a fetch is unset or belongs to another graph");
  step.request = request;
  LowerOptions lowering;
  lowering.batch = request.batch;
  step.program = lower(graph_, ids_of(request.fetches), request.updates, lowering, layouts_, kernels_);
}

// Variables that no kernel met stay row-major from now on: their place must not change when more steps are planned.
void Session::close_layouts() {
  for (const Variable& variable : graph_.variables()) layouts_.try_emplace(variable.value, Layout());
}

// Parts of half the batch, of a quarter, and so on down to one sample.
void Session::lower_splits(PlannedStep& step) {
  if (!options_.levers.micro_batch) return;
  const Split split = find_split(step.program.problem);
  if (!split.is_possible()) return;
  LowerOptions lowering;
  lowering.batch = step.request.batch;
  lowering.waits.assign(graph_.nodes().size(), false);
  for (size_t t = 0; t < step.program.tasks.size(); ++t) {
    const std::vector<BufferId>& reads = step.program.problem.tasks[t].reads;
    if (step.program.tasks[t].origin >= 0 && split.when[t] == Split::When::After)
      lowering.waits[static_cast<size_t>(step.program.tasks[t].origin)] = std::any_of(
          reads.begin(), reads.end(),
          [&](BufferId id) { return step.program.problem.buffers[static_cast<size_t>(id)].per_sample_bytes > 0; });
  }
  for (int64_t samples = lowering.batch; samples > 1;) {
    samples = (samples + 1) / 2;
    lowering.part_samples = samples;
    KernelStore kernels;  // those of parts that are not chosen go with their program
    if (auto program =
            lower_in_parts(graph_, ids_of(step.request.fetches), step.request.updates, lowering, layouts_, kernels))
      step.splits.push_back(std::move(*program));
  }
}

// What the line must hold besides the arena.
void Session::take_surroundings() {
  runtime_held_.release();
  data_held_.release();
  staging_held_.release();
  runtime_bytes_ = options_.reserve + kernels_.library_bytes();
  if (options_.covers_process) {
    trim_allocator();
    runtime_bytes_ += resident_bytes();
  }
  const Bytes staging = disk_speed_.read_bytes_per_s > 0 ? Homes::kBytes : 0;
  if (runtime_bytes_ + options_.data_bytes + staging > line_.free()) return;
  runtime_held_ = line_.reserve(Tag::Runtime, runtime_bytes_);
  data_held_ = line_.reserve(Tag::Data, options_.data_bytes);
  staging_held_ = line_.reserve(Tag::Staging, staging);
}

Bytes Session::limit_for_arena() const {
  if (line_.limit() == MemoryLine::kUnlimited) return MemoryLine::kUnlimited;
  Bytes held = 0;
  for (const Reservation& reservation : arena_held_) held += reservation.bytes();
  // When even the surroundings do not fit, plan against nothing: the refusal then names the whole need.
  return runtime_held_.bytes() < runtime_bytes_ ? 0 : std::max<Bytes>(0, line_.free() + held);
}

Limits Session::limits_for(const PlannedStep& step) const {
  Limits limits;
  limits.bytes = limit_for_arena();
  limits.batch = step.request.batch;
  limits.levers = options_.levers;
  if (disk_speed_.read_bytes_per_s > 0) {
    limits.disk_bytes = options_.disk_limit;
    limits.disk_read_bytes_per_s = disk_speed_.read_bytes_per_s;
    limits.disk_write_bytes_per_s = disk_speed_.write_bytes_per_s;
  }
  limits.stored = stored_;
  return limits;
}

void Session::refuse(const Problem& problem, const Shortfall& shortfall) const {
  Fit fit;
  fit.line = line_.limit();
  fit.runtime = runtime_bytes_ + (disk_speed_.read_bytes_per_s > 0 ? Homes::kBytes : 0);
  fit.data = options_.data_bytes;
  fit.need = shortfall.need_bytes + fit.runtime + fit.data;
  fit.smallest_line = round_up(fit.need + (options_.covers_process ? kRuntimeSpread : 0), MiB);
  fit.holders = shortfall.holders;
  if (shortfall.tightest_task >= 0)
    fit.tightest_task = problem.tasks[static_cast<size_t>(shortfall.tightest_task)].name;
  throw DoesNotFit(std::move(fit));
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

void Session::plan_step(PlannedStep& step) {
  const Limits limits = limits_for(step);
  std::vector<const Problem*> problems{&step.program.problem};
  for (const Program& split : step.splits) problems.push_back(&split.problem);
  Choice choice = choose_plan(problems, limits);
  if (const auto* shortfall = std::get_if<Shortfall>(&choice.answer)) refuse(*problems[choice.problem], *shortfall);
  if (choice.problem > 0) step.program = std::move(step.splits[choice.problem - 1]);
  step.splits.clear();
  step.plan = std::move(std::get<Plan>(choice.answer));
  const std::string fault = check(step.program.problem, step.plan, limits);
  if (!fault.empty()) throw Error("the planner made a plan that its check refuses: " + fault);
  if (!stored_) stored_ = step.plan.stored;
  step.file_places = Homes::place_in_file(step.program.problem, step.plan, &file_bytes_);
  arena_bytes_ = std::max({arena_bytes_, step.plan.arena_bytes, step.plan.variable_bytes + staging_bytes(step)});
}

void Session::open() {
  if (closed_) throw Error("the session is closed and can't run again; make another one");
  if (arena_) return;
  take_arena();
  if (!steps_.empty())
    homes_ = Homes(steps_.front().program.problem, steps_.front().plan, arena_->data(), options_.scratch_folder,
                   file_bytes_);
  for (PlannedStep& step : steps_) bind(step);
  initialize();
}

void Session::take_arena() {
  if (!arena_) {
    const Bytes most = line_.limit() == MemoryLine::kUnlimited ? 1024 * GiB : round_up(line_.limit(), Arena::kPage);
    arena_.emplace(most);
  }
  arena_held_.clear();
  BytesByTag by_tag{};
  Bytes largest = 0;
  for (const PlannedStep& step : steps_) {
    if (step.plan.arena_bytes < largest) continue;
    largest = step.plan.arena_bytes;
    by_tag = step.plan.peak_by_tag;
  }
  Bytes named = 0;
  for (size_t i = 0; i < kTagCount; ++i) {
    if (by_tag[i] == 0) continue;
    arena_held_.push_back(line_.reserve(static_cast<Tag>(i), by_tag[i]));
    named += by_tag[i];
  }
  // Gaps between buffers are nobody's; they count as workspace.
  if (arena_bytes_ > named) arena_held_.push_back(line_.reserve(Tag::Workspace, arena_bytes_ - named));
  arena_->commit(arena_bytes_);
}

void Session::close() {
  if (closed_) return;
  for (PlannedStep& step : steps_) step.executor.reset();
  homes_ = {};
  arena_.reset();
  arena_held_.clear();
  runtime_held_.release();
  data_held_.release();
  staging_held_.release();
  steps_.clear();
  kernels_ = KernelStore();
  closed_ = true;
}

void Session::bind(PlannedStep& step) {
  step.executor = std::make_unique<Executor>(step.program, step.plan, arena_->data(),
                                             FilePlaces{homes_.transfers(), step.file_places});
  step.feed_places.clear();
  for (const Port& port : step.program.feeds)
    step.feed_places.push_back(arena_->data() + place_of(step.plan, port.buffer));
  step.views.clear();
  for (const Port& port : step.program.fetches) {
    // A fetch lies where the last life of its buffer is.
    Bytes place = -1;
    for (const Life& life : step.plan.lives)
      if (life.buffer == port.buffer) place = life.offset;
    step.views.push_back({port.type.dtype, port.type.dims, arena_->data() + place, port.type.bytes()});
  }
}

void Session::initialize() {
  if (steps_.empty()) return;
  const PlannedStep& step = steps_.front();
  for (const Port& port : step.program.variables) {
    const Variable& variable = graph_.variable_of(port.value);
    std::byte* place = homes_.place(port, staging());
    initialize_variable(variable.init, options_.seed, graph_.name(graph_.value(port.value)), port.type, place,
                        plain_staging(port));
    homes_.write(port, place);
  }
  for (const Port& port : step.program.constants) {
    const Constant& constant = graph_.constant_of(port.value);
    std::memcpy(arena_->data() + place_of(step.plan, port.buffer), constant.bytes.data(), constant.bytes.size());
  }
}

std::byte* Session::staging() { return arena_->data() + steps_.front().plan.variable_bytes; }
std::byte* Session::plain_staging(const Port& port) { return staging() + round_up(port.type.bytes(), kAlignment); }

size_t Session::find_or_plan(const Request& request) {
  for (size_t i = 0; i < steps_.size(); ++i)
    if (equal(steps_[i].request, request)) return i;
  if (closed_) throw Error("the session is closed and can't run again; make another one");
  PlannedStep step;
  lower_step(step, request);
  if (!fits_freely(step.program.problem, limits_for(step))) lower_splits(step);
  plan_step(step);
  steps_.push_back(std::move(step));
  if (arena_) {
    take_arena();
    bind(steps_.back());
  }
  return steps_.size() - 1;
}

std::span<const View> Session::run(std::span<const Tensor> fetches, std::span<const Feed> feeds) {
  return run(Request{{fetches.begin(), fetches.end()}, {}, 0}, feeds);
}

std::span<const View> Session::run(const Request& request, std::span<const Feed> feeds) {
  Request exact = request;
  exact.batch = 1;
  for (const Feed& feed : feeds) {
    const TensorType& type = feed.placeholder.type();
    const Dim count = element_count(type.shape);
    if (!count.is_batch()) continue;
    const Bytes sample_bytes = count.count() * size_of(type.dtype);
    if (feed.bytes % sample_bytes != 0)
      throw Error(fmt::format("feed '{}' has {} bytes, which is no multiple of the {} bytes of a sample",
                              feed.placeholder.name(), feed.bytes, sample_bytes));
    exact.batch = feed.bytes / sample_bytes;
    break;
  }
  return run_step(find_or_plan(exact), feeds);
}

PlannedStep& Session::take_feeds(size_t number, std::span<const Feed> feeds) {
  open();
  PlannedStep& step = steps_.at(number);
  for (size_t i = 0; i < step.program.feeds.size(); ++i) {
    const Port& port = step.program.feeds[i];
    const auto feed =
        std::find_if(feeds.begin(), feeds.end(), [&](const Feed& f) { return f.placeholder.id() == port.value; });
    if (feed == feeds.end())
      throw Error(fmt::format("placeholder '{}' {} needs a feed", graph_.name(graph_.value(port.value)),
                              to_string(graph_.value(port.value).type)));
    if (feed->bytes != port.type.bytes())
      throw Error(fmt::format("feed '{}' has {} bytes but {}{} needs {}", feed->placeholder.name(), feed->bytes,
                              name_of(port.type.dtype), to_string(port.type.dims), port.type.bytes()));
    std::memcpy(step.feed_places[i], feed->data, static_cast<size_t>(feed->bytes));
  }
  return step;
}

std::span<const View> Session::run_step(size_t number, std::span<const Feed> feeds) {
  PlannedStep& step = take_feeds(number, feeds);
  step.executor->run(state_);
  if (homes_.transfers() != nullptr) homes_.transfers()->rethrow();
  if (!step.request.updates.empty()) ++state_.step;
  return step.views;
}

std::span<const View> Session::run_timed(size_t number, std::span<const Feed> feeds, std::span<int64_t> step_ns) {
  PlannedStep& step = take_feeds(number, feeds);
  step.executor->run_timed(state_, step_ns);
  if (homes_.transfers() != nullptr) homes_.transfers()->rethrow();
  if (!step.request.updates.empty()) ++state_.step;
  return step.views;
}

Port Session::port_of(Tensor variable) {
  open();
  if (!variable.is_set() || &variable.graph() != &graph_ || graph_.value(variable.id()).kind != ValueKind::Variable ||
      steps_.empty())
    throw Error("only variables of this session's graph have a value to get or set");
  for (const Port& port : steps_.front().program.variables)
    if (port.value == variable.id()) return port;
  throw Error("variable not found");
}

void Session::get(Tensor variable, void* into, Bytes bytes) {
  const Port port = port_of(variable);
  expect_bytes(variable, port.type, bytes);
  copy_to_plain(port.type, homes_.read(port, staging()), into);
}

std::span<const std::byte> Session::peek(Tensor variable) {
  const Port port = port_of(variable);
  const std::byte* value = homes_.read(port, staging());
  const auto bytes = static_cast<size_t>(port.type.count() * size_of(port.type.dtype));
  if (port.type.layout.is_plain()) return {value, bytes};
  std::byte* plain = plain_staging(port);
  copy_to_plain(port.type, value, plain);
  return {plain, bytes};
}

void Session::fill(Tensor variable, const std::function<void(void* into, Bytes bytes)>& write) {
  const Port port = port_of(variable);
  std::byte* place = homes_.place(port, staging());
  std::byte* plain = port.type.layout.is_plain() ? place : plain_staging(port);
  write(plain, port.type.count() * size_of(port.type.dtype));
  if (plain != place) copy_from_plain(port.type, plain, place);
  homes_.write(port, place);
}

void Session::set(Tensor variable, const void* from, Bytes bytes) {
  const Port port = port_of(variable);
  expect_bytes(variable, port.type, bytes);
  std::byte* place = homes_.place(port, staging());
  copy_from_plain(port.type, from, place);
  homes_.write(port, place);
}

}  // namespace plimsoll

#include "session/session.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/process.h"
#include "session/bad_data.h"
#include "session/variables.h"

namespace plimsoll {
namespace {

bool equal(const Request& a, const Request& b) {
  return a.batch == b.batch && a.updates == b.updates && a.fetch_ids() == b.fetch_ids();
}

// Where a buffer lies at the start of the step.
Bytes place_of(const plan::Plan& plan, plan::BufferId buffer) {
  for (const plan::Life& life : plan.lives)
    if (life.buffer == buffer) return life.offset;
  return -1;
}

void expect_memory(Tensor variable, const void* memory) {
  if (memory == nullptr) throw Error(fmt::format("the memory given for variable '{}' is null", variable.name()));
}

}  // namespace

std::vector<ValueId> Request::fetch_ids() const {
  std::vector<ValueId> ids;
  for (const Tensor& tensor : fetches) ids.push_back(tensor.id());
  return ids;
}

Session::~Session() { close(); }

void Session::expect_graph() const {
  if (!graph_lives_->load(std::memory_order_relaxed))
    throw Error("the graph of this session is gone; keep the graph for as long as the session is used");
}

void Session::open() {
  expect_graph();
  if (closed_) throw Error("the session is closed and can't run again; make another one");
  if (arena_) return;
  const Bytes most = line_.limit() == MemoryLine::kUnlimited ? 1024 * GiB : round_up(line_.limit(), Arena::kPage);
  arena_.emplace(most);
  if (!steps_.empty())
    homes_ = Homes(steps_.front().program.problem, steps_.front().plan, arena_->data(), options_.scratch_folder,
                   file_bytes_);
  if (homes_.transfers() != nullptr) staging_held_.set_resident(staging_held_.bytes());
  for (PlannedStep& step : steps_) {
    bind(step);
    if (!options_.keeps_plans) forget_details(step);
  }
  later_held_.release();
  // What planning and binding needed for themselves goes before the arena comes; executors are now the process's.
  plans_held_.resize(0);
  line_.measure_process();
  commit_arena();
  initialize();
}

// What a step that is bound needs no more: most of what a deep model takes beside its tensors.
void Session::forget_details(PlannedStep& step) {
  step.program.problem = {};
  step.program.tasks = {};
  step.plan.steps = {};
  step.plan.lives = {};
  step.plan.decisions = {};
  step.file_places = {};
}

void Session::commit_arena() {
  arena_->commit(arena_bytes_);
  for (Reservation& held : arena_held_) held.set_resident(held.bytes());
}

void Session::close() {
  if (closed_) return;
  is_readable_->store(false);
  for (PlannedStep& step : steps_) step.executor.reset();
  homes_ = {};
  arena_.reset();
  arena_held_.clear();
  library_held_.release();
  caller_held_.release();
  later_held_.release();
  plans_held_.release();
  staging_held_.release();
  data_.reset();
  kernels_ = lower::KernelStore();
  closed_ = true;
}

void Session::bind(PlannedStep& step) {
  step.executor = std::make_unique<run::Executor>(step.program, step.plan, arena_->data(),
                                                  run::FilePlaces{homes_.transfers(), step.file_places});
  step.origins.clear();
  step.origins.reserve(step.plan.steps.size());
  for (const plan::Step& action : step.plan.steps)
    step.origins.push_back(
        {action.task < 0 ? -1 : step.program.tasks[static_cast<size_t>(action.task)].origin, action.part});
  step.feed_places.clear();
  for (const lower::Port& port : step.program.feeds)
    step.feed_places.push_back(arena_->data() + place_of(step.plan, port.buffer));
  step.views.clear();
  for (const lower::Port& port : step.program.fetches) {
    // A fetch lies where the last life of its buffer is.
    Bytes place = -1;
    for (const plan::Life& life : step.plan.lives)
      if (life.buffer == port.buffer) place = life.offset;
    step.views.emplace_back(port.type.dtype, port.type.dims, arena_->data() + place, port.type.bytes(), is_readable_);
  }
}

void Session::initialize() {
  if (steps_.empty()) return;
  const PlannedStep& step = steps_.front();
  for (const lower::Port& port : step.program.variables) {
    const Variable& variable = graph_.variable_of(port.value);
    std::byte* place = homes_.place(port, staging());
    initialize_variable(variable.init, options_.seed, graph_.name(graph_.value(port.value)), port.type, place,
                        plain_staging(port));
    homes_.write(port, place);
  }
  for (const lower::Port& port : step.program.constants) {
    const Constant& constant = graph_.constant_of(port.value);
    std::memcpy(arena_->data() + homes_.arena_place(port.buffer), constant.bytes.data(), constant.bytes.size());
  }
}

std::byte* Session::staging() { return arena_->data() + steps_.front().plan.variable_bytes; }
std::byte* Session::plain_staging(const lower::Port& port) {
  return homes_.is_resident(port) ? staging() : staging() + round_up(port.type.bytes(), kAlignment);
}

size_t Session::plan(const Request& request) {
  if (arena_ || closed_) throw Error("a step can be added to a session before it opens, not after");
  later_held_.release();
  later_bytes_ = 0;
  const size_t number = find_or_plan(request);
  given_steps_ = std::max(given_steps_, number + 1);
  return number;
}

size_t Session::find_or_plan(const Request& request) {
  ++runs_;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!equal(steps_[i].request, request)) continue;
    steps_[i].last_used = runs_;
    return i;
  }
  if (closed_) throw Error("the session is closed and can't run again; make another one");
  const auto turn = line_.take_planning_turn();
  evict_plans();
  actions_of_later_steps_ = 0;
  if (arena_) {
    line_.measure_process();
    expect_room_to_plan();
  }
  PlannedStep step;
  step.last_used = runs_;
  lower_step(step, request);
  if (plan_step(step) > 0) refuse_grown(step);
  steps_.push_back(std::move(step));
  if (arena_) {
    commit_arena();
    bind(steps_.back());
    if (!options_.keeps_plans) forget_details(steps_.back());
    plans_held_.resize(0);
  }
  line_.measure_process(leaving_bytes());
  return steps_.size() - 1;
}

std::span<const View> Session::run(std::span<const Tensor> fetches, std::span<const Feed> feeds) {
  return run(Request{{fetches.begin(), fetches.end()}, {}, 0}, feeds);
}

std::span<const View> Session::run(const Request& request, std::span<const Feed> feeds) {
  expect_graph();
  check_feeds(feeds);
  for (const Tensor& fetch : request.fetches)
    if (fetch.owner() != &graph_) throw Error("a fetch is unset or belongs to another graph");
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

class Session::Turn {
 public:
  explicit Turn(Session& session) : is_busy_(session.is_busy_) {
    if (is_busy_.exchange(true, std::memory_order_acquire))
      throw Error("the session is in use by another thread; give each thread a session of its own, or a lock");
  }
  ~Turn() { is_busy_.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& is_busy_;
};

// A few comparisons for each feed: steps are short.
void Session::check_feeds(std::span<const Feed> feeds) const {
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Feed& feed = feeds[i];
    if (feed.placeholder.owner() != &graph_)
      throw Error(fmt::format("feed {} is for a tensor that is unset or belongs to another graph", i));
    const Value& value = graph_.value(feed.placeholder.id());
    if (value.kind != ValueKind::Placeholder)
      throw Error(fmt::format("'{}' is no placeholder and can't be fed", graph_.name(value)));
    if (feed.dtype != value.type.dtype)
      throw Error(fmt::format("feed '{}' has numbers of {} but the placeholder is {}", graph_.name(value),
                              name_of(feed.dtype), to_string(value.type)));
    if (feed.bytes < 0 || (feed.data == nullptr && feed.bytes > 0))
      throw Error(fmt::format("feed '{}' has {} bytes at a null address", graph_.name(value), feed.bytes));
    for (size_t j = 0; j < i; ++j)
      if (feeds[j].placeholder.id() == feed.placeholder.id())
        throw Error(fmt::format("placeholder '{}' is fed twice", graph_.name(value)));
  }
}

PlannedStep& Session::take_feeds(size_t number, std::span<const Feed> feeds) {
  open();
  if (number >= steps_.size())
    throw Error(fmt::format("there is no step {}: the session has {}", number, steps_.size()));
  check_feeds(feeds);
  line_.expect_no_growth();
  PlannedStep& step = steps_[number];
  for (size_t i = 0; i < step.program.feeds.size(); ++i) {
    const lower::Port& port = step.program.feeds[i];
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
  status_ = {};
  state_.status = &status_;
  return step;
}

// The step has changed what it changes, bad values or not: it counts.
std::span<const View> Session::finish(PlannedStep& step) {
  if (homes_.transfers() != nullptr) homes_.transfers()->rethrow();
  if (!step.request.updates.empty()) ++state_.step;
  if (!status_.is_good()) throw Error(describe_bad_value(status_, graph_, step), ErrorKind::BadData);
  return step.views;
}

std::span<const View> Session::run_step(size_t number, std::span<const Feed> feeds) {
  const Turn turn(*this);
  PlannedStep& step = take_feeds(number, feeds);
  step.executor->run(state_);
  return finish(step);
}

std::span<const View> Session::run_timed(size_t number, std::span<const Feed> feeds, std::span<int64_t> step_ns) {
  const Turn turn(*this);
  PlannedStep& step = take_feeds(number, feeds);
  if (step_ns.size() < step.executor->steps())
    throw Error(fmt::format("{} times have no room in {}", step.executor->steps(), step_ns.size()));
  step.executor->run_timed(state_, step_ns);
  return finish(step);
}

lower::Port Session::port_of(Tensor variable) {
  open();
  if (variable.owner() != &graph_ || graph_.value(variable.id()).kind != ValueKind::Variable || steps_.empty())
    throw Error("only variables of this session's graph have a value to get or set");
  // A program lists all variables, in the order of the graph.
  return steps_.front().program.variables[static_cast<size_t>(graph_.value(variable.id()).extra)];
}

void Session::get(Tensor variable, void* into, Bytes bytes) {
  const Turn turn(*this);
  const lower::Port port = port_of(variable);
  expect_bytes(variable, port.type, bytes);
  expect_memory(variable, into);
  copy_to_plain(port.type, homes_.read(port, staging()), into);
}

std::span<const std::byte> Session::peek(Tensor variable) {
  const Turn turn(*this);
  const lower::Port port = port_of(variable);
  const std::byte* value = homes_.read(port, staging());
  const auto bytes = static_cast<size_t>(port.type.count() * size_of(port.type.dtype));
  if (port.type.layout.is_plain()) return {value, bytes};
  std::byte* plain = plain_staging(port);
  copy_to_plain(port.type, value, plain);
  return {plain, bytes};
}

void Session::fill(Tensor variable, const std::function<void(void* into, Bytes bytes)>& write) {
  const Turn turn(*this);
  const lower::Port port = port_of(variable);
  std::byte* place = homes_.place(port, staging());
  std::byte* plain = port.type.layout.is_plain() ? place : plain_staging(port);
  write(plain, port.type.count() * size_of(port.type.dtype));
  if (plain != place) copy_from_plain(port.type, plain, place);
  homes_.write(port, place);
}

void Session::set(Tensor variable, const void* from, Bytes bytes) {
  const Turn turn(*this);
  const lower::Port port = port_of(variable);
  expect_bytes(variable, port.type, bytes);
  expect_memory(variable, from);
  std::byte* place = homes_.place(port, staging());
  copy_from_plain(port.type, from, place);
  homes_.write(port, place);
}

}  // namespace plimsoll

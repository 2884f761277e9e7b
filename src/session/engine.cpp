#include "session/engine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "plan/effort.h"
#include "session/bad_data.h"
#include "session/variables.h"
#include "weights/finite.h"

namespace plimsoll::session {
namespace {

// The buffer's place at the start of the step.
Bytes first_place(const plan::Plan& plan, plan::BufferId buffer) {
  for (const plan::Life& life : plan.lives)
    if (life.buffer == buffer) return life.offset;
  return -1;
}

// A fetched value lies where the last life of its buffer is.
Bytes last_place(const plan::Plan& plan, plan::BufferId buffer) {
  Bytes place = -1;
  for (const plan::Life& life : plan.lives)
    if (life.buffer == buffer) place = life.offset;
  return place;
}

// visit(first row, rows, bytes as floats)
template <class Visit>
void for_each_piece(const kernels::PackedWeights& form, const Visit& visit) {
  const int64_t rows = form.rows_within(kPieceBytes);
  for (int64_t first = 0; first < form.rows; first += rows) {
    const int64_t count = std::min(rows, form.rows - first);
    visit(first, count, count * form.columns * static_cast<Bytes>(sizeof(float)));
  }
}

void expect_memory(Tensor variable, const void* memory) {
  if (memory == nullptr) throw Error(fmt::format("the memory given for variable '{}' is null", variable.name()));
}

}  // namespace

Engine::Engine(Graph& graph, const MemoryLine& line, const std::vector<Request>& requests, const EngineOptions& options,
               Bytes planning_line)
    : graph_(graph.body()),
      options_(options),
      budget_(line, options_),
      lowering_(graph_, options_, line),
      planner_(graph_, options_, budget_, lowering_, planning_line) {
  const auto turn = budget_.line().take_planning_turn();
  state_.seed = options.seed;
  planner_.plan_all(requests);
}

Engine::~Engine() { close(); }

Bytes Engine::peak_bytes() const {
  return std::max({earlier_peak_bytes_, running_bytes(), planner_.planning_peak_bytes()});
}

Bytes Engine::room_for_problems(size_t number) const {
  const PlannedStep& step = steps().at(number);
  const Bytes room = planner_.room_to_plan() - lowering_.bytes_of_problems(step);
  return room < bytes_of_option(step.program.problem) ? 0 : room;
}

void Engine::expect_graph() const {
  if (!graph_lives_->load(std::memory_order_relaxed))
    throw Error("the graph of this session is gone; keep the graph for as long as the session is used");
}

void Engine::open() {
  expect_graph();
  if (is_closed_) throw Error("the session is closed and can't run again; make another one");
  if (arena_) return;
  graph_.finalize();
  MemoryLine& line = budget_.line();
  const Bytes most = line.limit() == MemoryLine::kUnlimited ? memory::machine_memory_bytes()
                                                            : round_up(line.limit(), memory::Arena::kPage);
  arena_.emplace(most);
  planner_.set_open();
  std::vector<PlannedStep>& steps = planner_.steps();
  if (!steps.empty())
    homes_ =
        Homes(steps.front().program.problem, steps.front().plan, arena_->data(), options_.scratch_folder, file_bytes());
  if (homes_.transfers() != nullptr) budget_.set_transfers_resident();
  for (PlannedStep& step : steps) {
    bind(step);
    if (!options_.keeps_plans) step.forget_details();
  }
  budget_.release_later_plans();
  // Memory of planning and binding is given back before the arena is touched; executors are measured with the process
  // from now on.
  budget_.release_plans();
  line.measure_process();
  commit_arena();
  initialize();
  if (start_link_) std::exchange(start_link_, {})();
}

void Engine::set_network(kernels::Network* network) {
  state_.network = network;
  if (network != nullptr && network->size() > 1) exchanges_.emplace();
}

void Engine::commit_arena() {
  arena_->commit(arena_bytes());
  budget_.set_arena_resident();
}

void Engine::link_weights(bool has_initial_values, std::function<bool()> make_room) {
  start_link_ = [this, has_initial_values, make_room = std::move(make_room)] {
    auto link = std::make_unique<WeightsLink>(*this, graph_, state_.seed, has_initial_values, make_room);
    if (link->is_empty()) return;
    link->refresh();
    link_ = std::move(link);
  };
  if (arena_) std::exchange(start_link_, {})();
}

void Engine::close() {
  if (is_closed_) return;
  if (link_ != nullptr) link_->keep(graph_lives_->load());
  link_.reset();
  is_readable_->store(false);
  for (PlannedStep& step : planner_.steps()) step.executor.reset();
  homes_ = {};
  arena_.reset();
  budget_.release_all();
  lowering_.release();
  is_closed_ = true;
}

void Engine::bind(PlannedStep& step) {
  step.executor = std::make_unique<run::Executor>(step.program, step.plan, arena_->data(),
                                                  run::FilePlaces{homes_.transfers(), step.file_places});
  if (exchanges_) step.executor->set_exchanges(&*exchanges_);
  if (options_.finds_bad_numbers) step.watch = std::make_unique<NumberWatch>(step.program, step.plan, arena_->data());
  step.origins.clear();
  step.origins.reserve(step.plan.actions.size());
  for (const plan::Action& action : step.plan.actions)
    step.origins.push_back(
        {is_transfer(step.program.problem, action) ? -1 : step.program.tasks[static_cast<size_t>(action.task)].origin,
         action.micro_batch});
  step.feed_places.clear();
  for (const lower::Port& port : step.program.feeds) {
    const bool is_given = step.program.problem.buffers[static_cast<size_t>(port.buffer)].is_given;
    step.feed_places.push_back(is_given ? nullptr : arena_->data() + first_place(step.plan, port.buffer));
  }
  step.views.clear();
  for (const lower::Port& port : step.program.fetches)
    step.views.emplace_back(port.type.dtype, port.type.dims, arena_->data() + last_place(step.plan, port.buffer),
                            port.type.bytes(), is_readable_);
}

void Engine::initialize() {
  if (steps().empty()) return;
  const PlannedStep& step = steps().front();
  for (const lower::Port& port : step.program.variables) {
    const graph::Variable& variable = graph_.variable_of(port.value);
    std::byte* place = homes_.place(port, staging());
    const std::string_view name = graph_.name(graph_.value(port.value));
    if (port.packed)
      initialize_packed(variable.init(), options_.seed, name, *port.packed, place, piece_staging(port));
    else
      initialize_variable(variable.init(), options_.seed, name, port.type, place, plain_staging(port));
    homes_.write(port, place);
  }
  for (const lower::Port& port : step.program.constants) {
    const graph::Constant& constant = graph_.constant_of(port.value);
    std::memcpy(arena_->data() + homes_.arena_place(port.buffer), constant.bytes.data(), constant.bytes.size());
  }
}

std::byte* Engine::staging() { return arena_->data() + steps().front().plan.variable_bytes; }
float* Engine::piece_staging(const lower::Port& port) { return reinterpret_cast<float*>(plain_staging(port)); }
std::byte* Engine::plain_staging(const lower::Port& port) {
  return homes_.is_resident(port) ? staging() : staging() + round_up(port.type.bytes(), kAlignment);
}

size_t Engine::find_or_plan(const Request& request) {
  ++runs_;
  std::vector<PlannedStep>& steps = planner_.steps();
  if (const std::optional<size_t> found = planner_.find(request)) {
    steps[*found].last_used = runs_;
    return *found;
  }
  if (is_closed_) throw Error("the session is closed and can't run again; make another one");
  const auto turn = budget_.line().take_planning_turn();
  if (arena_) earlier_peak_bytes_ = std::max(earlier_peak_bytes_, running_bytes());
  const size_t number = planner_.plan_more(request);
  steps[number].last_used = runs_;
  if (arena_) {
    commit_arena();
    bind(steps[number]);
    if (!options_.keeps_plans) steps[number].forget_details();
    budget_.release_plans();
  }
  budget_.line().measure_process(planner_.leaving_bytes());
  if (arena_) budget_.hold_other_batches();
  budget_.note_runtime();
  return number;
}

std::span<const View> Engine::run(std::span<const Tensor> fetches, std::span<const Feed> feeds) {
  return run(Request{{fetches.begin(), fetches.end()}, {}, 0}, feeds);
}

std::span<const View> Engine::run(const Request& request, std::span<const Feed> feeds) {
  expect_graph();
  check_feeds(feeds);
  for (const Tensor& fetch : request.fetches)
    if (fetch.owner() != &graph_) throw Error("a fetch is unset or belongs to another graph");
  Request exact = request;
  exact.batch = batch_of(feeds);
  return run_step(find_or_plan(exact), feeds);
}

std::span<const View> Engine::run_like(size_t number, std::span<const Feed> feeds) {
  expect_graph();
  check_feeds(feeds);
  if (number < steps().size()) {
    const Request& planned = steps()[number].request;
    if (batch_of(feeds, planned.batch) != planned.batch) return run(Request(planned), feeds);
  }
  return run_step(number, feeds);
}

int64_t Engine::batch_of(std::span<const Feed> feeds, int64_t otherwise) const {
  for (const Feed& feed : feeds) {
    const TensorType& type = feed.placeholder.type();
    const Dim count = element_count(type.shape);
    if (!count.is_batch()) continue;
    const Bytes sample_bytes = count.count() * size_of(type.dtype);
    if (feed.bytes % sample_bytes != 0)
      throw Error(fmt::format("feed '{}' has {} bytes, which is no multiple of the {} bytes of a sample",
                              feed.placeholder.name(), feed.bytes, sample_bytes));
    return feed.bytes / sample_bytes;
  }
  return otherwise;
}

class Engine::Turn {
 public:
  explicit Turn(Engine& engine) : is_busy_(engine.is_busy_) {
    if (is_busy_.exchange(true, std::memory_order_acquire))
      throw Error("the session is in use by another thread; give each thread a session of its own, or a lock");
  }
  ~Turn() { is_busy_.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& is_busy_;
};

// Only a few comparisons for each feed, because steps may be short.
void Engine::check_feeds(std::span<const Feed> feeds) const {
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Feed& feed = feeds[i];
    if (feed.placeholder.owner() != &graph_)
      throw Error(fmt::format("feed {} is for a tensor that is unset or belongs to another graph", i));
    const graph::Value& value = graph_.value(feed.placeholder.id());
    if (value.kind != graph::ValueKind::Placeholder)
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

void Engine::take_feed(PlannedStep& step, size_t i, const Feed& feed) const {
  if (step.feed_places[i] != nullptr) {
    std::memcpy(step.feed_places[i], feed.data, static_cast<size_t>(feed.bytes));
    return;
  }
  if (reinterpret_cast<uintptr_t>(feed.data) % kAlignment != 0)
    throw Error(
        fmt::format("feed '{}' is read where it lies but is not aligned to {} bytes; align it, or leave "
                    "SessionOptions::reads_feeds_in_place off",
                    feed.placeholder.name(), kAlignment));
  step.executor->give(step.program.feeds[i].buffer, static_cast<const std::byte*>(feed.data));
}

PlannedStep& Engine::take_feeds(size_t number, std::span<const Feed> feeds) {
  open();
  std::vector<PlannedStep>& steps = planner_.steps();
  if (number >= steps.size()) throw Error(fmt::format("there is no step {}: the session has {}", number, steps.size()));
  check_feeds(feeds);
  budget_.line().expect_no_growth();
  PlannedStep& step = steps[number];
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
    take_feed(step, i, *feed);
  }
  if (step.watch != nullptr) step.watch->begin();
  status_ = {};
  state_.status = &status_;
  return step;
}

// The step has updated its variables even if it met bad values, so it is counted first.
std::span<const View> Engine::finish(PlannedStep& step, std::span<const Feed> feeds) {
  if (homes_.transfers() != nullptr) homes_.transfers()->rethrow();
  if (!step.request.updates.empty()) ++state_.step;
  if (!status_.is_good()) throw Error(describe_bad_value(status_, graph_, step), ErrorKind::BadData);
  if (step.watch != nullptr) expect_finite(step, feeds);
  return step.views;
}

void Engine::expect_finite(const PlannedStep& step, std::span<const Feed> feeds) const {
  bool is_bad = step.watch->has_bad_variable();
  for (const View& view : step.views)
    is_bad = is_bad || !weights::is_finite(
                           view.dtype, {static_cast<const std::byte*>(view.data()), static_cast<size_t>(view.bytes)});
  if (!is_bad || !step.watch->first()) return;
  const NumberWatch::Found& found = *step.watch->first();
  throw_bad_number(found.value, step.origins[found.action].node, graph_, feeds,
                   step.request.updates.empty() ? "in evaluation" : fmt::format("at step {}", state_.step));
}

void Engine::see_weights(size_t number) {
  if (start_link_ && number < steps().size()) open();
  if (link_ == nullptr || number >= steps().size()) return;
  if (steps()[number].request.updates.empty())
    link_->refresh();
  else
    link_->take();
}

std::span<const View> Engine::run_step(size_t number, std::span<const Feed> feeds) {
  see_weights(number);
  const Turn turn(*this);
  PlannedStep& step = take_feeds(number, feeds);
  if (step.watch == nullptr) {
    step.executor->run(state_);
  } else {
    step.executor->run_watched(state_, [&](size_t action) { step.watch->look(action); });
  }
  return finish(step, feeds);
}

std::span<const View> Engine::run_timed(size_t number, std::span<const Feed> feeds, std::span<int64_t> action_ns) {
  see_weights(number);
  const Turn turn(*this);
  PlannedStep& step = take_feeds(number, feeds);
  if (action_ns.size() < step.executor->actions())
    throw Error(fmt::format("{} times have no room in {}", step.executor->actions(), action_ns.size()));
  step.executor->run_timed(state_, action_ns);
  return finish(step, feeds);
}

lower::Port Engine::port_of(Tensor variable) {
  open();
  if (variable.owner() != &graph_ || graph_.value(variable.id()).kind != graph::ValueKind::Variable || steps().empty())
    throw Error("only variables of this session's graph have a value to get or set");
  // A program lists all variables, in the order of the graph.
  return steps().front().program.variables[static_cast<size_t>(graph_.value(variable.id()).extra)];
}

void Engine::get(Tensor variable, void* into, Bytes bytes) {
  see_newest();
  const Turn turn(*this);
  const lower::Port port = port_of(variable);
  expect_bytes(variable, bytes);
  expect_memory(variable, into);
  const std::byte* value = homes_.read(port, staging());
  if (port.packed)
    port.packed->unpack(value, 0, port.packed->rows, static_cast<float*>(into));
  else
    copy_to_plain(port.type, value, into);
}

std::span<const std::byte> Engine::peek(Tensor variable) {
  see_newest();
  const Turn turn(*this);
  return peek_unlinked(variable);
}

std::span<const std::byte> Engine::peek_unlinked(Tensor variable) {
  const lower::Port port = port_of(variable);
  if (port.packed)
    throw Error(fmt::format("variable '{}' is kept in {}; get it into memory of your own", variable.name(),
                            name_of(port.packed->dtype)));
  const std::byte* value = homes_.read(port, staging());
  const auto bytes = static_cast<size_t>(port.type.count() * size_of(port.type.dtype));
  if (port.type.layout.is_plain()) return {value, bytes};
  std::byte* plain = plain_staging(port);
  copy_to_plain(port.type, value, plain);
  return {plain, bytes};
}

void Engine::read(Tensor variable, const std::function<void(std::span<const std::byte>)>& read) {
  see_newest();
  const Turn turn(*this);
  read_unlinked(variable, read);
}

void Engine::read_unlinked(Tensor variable, const std::function<void(std::span<const std::byte>)>& read) {
  const lower::Port port = port_of(variable);
  if (!port.packed) return read(peek_unlinked(variable));
  const std::byte* value = homes_.read(port, staging());
  float* const piece = piece_staging(port);
  for_each_piece(*port.packed, [&](int64_t first, int64_t rows, Bytes bytes) {
    port.packed->unpack(value, first, rows, piece);
    read({reinterpret_cast<const std::byte*>(piece), static_cast<size_t>(bytes)});
  });
}

void Engine::fill(Tensor variable, const std::function<void(void* into, Bytes at, Bytes bytes)>& write) {
  announce_change(variable);
  const Turn turn(*this);
  fill_unlinked(variable, write);
}

void Engine::fill_unlinked(Tensor variable, const std::function<void(void* into, Bytes at, Bytes bytes)>& write) {
  const lower::Port port = port_of(variable);
  std::byte* place = homes_.place(port, staging());
  if (port.packed) {
    float* const piece = piece_staging(port);
    for_each_piece(*port.packed, [&](int64_t first, int64_t rows, Bytes bytes) {
      write(piece, first * port.packed->columns * static_cast<Bytes>(sizeof(float)), bytes);
      port.packed->pack(piece, first, rows, place);
    });
    return homes_.write(port, place);
  }
  std::byte* plain = port.type.layout.is_plain() ? place : plain_staging(port);
  write(plain, 0, port.type.count() * size_of(port.type.dtype));
  if (plain != place) copy_from_plain(port.type, plain, place);
  homes_.write(port, place);
}

void Engine::set(Tensor variable, const void* from, Bytes bytes) {
  lower::Port port;
  {
    const Turn turn(*this);
    port = port_of(variable);
    expect_bytes(variable, bytes);
    expect_memory(variable, from);
  }
  announce_change(variable);
  const Turn turn(*this);
  std::byte* place = homes_.place(port, staging());
  if (port.packed)
    port.packed->pack(static_cast<const float*>(from), 0, port.packed->rows, place);
  else
    copy_from_plain(port.type, from, place);
  homes_.write(port, place);
}

}  // namespace plimsoll::session

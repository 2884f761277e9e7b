// The public classes Session and Step: steps are collected and planned together until the first one runs.
#include <plimsoll/session.h>

#include <fmt/format.h>

#include "report/forecast.h"
#include "session/engine.h"
#include "session/variables.h"
#include "weights/weights_file.h"

namespace plimsoll {
namespace session {

struct State {
  Graph& graph;
  MemoryLine line;
  SessionOptions options;
  std::vector<Request> requests = {};
  std::unique_ptr<Engine> engine = nullptr;
  bool is_closed = false;

  Engine& planned() const {
    if (is_closed) throw Error("the session is closed and can't run again; make another one");
    if (!engine) throw Error("the session has no step yet; ask for one with Session::step");
    return *engine;
  }

  void plan(const std::vector<Request>& all) {
    engine.reset();  // first: the old and the new one would both reserve bytes of the line
    if (!all.empty()) {
      engine = std::make_unique<Engine>(graph, line, all, options);
      engine->link_weights();
    }
    requests = all;
  }

  // Layouts and the arena are chosen for all steps at once, so the earlier ones are planned again.
  size_t add(Request request) {
    if (is_closed) throw Error("the session is closed and can't run again; make another one");
    if (engine && engine->is_open())
      throw Error("a step can be added to a session before the first run, not after; ask for all steps first");
    const std::vector<Request> before = requests;
    std::vector<Request> all = requests;
    all.push_back(std::move(request));
    try {
      plan(all);
    } catch (...) {
      plan(before);
      throw;
    }
    return requests.size() - 1;
  }

  Forecast forecast(size_t number) {
    const Engine& made = planned();
    const PlannedStep& step = made.steps()[number];
    report::PlanFacts facts{.problem = step.program.problem, .plan = step.plan};
    facts.batch = step.request.batch;
    facts.line_bytes = line.limit();
    facts.arena_bytes = made.arena_bytes();
    facts.runtime_bytes = made.runtime_bytes();
    facts.data_bytes = options.data_bytes;
    facts.peak_bytes = made.peak_bytes();
    facts.scratch_file_bytes = made.file_bytes();
    facts.scratch_folder = options.scratch_folder;
    if (step.program.half_values > 0) facts.changes.values = options.policy.values;
    facts.changes.half_products = step.program.half_products > 0;
    facts.changes.state_bits = state_bits(graph.body());
    facts.half_values = step.program.half_values;
    facts.half_value_bytes = step.program.half_value_bytes;
    facts.products = step.program.products;
    facts.half_products = step.program.half_products;
    facts.limit_bytes = step.limits.bytes;
    facts.other = step.other;
    return report::make_forecast(facts);
  }
};

Engine* engine_of(Session& session) { return session.state().engine.get(); }

}  // namespace session

namespace {

void expect_dtype(Tensor variable, DType dtype) {
  if (variable.dtype() != dtype)
    throw Error(fmt::format("variable '{}' has elements of {}, not {}", variable.name(), name_of(variable.dtype()),
                            name_of(dtype)));
}

}  // namespace

Session::Session(Graph& graph, const MemoryLine& line, const SessionOptions& options)
    : state_(std::make_shared<session::State>(session::State{graph, line, options})) {
  if (graph.body().recorder() != nullptr)
    throw Error("this graph is the recording of an Eager, which runs it itself; build a Graph for the session");
}

Session::~Session() {
  if (state_) close();
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&& other) noexcept {
  if (state_) close();
  state_ = std::move(other.state_);
  return *this;
}

session::State& Session::state() const {
  if (state_ == nullptr) throw Error("the session was moved away; use the session that it was moved to");
  return *state_;
}

Step Session::step(const StepSpec& spec) { return {state_, state().add({spec.fetch, spec.update.nodes, spec.batch})}; }

Forecast Session::forecast(const StepSpec& spec) {
  const std::vector<session::Request> before = state().requests;
  try {
    Forecast made = state().forecast(state().add({spec.fetch, spec.update.nodes, spec.batch}));
    state().plan(before);
    return made;
  } catch (const DoesNotFit& e) {
    return report::make_forecast(e.refusal());
  }
}

void Session::open() { state().planned().open(); }

void Session::close() {
  if (state().engine) state().engine->close();
  state().is_closed = true;
}

bool Session::is_open() const { return state().engine && state().engine->is_open(); }

void Session::read(Tensor variable, DType dtype, void* into, Bytes bytes) {
  expect_dtype(variable, dtype);
  state().planned().get(variable, into, bytes);
}

void Session::write(Tensor variable, DType dtype, const void* from, Bytes bytes) {
  expect_dtype(variable, dtype);
  state().planned().set(variable, from, bytes);
}

void Session::save(const std::string& path) { weights::save_weights(state().planned(), state().graph, path); }
void Session::load(const std::string& path) { weights::load_weights(state().planned(), state().graph, path); }

int64_t Session::step_count() const { return state().engine ? state().engine->step_count() : 0; }
const MemoryLine& Session::line() const { return state().line; }
MemoryLine& Session::data_line() { return state().planned().data_line(); }
Bytes Session::arena_bytes() const { return state().engine ? state().engine->arena_bytes() : 0; }
Bytes Session::peak_bytes() const { return state().engine ? state().engine->peak_bytes() : 0; }
Bytes Session::file_bytes() const { return state().engine ? state().engine->file_bytes() : 0; }

session::State& Step::state() const {
  if (state_ == nullptr) throw Error("the step was moved away; use the step that it was moved to");
  return *state_;
}

Results Step::operator()(std::span<const Feed> feeds) { return Results(state().planned().run_like(number_, feeds)); }

int64_t Step::batch() const { return state().requests[number_].batch; }

Forecast Step::forecast() const { return state().forecast(number_); }

const View& Results::operator[](size_t i) const {
  if (i >= views_.size()) throw Error(fmt::format("there is no result {}: the step fetches {}", i, views_.size()));
  return views_[i];
}

const void* View::data() const {
  if (!is_open_->load(std::memory_order_relaxed))
    throw Error("this value went when its session was closed; copy it before");
  return data_;
}

void View::expect_type(DType wanted) const {
  if (dtype != wanted)
    throw Error(fmt::format("the value is {}{} and can't be read as {}; cast it in the graph", name_of(dtype),
                            to_string(dims), name_of(wanted)));
}

void View::throw_not_single(size_t elements) {
  throw Error(fmt::format("item() asks for one element but the fetched value has {}; use as<T>()", elements));
}

}  // namespace plimsoll

// A finalised graph made ready to run under a line: variables live here, steps are planned, runs allocate nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "lower/lower.h"
#include "memory/arena.h"
#include "memory/line.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "run/executor.h"
#include "session/fit.h"
#include "session/homes.h"

namespace plimsoll {

// What one kind of step computes: values to hand out and variables to change.
struct Request {
  std::vector<Tensor> fetches;
  std::vector<NodeId> updates;
  int64_t batch = 1;
  std::vector<ValueId> fetch_ids() const;
};

// A reserve for processes whose line covers all of them: code pages of kernels not yet run, stacks, output.
constexpr Bytes kRuntimeReserve = 5 * MiB;

struct SessionOptions {
  // True: the line covers the whole process, code and libraries included. False: what the engine takes.
  bool covers_process = false;
  // Kept free below the line for what comes after planning: thread stacks, late code pages, output.
  Bytes reserve = 0;
  // Held beside the arena by who feeds the steps: buffers of the input pipeline.
  Bytes data_bytes = 0;
  uint64_t seed = 0;
  Levers levers;
  bool masks = true;  // see LowerOptions
  // Values that the backward pass reads again are kept in 16 bits between their uses: other results, though the same
  // under every line. The optimiser's state has a setting of its own: Optimiser::half_state.
  bool half_values = false;
  // A folder on a disk where a scratch file may be made, and how large it may grow; none: nothing is spilled.
  std::string scratch_folder = {};
  Bytes disk_limit = 0;
};

// Host memory that a placeholder takes its value from: row-major.
struct Feed {
  Tensor placeholder;
  const void* data;
  Bytes bytes;
};

// A fetched value, in place: valid until the next run.
struct View {
  DType dtype;
  Dims dims;
  const void* data;
  Bytes bytes;
  std::span<const float> floats() const { return {static_cast<const float*>(data), static_cast<size_t>(bytes) / 4}; }
};

// A step of a session with its plan.
struct PlannedStep {
  Request request;
  Program program;
  Plan plan;
  Limits limits = {};                   // that the plan was made under
  std::vector<Bytes> file_places = {};  // by buffer, of what the plan saves and loads
  std::unique_ptr<Executor> executor;   // none before memory is taken
  std::vector<std::byte*> feed_places;  // of program.feeds
  std::vector<View> views;              // of program.fetches
};

class Session {
 public:
  // Lowers and plans the requests; takes no memory for tensors yet. The line and the graph must outlive it.
  // Throws DoesNotFit (session/fit.h) when a step can't be planned under the line.
  Session(Graph& graph, MemoryLine& line, const std::vector<Request>& requests, const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Takes the arena, touches it, and gives every variable its initial value. run() does it when needed.
  void open();
  // Gives every byte of the line back. A closed session can't run again, but what it planned can still be read.
  void close();
  bool is_open() const { return arena_.has_value(); }

  // One step. The batch is that of the feeds; a combination not planned yet is planned now.
  std::span<const View> run(std::span<const Tensor> fetches, std::span<const Feed> feeds);
  std::span<const View> run(const Request& request, std::span<const Feed> feeds);
  // The same without looking anything up: the number of a request given to the constructor.
  std::span<const View> run_step(size_t number, std::span<const Feed> feeds);

  // The same, with the time of each of the plan's steps; `step_ns` has room for all of them.
  std::span<const View> run_timed(size_t number, std::span<const Feed> feeds, std::span<int64_t> step_ns);

  // Row-major values of a variable; `bytes` must match.
  void get(Tensor variable, void* into, Bytes bytes);
  void set(Tensor variable, const void* from, Bytes bytes);

  // Without memory of one's own: a variable row-major, valid until the next call; and one filled by `write`.
  std::span<const std::byte> peek(Tensor variable);
  void fill(Tensor variable, const std::function<void(void* into, Bytes bytes)>& write);

  const std::vector<PlannedStep>& steps() const { return steps_; }
  const MemoryLine& line() const { return line_; }
  Bytes arena_bytes() const { return arena_bytes_; }  // what open() takes
  // Held by the process before the arena, the reserve, and what moves to and from the scratch file.
  Bytes runtime_bytes() const { return runtime_bytes_ + (file_bytes_ > 0 ? Homes::kBytes : 0); }
  // Training steps so far, from which dropout draws; one that goes on from a file goes on counting too.
  int64_t step_count() const { return state_.step; }
  void set_step_count(int64_t steps) { state_.step = steps; }
  Bytes file_bytes() const { return file_bytes_; }  // of the scratch file

  // All ways to set up that step, for a look at other lines: the whole first, then in parts of the batch.
  std::vector<Problem> problems(size_t number);

 private:
  LowerOptions lower_options(const Request& request) const;
  size_t find_or_plan(const Request& request);
  PlannedStep& take_feeds(size_t number, std::span<const Feed> feeds);
  void lower_step(PlannedStep& step, const Request& request);
  // The step in parts of the batch, of several sizes.
  std::vector<Program> lower_splits(const Request& request, const Program& whole);
  // Throws DoesNotFit when variables can't be brought to or from row-major memory beside the plan.
  void accept(PlannedStep& step, Plan plan, const Limits& limits);
  bool may_spill() const { return disk_speed_.read_bytes_per_s > 0; }
  Bytes transfer_bytes() const { return may_spill() ? Homes::kBytes : 0; }  // beside the arena, for a scratch file
  Limits limits_for(const PlannedStep& step) const;
  Fit describe(const Problem& problem, const Shortfall& shortfall) const;
  Bytes staging_bytes(const PlannedStep& step) const;
  void close_layouts();
  void take_surroundings();
  void hold_surroundings(Bytes runtime_bytes);
  void plan_steps(const std::vector<size_t>& order);
  [[nodiscard]] Bytes plan_step(PlannedStep& step);  // how much the arena of the steps before is too large, else 0
  void forget_plans(const std::vector<size_t>& order);
  [[noreturn]] void refuse_grown(const PlannedStep& step) const;
  Bytes limit_for_arena() const;
  void take_arena();
  void bind(PlannedStep& step);
  void initialize();
  Port port_of(Tensor variable);
  std::byte* staging();                        // behind the variables
  std::byte* plain_staging(const Port& port);  // behind that, for the same variable row-major

  Graph& graph_;
  SessionOptions options_;
  MemoryLine& line_;
  KernelStore kernels_;
  VariableLayouts layouts_;
  std::vector<PlannedStep> steps_;
  std::optional<Arena> arena_;
  Homes homes_;
  DiskSpeed disk_speed_;
  std::optional<std::vector<BufferId>> stored_;  // variables in the scratch file, once a plan has decided
  Reservation runtime_held_, data_held_, staging_held_;
  std::vector<Reservation> arena_held_;
  Bytes runtime_bytes_ = 0;
  int64_t planned_steps_ = 0;    // of all plans that were accepted
  Bytes bytes_of_plans_ = 0;     // what they take beyond the reserve
  Bytes left_for_planning_ = 0;  // by each step to each of those behind it
  int64_t steps_behind_ = 0;     // the one that is being planned
  Bytes arena_bytes_ = 0;
  Bytes file_bytes_ = 0;
  StepState state_;
  bool closed_ = false;
};

}  // namespace plimsoll

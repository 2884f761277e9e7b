// A finalised graph made ready to run under a line: variables live here, steps are planned, runs allocate nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/error.h>
#include "graph/graph.h"
#include "lower/lower.h"
#include "memory/arena.h"
#include "memory/line.h"
#include "plan/limits.h"
#include "plan/make_plan.h"
#include "plan/plan.h"
#include "run/executor.h"
#include "session/feed.h"
#include "session/homes.h"

namespace plimsoll {

// What one kind of step computes: values to hand out and variables to change.
struct Request {
  std::vector<Tensor> fetches;
  std::vector<NodeId> updates;
  int64_t batch = 1;
  std::vector<ValueId> fetch_ids() const;
};

struct SessionOptions {
  // Held beside the arena for who feeds the steps: buffers of the input pipeline; Session::data_line hands them out.
  Bytes data_bytes = 0;
  // On a line that covers the process, what the caller takes while the session is open: in all, and for each step of a
  // plan.
  Bytes caller_bytes = 0;
  Bytes caller_step_bytes = 0;
  // Steps like the last of the requests that `plan` will add before the session opens: their plans have room.
  int later_plans = 0;
  // Plans that run() makes for other batch sizes hold at most this together; the least recently used goes first.
  Bytes plan_cache_bytes = 16 * MiB;
  // False: what is only there to be looked at (tasks, names, lives) is given back when the session opens.
  bool keeps_plans = true;
  uint64_t seed = 0;
  plan::Levers levers;
  bool masks = true;  // see LowerOptions
  // Values that the backward pass reads again are kept in 16 bits between their uses: other results, though the same
  // under every line. The optimiser's state has a setting of its own: Optimiser::half_state.
  bool half_values = false;
  // A folder on a disk where a scratch file may be made, and how large it may grow; none: nothing is spilled.
  std::string scratch_folder = {};
  Bytes disk_limit = 0;
};

// Where an action of a plan comes from, to name it when its kernel finds a bad value.
struct ActionOrigin {
  NodeId node;  // -1: a reorder or a transfer
  int32_t part;
};

// A step of a session with its plan.
struct PlannedStep {
  Request request;
  lower::Program program;
  plan::Plan plan;
  plan::Limits limits = {};                 // that the plan was made under
  std::vector<Bytes> file_places = {};      // by buffer, of what the plan saves and loads
  std::unique_ptr<run::Executor> executor;  // none before memory is taken
  std::vector<std::byte*> feed_places;      // of program.feeds
  std::vector<View> views;                  // of program.fetches
  std::vector<ActionOrigin> origins;        // by action, once it is bound
  int64_t lowered_tasks = 0;                // of program.tasks and plan.steps, which may be forgotten
  int64_t planned_actions = 0;
  int64_t last_used = 0;  // by the session's count of runs
};

// For one thread at a time: a second one that comes in while a step runs, or a variable is read or set, gets an Error.
// Several sessions, on one line or on several, may be used by as many threads.
class Session {
 public:
  // Lowers and plans the requests, and reserves their arena; takes no memory for tensors yet. When the graph
  // is destroyed before the session, every later use but close() throws Error. Throws DoesNotFit (base/refusal.h) when
  // a step can't be planned under the line.
  Session(Graph& graph, const MemoryLine& line, const std::vector<Request>& requests,
          const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // One more step, planned like those of the constructor; returns its number. For a session that is not open yet.
  size_t plan(const Request& request);

  // Takes the arena, touches it, and gives every variable its initial value. run() does it when needed.
  void open();
  // Gives every byte of the line back. A closed session can't run again, but what it planned can still be read.
  void close();
  bool is_open() const { return arena_.has_value(); }

  // One step. The batch is that of the feeds; a combination not planned yet is planned now. Each placeholder that the
  // step reads needs one feed of its type and size; feeds of other placeholders of the graph are left alone. Throws
  // Error(BadData) after a step that met a label or row outside of its range: these took no part in it.
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
  MemoryLine& data_line() { return *data_; }          // of SessionOptions::data_bytes, when these are not 0
  Bytes arena_bytes() const { return arena_bytes_; }  // what open() takes
  // Beside arena and data: the process where the line covers it, what libraries and executors take, and what moves to
  // and from the scratch file. As it was when the steps were planned.
  Bytes runtime_bytes() const { return runtime_bytes_ + (file_bytes_ > 0 ? Homes::kBytes : 0); }
  // The most that all of it takes at once, before the session opens or after: a deep model of small layers may take
  // more to plan than to run.
  Bytes peak_bytes() const {
    return std::max(arena_bytes() + runtime_bytes() + options_.data_bytes, peak_of_planning_);
  }
  // Training steps so far, from which dropout draws; one that goes on from a file goes on counting too.
  int64_t step_count() const { return state_.step; }
  void set_step_count(int64_t steps) { state_.step = steps; }
  Bytes file_bytes() const { return file_bytes_; }  // of the scratch file

  // All ways to set up that step, for a look at other lines: the whole first, then in parts of the batch.
  std::vector<plan::Problem> problems(size_t number);

 private:
  lower::LowerOptions lower_options(const Request& request) const;
  size_t find_or_plan(const Request& request);
  void expect_graph() const;
  void check_feeds(std::span<const Feed> feeds) const;
  class Turn;  // of the thread that uses the session
  PlannedStep& take_feeds(size_t number, std::span<const Feed> feeds);
  std::span<const View> finish(PlannedStep& step);
  void lower_step(PlannedStep& step, const Request& request);
  // The step in micro-batches of several sizes.
  std::vector<lower::Program> lower_splits(const Request& request, const lower::Program& whole);
  std::vector<int64_t> split_sizes(const Request& request, const lower::Program& whole) const;
  bool has_room_for_splits(const PlannedStep& step, const plan::Limits& limits) const;
  // Throws DoesNotFit when variables can't be brought to or from row-major memory beside the plan. Returns how much the
  // arena of the steps before is too large, else 0.
  [[nodiscard]] Bytes accept(PlannedStep& step, plan::Plan plan, const plan::Limits& limits);
  bool may_spill() const { return disk_speed_.read_bytes_per_s > 0; }
  Bytes transfer_bytes() const { return may_spill() ? Homes::kBytes : 0; }  // beside the arena, for a scratch file
  Bytes step_bytes() const;                                                 // of a plan, its executor and the caller
  plan::Limits limits_for(const PlannedStep& step) const;
  [[noreturn]] void refuse(const PlannedStep& step, std::span<const plan::Problem* const> problems,
                           const plan::Limits& limits, const plan::Choice& choice) const;
  Refusal describe(const plan::Problem& problem, const plan::Shortfall& shortfall, Bytes planning_bytes) const;
  Bytes counted_bytes() const;
  void leave_room_for_later(const PlannedStep& last, Bytes lowered_bytes);
  Bytes held_bytes() const;
  Bytes surrounding_bytes() const;
  Bytes leaving_bytes() const;
  Bytes staging_bytes(const PlannedStep& step) const;
  void close_layouts();
  void hold_surroundings();
  void hold_arena(const PlannedStep& accepted);
  void plan_steps(const std::vector<size_t>& order);
  [[nodiscard]] Bytes plan_step(PlannedStep& step);  // like accept
  void forget_plans(const std::vector<size_t>& order);
  [[noreturn]] void refuse_grown(const PlannedStep& step) const;
  [[nodiscard]] Bytes settle();
  void expect_room_for_planning(const plan::Problem& problem, const plan::Plan& plan);
  Bytes peak_of_planning(Bytes planning_bytes) const;
  void expect_room_to_plan() const;
  void evict_plans();
  static Bytes bytes_of_plan(const PlannedStep& step);
  static void forget_details(PlannedStep& step);
  void commit_arena();
  Bytes limit_for_arena() const;
  void bind(PlannedStep& step);
  void initialize();
  lower::Port port_of(Tensor variable);
  std::byte* staging();                               // behind the variables
  std::byte* plain_staging(const lower::Port& port);  // behind that, for the same variable row-major

  Graph& graph_;
  const std::shared_ptr<const std::atomic<bool>> graph_lives_ = graph_.lifetime();
  SessionOptions options_;
  MemoryLine line_;
  lower::KernelStore kernels_;
  lower::VariableLayouts layouts_;
  std::vector<PlannedStep> steps_;
  std::atomic<bool> is_busy_ = false;
  std::optional<Arena> arena_;
  Homes homes_;
  DiskSpeed disk_speed_;
  std::optional<std::vector<plan::BufferId>> stored_;  // variables in the scratch file, once a plan has decided
  std::optional<MemoryLine> data_;
  // Of the line: what libraries take while kernels run, the caller's, plans and executors still to be made, transfers.
  Reservation library_held_, caller_held_, later_held_, plans_held_, staging_held_;
  std::vector<Reservation> arena_held_;
  bool has_surroundings_ = false;  // what is around the arena fits the line
  size_t given_steps_ = 0;         // the first of steps_, which stay; others are a cache
  int64_t runs_ = 0;
  Bytes runtime_bytes_ = 0;
  Bytes left_for_planning_ = 0;         // by each step to those planned after it
  int64_t actions_of_later_steps_ = 0;  // at least: those of the steps planned after the one at hand
  Bytes later_bytes_ = 0;               // of SessionOptions::later_plans
  Bytes peak_of_planning_ = 0;          // of the process, counted
  Bytes arena_bytes_ = 0;
  Bytes file_bytes_ = 0;
  kernels::StepStatus status_;
  kernels::StepState state_;
  bool closed_ = false;
  // What views look at: false when the arena is gone.
  const std::shared_ptr<std::atomic<bool>> is_readable_ = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace plimsoll

// What a session is made of: lowering, planning, the budget, the arena, variables, and the run of a step.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <plimsoll/session.h>
#include "memory/arena.h"
#include "session/budget.h"
#include "session/homes.h"
#include "session/lowering.h"
#include "session/planning.h"
#include "session/weights_link.h"
#include "weights/variable_access.h"

namespace plimsoll::session {

class Engine final : public weights::VariableAccess {
 public:
  // Lowers and plans the requests, and reserves their arena. Throws DoesNotFit. Planning stays within the line, or
  // within `planning_line` where another line is only tried.
  Engine(Graph& graph, const MemoryLine& line, const std::vector<Request>& requests, const EngineOptions& options = {},
         Bytes planning_line = 0);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void open() override;
  void close();
  bool is_open() const { return arena_.has_value(); }

  // One step. The batch is that of the feeds; a combination not planned yet is planned now. Each placeholder that the
  // step reads needs one feed of its type and size; feeds of other placeholders of the graph are left alone.
  std::span<const View> run(std::span<const Tensor> fetches, std::span<const Feed> feeds);
  std::span<const View> run(const Request& request, std::span<const Feed> feeds);
  // The same without looking anything up: the number of a planned step.
  std::span<const View> run_step(size_t number, std::span<const Feed> feeds);
  // The step of that number, planned again where the feeds have another batch.
  std::span<const View> run_like(size_t number, std::span<const Feed> feeds);
  // Like run_step, with the time of each action of the plan; `action_ns` has room for all of them.
  std::span<const View> run_timed(size_t number, std::span<const Feed> feeds, std::span<int64_t> action_ns);

  // Row-major values of a variable; `bytes` must match.
  void get(Tensor variable, void* into, Bytes bytes);
  void set(Tensor variable, const void* from, Bytes bytes);
  // A variable row-major, in memory of the engine, valid until the next call; refuses one that is packed.
  std::span<const std::byte> peek(Tensor variable);
  void read(Tensor variable, const std::function<void(std::span<const std::byte>)>& read) override;
  void fill(Tensor variable, const std::function<void(void* into, Bytes at, Bytes bytes)>& write) override;

  // From now on the weights of models in this graph are those of the models: what others change is seen here, and the
  // other way round; from when the session opens, or at once where it is open. See WeightsLink.
  void link_weights(bool has_initial_values = true, std::function<bool()> make_room = {});
  // What the session did to the weights is forgotten when it ends, instead of being kept for the models.
  void unlink_weights() { link_.reset(); }

  const std::vector<PlannedStep>& steps() const { return planner_.steps(); }
  const MemoryLine& line() const { return budget_.line(); }
  MemoryLine& data_line() { return budget_.data_line(); }
  // Gives more of what the line has left to the data line, before it is used. These bytes count in the peak.
  void give_to_data(Bytes more) { budget_.give_to_data(more); }
  Bytes free_bytes() const { return budget_.line().free(); }  // of the line, beside all that is planned
  Bytes arena_bytes() const { return planner_.arena_bytes(); }
  Bytes file_bytes() const { return planner_.file_bytes(); }
  // Beside arena and data: the process where the line covers it, executors, and what moves to and from the scratch
  // file. As it was when the steps were planned.
  Bytes runtime_bytes() const { return budget_.runtime_bytes() + (file_bytes() > 0 ? Homes::kBytes : 0); }
  // The most that all of it takes at once: a deep model of small layers may take more to plan than to run.
  Bytes peak_bytes() const;
  int64_t step_count() const override { return state_.step; }
  void set_step_count(int64_t steps) override { state_.step = steps; }
  // Where the samples of the next runs stand in their batch: random operators are keyed by sample.
  void set_first_sample(int64_t sample) { state_.first_sample = sample; }
  void set_counts_samples(bool counts) { state_.counts_samples = counts; }
  // The ranks that steps exchange with while they compute; null: alone. To be set before the session opens. A step
  // whose exchange failed throws nothing: its caller asks the network.
  void set_network(kernels::Network* network);
  const run::Exchanges* exchanges() const { return exchanges_ ? &*exchanges_ : nullptr; }  // null: alone

  // All problems of that step, to plan it under other lines: the whole batch first, then micro-batches.
  std::vector<plan::Problem> problems(size_t number) { return lowering_.list_problems(steps().at(number)); }
  // What a search among all problems of that step may take for itself; 0: the line has no room for them.
  Bytes room_for_problems(size_t number) const;

 private:
  friend class WeightsLink;
  class Turn;  // of the thread that uses the engine
  // The numbers that are there, linked or not. Without a turn: what they call may read other variables of this session.
  void read_unlinked(Tensor variable, const std::function<void(std::span<const std::byte>)>& read);
  void fill_unlinked(Tensor variable, const std::function<void(void* into, Bytes at, Bytes bytes)>& write);
  std::span<const std::byte> peek_unlinked(Tensor variable);
  void see_weights(size_t number);  // before that step runs
  void see_newest() {
    if (link_ != nullptr) link_->refresh();
  }
  void announce_change(Tensor variable) {
    if (start_link_) open();
    if (link_ != nullptr && variable.owner() == &graph_) link_->overwrite(variable.id());
  }
  // All that is held while steps run, as it was when the last of them was planned. The process is estimated from above,
  // so this sum may pass the line though the process never does: hence the minimum.
  Bytes running_bytes() const {
    return std::min(arena_bytes() + runtime_bytes() + budget_.data_bytes(), budget_.line().limit());
  }
  void expect_graph() const;
  size_t find_or_plan(const Request& request);
  int64_t batch_of(std::span<const Feed> feeds, int64_t otherwise = 1) const;
  void check_feeds(std::span<const Feed> feeds) const;
  void take_feed(PlannedStep& step, size_t i, const Feed& feed) const;
  PlannedStep& take_feeds(size_t number, std::span<const Feed> feeds);
  std::span<const View> finish(PlannedStep& step, std::span<const Feed> feeds);
  void expect_finite(const PlannedStep& step, std::span<const Feed> feeds) const;
  void commit_arena();
  void bind(PlannedStep& step);
  void initialize();
  lower::Port port_of(Tensor variable);
  std::byte* staging();                               // behind the variables
  std::byte* plain_staging(const lower::Port& port);  // behind that, for the same variable row-major
  float* piece_staging(const lower::Port& port);      // or for a piece of it, where it is packed

  graph::Body& graph_;
  const std::shared_ptr<const std::atomic<bool>> graph_lives_ = graph_.lifetime();
  const EngineOptions options_;
  Budget budget_;
  StepLowering lowering_;
  StepPlanner planner_;
  std::optional<memory::Arena> arena_;
  Homes homes_;
  std::optional<run::Exchanges> exchanges_;
  std::atomic<bool> is_busy_ = false;
  int64_t runs_ = 0;
  Bytes earlier_peak_bytes_ = 0;  // before a step was planned while the session was open
  kernels::StepStatus status_;
  kernels::StepState state_;
  bool is_closed_ = false;
  // False when the arena is gone: views ask before they read.
  const std::shared_ptr<std::atomic<bool>> is_readable_ = std::make_shared<std::atomic<bool>>(true);
  std::unique_ptr<WeightsLink> link_;  // null: the weights are those of the session alone
  std::function<void()> start_link_;   // when the session opens
};

}  // namespace plimsoll::session

#include "forecast/paper_step.h"

#include <algorithm>
#include <array>

namespace plimsoll::forecast {
namespace {

bool is_weight(const plan::Problem& problem, plan::BufferId id) {
  const plan::Buffer& buffer = problem.buffers[static_cast<size_t>(id)];
  return buffer.kind == plan::BufferKind::Variable && buffer.tag == Tag::Weights;
}

double bytes_of(const plan::Problem& problem, plan::BufferId id) {
  return static_cast<double>(problem.buffers[static_cast<size_t>(id)].fixed_bytes);
}

std::vector<plan::BufferId> list_weights(const plan::Problem& problem, const std::vector<plan::BufferId>& ids) {
  std::vector<plan::BufferId> weights;
  for (const plan::BufferId id : ids)
    if (is_weight(problem, id)) weights.push_back(id);
  std::ranges::sort(weights);
  return weights;
}

// Walks the actions of a plan with a clock for each lane.
class PaperWalk {
 public:
  PaperWalk(const plan::Problem& problem, const plan::Plan& plan, int64_t samples, Sharding part, int ranks,
            const ranks::NetworkSpeed& speed)
      : problem_(problem),
        plan_(plan),
        samples_(samples),
        part_(ranks > 1 ? part : Sharding::None),
        ranks_(ranks),
        speed_(speed),
        ready_(problem.buffers.size(), 0) {}

  report::ScaleTime run() {
    for (const plan::Action& action : plan_.actions) {
      const plan::Task& task = task_of(problem_, plan_, action);
      if (task.lane == plan::Lane::Network)
        sum(task);
      else
        work(action, task);
    }
    const double step = *std::ranges::max_element(lanes_);
    return {.step_ns = step, .exposed_ns = std::max(0.0, step - other_lanes_ns()), .sent_bytes = sent_bytes_};
  }

 private:
  double& lane(plan::Lane of) { return lanes_[static_cast<size_t>(of)]; }

  // The step with a network that takes no time is as long as its longest other lane.
  double other_lanes_ns() const { return std::max(busy_ns_, lanes_[static_cast<size_t>(plan::Lane::Disk)]); }

  double wait_for_operands(const plan::Work& work, double from) const {
    for (const auto* list : {&work.reads, &work.updates})
      for (const plan::BufferId id : *list) from = std::max(from, ready_[static_cast<size_t>(id)]);
    return from;
  }

  // A sum of gradients runs on the network lane; the computation does not wait for it.
  void sum(const plan::Task& task) {
    double& network = lane(plan::Lane::Network);
    network = wait_for_operands(task, std::max(network, lane(plan::Lane::Compute)));
    const double bytes = task.updates.empty() ? 0 : bytes_of(problem_, task.updates.front());
    exchange(bytes, part_ >= Sharding::Gradients ? 1 : 2);
    for (const plan::BufferId id : task.updates) ready_[static_cast<size_t>(id)] = network;
  }

  void exchange(double bytes, int halves) {
    lane(plan::Lane::Network) += halves * ranks::predict_half_sum_ns(bytes, ranks_, speed_);
    sent_bytes_ += halves * ranks::half_sum_bytes(bytes, ranks_);
  }

  void work(const plan::Action& action, const plan::Task& task) {
    const plan::Work& done = work_of(problem_, plan_, action);
    const std::vector<plan::BufferId> updated = list_weights(problem_, done.updates);
    if (part_ == Sharding::Weights && updated.empty()) gather_before(done);
    double& own = lane(task.lane);
    own = wait_for_operands(done, std::max(own, lane(plan::Lane::Compute)));
    const bool is_shared = part_ != Sharding::None && !updated.empty();
    const double ns = cost_ns(done, samples_of(action)) / (is_shared ? ranks_ : 1);
    own += ns;
    if (task.lane == plan::Lane::Compute) {
      busy_ns_ += ns;
    } else {
      for (const auto* list : {&done.writes, &done.updates})
        for (const plan::BufferId id : *list) ready_[static_cast<size_t>(id)] = own;
    }
    if (is_shared && part_ != Sharding::Weights) gather_behind(updated);
  }

  void gather_before(const plan::Work& done) {
    const std::vector<plan::BufferId> unit = list_weights(problem_, done.reads);
    if (unit.empty() || std::ranges::includes(held_, unit)) return;
    double bytes = 0;
    for (const plan::BufferId id : unit) bytes += bytes_of(problem_, id);
    double& network = lane(plan::Lane::Network);
    network = std::max(network, lane(plan::Lane::Compute));
    exchange(bytes, 1);
    lane(plan::Lane::Compute) = network;
    held_ = unit;
  }

  void gather_behind(const std::vector<plan::BufferId>& updated) {
    double& network = lane(plan::Lane::Network);
    network = std::max(network, lane(plan::Lane::Compute));
    for (const plan::BufferId id : updated) exchange(bytes_of(problem_, id), 1);
  }

  int64_t samples_of(const plan::Action& action) const {
    return plan_.micro_batches.size() > 1 ? plan_.micro_batches[static_cast<size_t>(action.micro_batch)] : samples_;
  }

  const plan::Problem& problem_;
  const plan::Plan& plan_;
  const int64_t samples_;
  const Sharding part_;
  const int ranks_;
  const ranks::NetworkSpeed& speed_;
  std::array<double, plan::kLaneCount> lanes_{};  // when each is done
  std::vector<double> ready_;                     // by buffer: when another lane is done with it
  std::vector<plan::BufferId> held_;              // weights that were gathered last
  double busy_ns_ = 0;
  double sent_bytes_ = 0;
};

}  // namespace

Bytes SharedBytes::saved(Sharding part, int64_t ranks) const {
  if (ranks <= 1 || part == Sharding::None) return 0;
  Bytes shared = state;
  if (part >= Sharding::Gradients) shared += gradients;
  if (part >= Sharding::Weights) shared += weights;
  const Bytes own = (shared + ranks - 1) / ranks;
  return shared - own - (part == Sharding::Weights ? largest_unit : 0);
}

SharedBytes count_shared(const plan::Problem& problem, const plan::Plan& plan) {
  SharedBytes bytes;
  std::vector<bool> is_received(problem.buffers.size(), false);  // receive buffers are not shared among ranks
  for (const plan::Task& task : problem.tasks)
    if (task.lane == plan::Lane::Network)
      for (size_t i = 1; i < task.updates.size(); ++i) is_received[static_cast<size_t>(task.updates[i])] = true;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const plan::Buffer& buffer = problem.buffers[i];
    if (buffer.kind != plan::BufferKind::Variable || is_received[i]) continue;
    const Bytes own = placed_bytes(buffer, 1);
    if (buffer.tag == Tag::Weights) bytes.weights += own;
    if (buffer.tag == Tag::Gradients) bytes.gradients += own;
    if (buffer.tag == Tag::Optimiser) bytes.state += own;
  }
  for (const plan::Action& action : plan.actions) {
    Bytes unit = 0;
    for (const plan::BufferId id : list_weights(problem, work_of(problem, plan, action).reads))
      unit += placed_bytes(problem.buffers[static_cast<size_t>(id)], 1);
    bytes.largest_unit = std::max(bytes.largest_unit, unit);
  }
  return bytes;
}

report::ScaleTime predict_paper_step(const plan::Problem& problem, const plan::Plan& plan, int64_t samples,
                                     Sharding part, int ranks, const ranks::NetworkSpeed& speed) {
  return PaperWalk(problem, plan, samples, part, ranks, speed).run();
}

}  // namespace plimsoll::forecast

// The rows of a profile: the actions of a plan, summed by operator.
#include <algorithm>
#include <map>

#include "report/profile.h"

namespace plimsoll::report {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

// Sums by operator, and the longest single actions: rows for all actions of a deep model would exceed its arena.
class ProfileRows {
 public:
  explicit ProfileRows(size_t most) : most_(most) {}

  void add(ProfileRow&& row) {
    ProfileRow& sum = sums_[row.name];
    sum.name = row.name;
    sum.runs += row.runs;
    sum.ns += row.ns;
    sum.fastest_ns += row.fastest_ns;
    sum.predicted_ns += row.predicted_ns;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
    longest_.push_back(std::move(row));
    if (longest_.size() >= 2 * most_ + 16) cut();
  }

  std::vector<ProfileRow> longest() {
    cut();
    return std::move(longest_);
  }

  std::vector<ProfileRow> operators() const {
    std::vector<ProfileRow> rows;
    for (const auto& [name, row] : sums_) rows.push_back(row);
    std::stable_sort(rows.begin(), rows.end(), is_longer);
    return rows;
  }

 private:
  static bool is_longer(const ProfileRow& a, const ProfileRow& b) { return a.ns > b.ns; }
  void cut() {
    std::stable_sort(longest_.begin(), longest_.end(), is_longer);
    if (longest_.size() > most_) longest_.resize(most_);
  }

  const size_t most_;
  std::map<std::string, ProfileRow> sums_;
  std::vector<ProfileRow> longest_;
};

}  // namespace

ProfileRow describe_step(const lower::Program& program, const plan::Plan& plan, const plan::Action& step) {
  const plan::Problem& problem = program.problem;
  ProfileRow row;
  row.runs = 1;
  if (is_transfer(problem, step)) {
    const plan::Task& transfer = task_of(problem, plan, step);
    const plan::Buffer& buffer = problem.buffers[static_cast<size_t>(moved_by(transfer))];
    row.name = is_load(transfer) ? "load from disk" : "save to disk";
    row.task = buffer.name;
    row.bytes = static_cast<double>(placed_bytes(buffer, program.batch));
    return row;
  }
  const auto id = static_cast<size_t>(step.task);
  const plan::Task& task = problem.tasks[id];
  const lower::ProgramTask& work = program.tasks[id];
  const std::vector<int64_t>& micro_batches = plan.micro_batches;
  const int64_t most = program.micro_batch > 0 ? program.micro_batch : program.batch;
  const int64_t samples = micro_batches.size() > 1 ? micro_batches[static_cast<size_t>(step.micro_batch)] : most;
  const double share = static_cast<double>(samples) / static_cast<double>(most);
  row.name = work.op == nullptr ? "reorder" : std::string(work.op->name) + (work.is_half ? " bf16" : "");
  row.task = task.name;
  row.predicted_ns = cost_ns(work_of(problem, plan, step), samples);
  row.flops = work.of(step).cost.flops * share;
  row.bytes = work.of(step).cost.bytes * share;
  return row;
}

Profile make_profile(const lower::Program& program, const plan::Plan& plan, const StepTimes& times, size_t most_tasks) {
  Profile profile;
  profile.batch = program.batch;
  profile.runs = static_cast<int64_t>(times.size());
  std::vector<double> whole;
  for (const std::vector<int64_t>& run : times) {
    double sum = 0;
    for (const int64_t ns : run) sum += static_cast<double>(ns);
    if (whole.empty() || sum < *std::min_element(whole.begin(), whole.end())) profile.fastest_run_ns = run;
    whole.push_back(sum);
  }
  profile.step_ns = median(whole);
  profile.fastest_step_ns = *std::min_element(whole.begin(), whole.end());
  profile.slowest_step_ns = *std::max_element(whole.begin(), whole.end());
  ProfileRows rows(most_tasks);
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    ProfileRow row = describe_step(program, plan, plan.actions[i]);
    std::vector<double> ns;
    for (const std::vector<int64_t>& run : times) ns.push_back(static_cast<double>(run[i]));
    row.ns = median(ns);
    row.fastest_ns = *std::min_element(ns.begin(), ns.end());
    rows.add(std::move(row));
  }
  profile.longest = rows.longest();
  profile.operators = rows.operators();
  profile.predicted_ns = plan.predicted_ns;
  return profile;
}

double Profile::predicted_over_measured(const ProfileRow& row) const {
  double measured_sum = 0, predicted_sum = 0;
  for (const ProfileRow& one : operators) {
    measured_sum += one.ns;
    predicted_sum += one.predicted_ns;
  }
  if (row.ns <= 0 || predicted_sum <= 0) return 0;
  return (row.predicted_ns / predicted_sum) / (row.ns / measured_sum);
}

}  // namespace plimsoll::report

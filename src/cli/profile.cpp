// plimsoll profile: where the time of a training step goes, operator by operator, on made-up data.
#include "cli/profile.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/auto_batch.h"
#include "cli/peak.h"
#include "cli/verbs.h"
#include "memory/output_file.h"
#include "memory/process.h"
#include "model/synthetic.h"

namespace plimsoll::cli {
namespace {

constexpr int kWarmUp = 2;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

// Times of the plan's steps, one row for each run.
using Times = std::vector<std::vector<int64_t>>;

Times measure(Workload& load, int64_t runs) {
  const auto input = synthetic(load.spec.input, load.batch, load.spec.classes);
  const auto labels = synthetic(load.spec.labels, load.batch, load.spec.classes);
  const Feed feeds[] = {
      {load.training.input, load.spec.input.dtype, input.data(), static_cast<Bytes>(input.size())},
      {load.training.labels, load.spec.labels.dtype, labels.data(), static_cast<Bytes>(labels.size())}};
  Times times(static_cast<size_t>(runs), std::vector<int64_t>(load.session->steps().front().plan.steps.size()));
  for (int64_t i = -kWarmUp; i < runs; ++i) {
    stop_if_asked();
    load.session->run_timed(Workload::Train, feeds, times[static_cast<size_t>(std::max<int64_t>(0, i))]);
  }
  return times;
}

// Sums by operator, and the longest single steps: a row for every step of a deep model would be more than its arena.
class Rows {
 public:
  explicit Rows(size_t most) : most_(most) {}

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

Profile make_profile(const Workload& load, const Times& times, size_t top) {
  const session::PlannedStep& planned = load.session->steps().front();
  Profile profile;
  profile.load = &load;
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
  Rows rows(top);
  for (size_t i = 0; i < planned.plan.steps.size(); ++i) {
    ProfileRow row = describe_step(planned, planned.plan.steps[i]);
    std::vector<double> ns;
    for (const std::vector<int64_t>& run : times) ns.push_back(static_cast<double>(run[i]));
    row.ns = median(ns);
    row.fastest_ns = *std::min_element(ns.begin(), ns.end());
    rows.add(std::move(row));
  }
  profile.longest = rows.longest();
  profile.operators = rows.operators();
  profile.predicted_ns = planned.plan.predicted_ns;
  return profile;
}

// The work of all steps at the peak of this machine.
double predict_here_ns(const session::PlannedStep& planned, const lower::MachineSpeed& peak) {
  double ns = 0;
  for (const plan::Step& step : planned.plan.steps)
    if (step.kind == plan::Step::Kind::Run)
      ns += predict_ns(planned.program.tasks[static_cast<size_t>(step.task)].of(step).cost, peak);
  return ns;
}

void write_trace(const Profile& profile, const std::string& file) {
  OutputFile out(file);
  write_trace(profile, [&](std::string_view text) { out.write(text); });
  out.finish();
}

}  // namespace

ProfileRow describe_step(const session::PlannedStep& planned, const plan::Step& step) {
  const plan::Problem& problem = planned.program.problem;
  ProfileRow row;
  row.runs = 1;
  if (step.kind != plan::Step::Kind::Run) {
    const plan::Buffer& buffer = problem.buffers[static_cast<size_t>(step.buffer)];
    row.name = step.kind == plan::Step::Kind::Save ? "save to disk" : "load from disk";
    row.task = buffer.name;
    row.bytes = static_cast<double>(placed_bytes(buffer, planned.program.batch));
    return row;
  }
  const auto id = static_cast<size_t>(step.task);
  const plan::Task& task = problem.tasks[id];
  const lower::ProgramTask& work = planned.program.tasks[id];
  const std::vector<int64_t>& parts = planned.plan.part_samples;
  const int64_t most = planned.program.part_samples > 0 ? planned.program.part_samples : planned.program.batch;
  const int64_t samples = parts.size() > 1 ? parts[static_cast<size_t>(step.part)] : most;
  const double share = static_cast<double>(samples) / static_cast<double>(most);
  row.name = work.op == nullptr ? "reorder" : std::string(work.op->name);
  row.task = task.name;
  row.predicted_ns = cost_ns(work_of(problem, step), samples);
  row.flops = work.of(step).cost.flops * share;
  row.bytes = work.of(step).cost.bytes * share;
  return row;
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

int run_profile(const Settings& settings) {
  const auto load = make_sized_workload(settings, Purpose::Profile);
  const Times times = measure(*load, profile_runs(settings));
  const Bytes measured_bytes = peak_resident_bytes();
  const Bytes planned_bytes = load->session->peak_bytes();
  // The peak is measured, and the rows are made, in the memory that the step no longer needs, so that the line holds
  // here too.
  load->session->close();
  const lower::MachineSpeed peak = measure_peak(load->session->arena_bytes());
  Profile profile = make_profile(*load, times, static_cast<size_t>(settings.top));
  profile.measured_bytes = measured_bytes;
  profile.planned_bytes = planned_bytes;
  profile.peak = peak;
  profile.predicted_here_ns = predict_here_ns(load->session->steps().front(), peak);
  if (!settings.trace.empty()) write_trace(profile, settings.trace);

  if (settings.json)
    fmt::print("{}\n", profile_json(profile).dump(2));
  else
    fmt::print("{}", profile_text(profile));
  expect_line_kept(load->line->limit());
  return 0;
}

}  // namespace plimsoll::cli

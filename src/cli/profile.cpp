// plimsoll profile: where the time of a training step goes, operator by operator, on made-up data.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "cli/auto_batch.h"
#include "cli/plan_report.h"
#include "cli/verbs.h"
#include "memory/process.h"

namespace plimsoll {
namespace {

constexpr int kWarmUp = 2;

// Reals in [0, 1), or whole numbers below the number of classes.
std::vector<std::byte> made_up(const TensorType& type, int64_t batch, int64_t classes) {
  const int64_t count = element_count(type.shape).at(batch);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_of(type.dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix_bits(static_cast<uint64_t>(i));
    const auto real = static_cast<float>(unit_real(bits));
    const auto whole = static_cast<int32_t>(bits % static_cast<uint64_t>(std::max<int64_t>(1, classes)));
    std::memcpy(bytes.data() + i * 4, type.dtype == DType::F32 ? static_cast<const void*>(&real) : &whole, 4);
  }
  return bytes;
}

struct Row {
  int64_t runs = 0;
  double ns = 0;
  double flops = 0;
  double bytes = 0;
};

// Bytes that a task reads and writes at least.
Bytes moved_bytes(const Problem& problem, const Task& task, int64_t batch) {
  Bytes bytes = 0;
  const auto add = [&](const std::vector<BufferId>& list, int times) {
    for (const BufferId id : list) bytes += times * placed_bytes(problem.buffers[static_cast<size_t>(id)], batch);
  };
  add(task.reads, 1);
  add(task.writes, 1);
  add(task.updates, 2);
  return bytes;
}

std::map<std::string, Row> by_operator(const Workload& load, const PlannedStep& step, const std::vector<double>& ns) {
  std::map<std::string, Row> rows;
  for (size_t i = 0; i < step.plan.steps.size(); ++i) {
    if (step.plan.steps[i].kind != Step::Kind::Run) {
      Row& row = rows[step.plan.steps[i].kind == Step::Kind::Save ? "save to disk" : "load from disk"];
      ++row.runs;
      row.ns += ns[i];
      continue;
    }
    const auto task = static_cast<size_t>(step.plan.steps[i].task);
    const ProgramTask& work = step.program.tasks[task];
    Row& row = rows[work.origin < 0 ? "reorder" : std::string(load.graph.node(work.origin).op->name)];
    ++row.runs;
    row.ns += ns[i];
    row.flops += work.flops;
    row.bytes += static_cast<double>(moved_bytes(step.program.problem, step.program.problem.tasks[task], load.batch));
  }
  return rows;
}

}  // namespace

int run_profile(const Settings& settings) {
  const auto load = make_sized_workload(settings, Purpose::Train);
  const auto input = made_up(load->spec.input, load->batch, load->spec.classes);
  const auto labels = made_up(load->spec.labels, load->batch, load->spec.classes);
  const Feed feeds[] = {{load->training.input, input.data(), static_cast<Bytes>(input.size())},
                        {load->training.labels, labels.data(), static_cast<Bytes>(labels.size())}};
  const PlannedStep& step = load->session->steps().front();
  const int64_t repeats = settings.steps > 0 ? settings.steps : 5;
  std::vector<std::vector<int64_t>> samples(step.plan.steps.size());
  std::vector<int64_t> step_ns(step.plan.steps.size());
  std::vector<double> whole;
  for (int64_t i = 0; i < kWarmUp + repeats; ++i) {
    load->session->run_timed(Workload::Train, feeds, step_ns);
    if (i < kWarmUp) continue;
    double sum = 0;
    for (size_t k = 0; k < step_ns.size(); ++k) {
      samples[k].push_back(step_ns[k]);
      sum += static_cast<double>(step_ns[k]);
    }
    whole.push_back(sum);
  }
  std::vector<double> medians;
  for (std::vector<int64_t>& times : samples) {
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size()) / 2, times.end());
    medians.push_back(static_cast<double>(times[times.size() / 2]));
  }
  std::sort(whole.begin(), whole.end());
  const double median_ns = whole[whole.size() / 2];

  const auto by_op = by_operator(*load, step, medians);
  std::vector<std::pair<std::string, Row>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  if (settings.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [name, row] : rows)
      list.push_back(
          {{"operator", name}, {"runs", row.runs}, {"ns", row.ns}, {"flops", row.flops}, {"bytes", row.bytes}});
    fmt::print("{}\n", nlohmann::json{{"event", "profile"},
                                      {"version", 1},
                                      {"model", load->spec.name()},
                                      {"batch", load->batch},
                                      {"step_ns", median_ns},
                                      {"fastest_step_ns", whole.front()},
                                      {"slowest_step_ns", whole.back()},
                                      {"predicted_step_ns", step.plan.predicted_ns},
                                      {"planned_peak_bytes", load->session->arena_bytes() +
                                                                 load->session->runtime_bytes() + load->data_bytes},
                                      {"measured_peak_bytes", peak_resident_bytes()},
                                      {"operators", list}}
                           .dump(2));
    return 0;
  }
  fmt::print("{} · batch {} · step {:.1f} ms (median of {}, {:.1f} to {:.1f}) · {:.1f} samples/s\n", load->spec.name(),
             load->batch, median_ns / 1e6, whole.size(), whole.front() / 1e6, whole.back() / 1e6,
             static_cast<double>(load->batch) / median_ns * 1e9);
  fmt::print("{:<34} {:>6} {:>10} {:>7} {:>10} {:>8}\n", "operator", "runs", "ms", "share", "GFLOP/s", "GB/s");
  for (const auto& [name, row] : rows)
    fmt::print("{:<34} {:>6} {:>10.2f} {:>5.1f} % {:>10} {:>8.1f}\n", name, row.runs, row.ns / 1e6,
               100 * row.ns / median_ns, row.flops > 0 ? fmt::format("{:.0f}", row.flops / row.ns) : "",
               row.bytes / row.ns);
  return 0;
}

}  // namespace plimsoll

#include "train/profile.h"

#include <algorithm>

#include "memory/arena.h"
#include "memory/process.h"
#include "model/synthetic.h"
#include "train/machine_peak.h"

namespace plimsoll::train {
namespace {

constexpr int kWarmUp = 2;

report::StepTimes time_steps(Training& training, int64_t runs, const StopQuestion& is_stop_asked) {
  const ModelSpec& model = training.model;
  const auto bytes_of = [&](const TensorType& type) {
    return element_count(type.shape).at(training.batch) * size_of(type.dtype);
  };
  const Bytes input_bytes = bytes_of(model.input()), label_bytes = bytes_of(model.labels());
  memory::Arena slot(round_up(input_bytes, kAlignment) + label_bytes);  // in place of one of the pipeline
  slot.commit(slot.maximum());
  std::byte* const labels = slot.data() + round_up(input_bytes, kAlignment);
  model::fill_synthetic(model.input(), training.batch, model.classes, slot.data());
  model::fill_synthetic(model.labels(), training.batch, model.classes, labels);
  const Feed feeds[] = {{training.passes.input(), model.input().dtype, slot.data(), input_bytes},
                        {training.passes.labels(), model.labels().dtype, labels, label_bytes}};
  report::StepTimes times(static_cast<size_t>(runs), std::vector<int64_t>(training.main_step().plan.actions.size()));
  for (int64_t i = -kWarmUp; i < runs; ++i) {
    expect_not_stopped(is_stop_asked);
    training.session->run_timed(Training::Train, feeds, times[static_cast<size_t>(std::max<int64_t>(0, i))]);
  }
  return times;
}

// The work of all steps at the peak of this machine.
double predict_here_ns(const session::PlannedStep& planned, const lower::MachineSpeed& peak) {
  double ns = 0;
  for (const plan::Action& step : planned.plan.actions)
    if (!is_transfer(planned.program.problem, step))
      ns += predict_ns(planned.program.tasks[static_cast<size_t>(step.task)].of(step).cost, peak);
  return ns;
}

}  // namespace

report::Profile measure_profile(Training& training, int64_t steps, size_t most_tasks,
                                const StopQuestion& is_stop_asked) {
  const report::StepTimes times = time_steps(training, steps, is_stop_asked);
  const Bytes measured_bytes = peak_resident_bytes();
  const Bytes planned_bytes = training.session->peak_bytes();
  training.session->close();
  const lower::MachineSpeed peak = measure_peak(training.session->arena_bytes());
  const session::PlannedStep& planned = training.main_step();
  report::Profile profile = report::make_profile(planned.program, planned.plan, times, most_tasks);
  profile.model = training.model.name();
  profile.batch = training.batch;
  profile.line_bytes = training.line->limit();
  profile.measured_bytes = measured_bytes;
  profile.planned_bytes = planned_bytes;
  profile.peak = peak;
  profile.predicted_here_ns = predict_here_ns(planned, peak);
  return profile;
}

}  // namespace plimsoll::train

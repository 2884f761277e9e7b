#include "forecast/profile.h"

#include <algorithm>
#include <chrono>

#include "forecast/exchange_watch.h"
#include "forecast/machine_peak.h"
#include "input/opening/roles.h"
#include "memory/arena.h"
#include "memory/process.h"
#include "model/synthetic.h"
#include "train/inputs.h"

namespace plimsoll::forecast {
namespace {

constexpr int kWarmUp = 2;

// What each step is fed.
class Feeder {
 public:
  virtual ~Feeder() = default;
  virtual std::span<const Feed> next() = 0;
  virtual report::DataProfile profile() const { return {}; }
  virtual void start_clock() {}
};

// One synthetic batch, instead of a slot of the pipeline.
class SyntheticFeeder final : public Feeder {
 public:
  explicit SyntheticFeeder(const train::Training& training) : slot_(slot_bytes(training)) {
    slot_.commit(slot_.maximum());
    const std::vector<TensorType> types = input::component_types(training.model);
    std::byte* place = slot_.data();
    for (size_t i = 0; i < types.size(); ++i) {
      const Bytes bytes = batch_bytes(types[i], training.step_batch());
      model::fill_synthetic(types[i], training.step_batch(), training.model.classes, place);
      feeds_.emplace_back(training.fed[i].placeholder, types[i].dtype, place, bytes);
      place += round_up(bytes, kAlignment);
    }
  }
  std::span<const Feed> next() override { return feeds_; }

 private:
  static Bytes batch_bytes(const TensorType& type, int64_t batch) {
    return element_count(type.shape).at(batch) * size_of(type.dtype);
  }
  static Bytes slot_bytes(const train::Training& training) {
    Bytes bytes = 0;
    for (const TensorType& type : input::component_types(training.model))
      bytes += round_up(batch_bytes(type, training.step_batch()), kAlignment);
    return bytes;
  }

  memory::Arena slot_;
  std::vector<Feed> feeds_;
};

// Batches of the training data, epoch after epoch.
class DataFeeder final : public Feeder {
 public:
  explicit DataFeeder(const train::Training& training)
      : inputs_(training, *training.spec.data.train, {.trains = true, .repeats = true}),
        feeds_(training.fed, inputs_.element()) {
    inputs_.start_epoch(1);
  }
  std::span<const Feed> next() override {
    const ElementView* const batch = inputs_.next();
    if (batch == nullptr) throw Error("the training data has no whole batch", ErrorKind::BadData);
    return feeds_.of(*batch);
  }
  void start_clock() override {
    started_ = Clock::now();
    waited_before_ns_ = inputs_.waited_ns();
  }
  report::DataProfile profile() const override {
    return {inputs_.stages(), inputs_.waited_ns() - waited_before_ns_,
            std::chrono::nanoseconds(Clock::now() - started_).count()};
  }

 private:
  using Clock = std::chrono::steady_clock;
  train::Inputs inputs_;
  input::BatchFeeds feeds_;
  Clock::time_point started_ = Clock::now();
  int64_t waited_before_ns_ = 0;
};

std::unique_ptr<Feeder> make_feeder(const train::Training& training) {
  if (training.spec.data.train) return std::make_unique<DataFeeder>(training);
  return std::make_unique<SyntheticFeeder>(training);
}

struct Measured {
  report::StepTimes times;
  report::DataProfile data;
  std::optional<report::ExchangeFacts> exchanges;
};

Measured time_steps(train::Training& training, int64_t runs, const StopQuestion& is_stop_asked) {
  training.session->open();
  const std::unique_ptr<Feeder> feeder = make_feeder(training);
  Measured measured;
  measured.times.assign(static_cast<size_t>(runs), std::vector<int64_t>(training.main_step().plan.actions.size()));
  std::optional<ExchangeWatch> watch;
  for (int64_t i = -kWarmUp; i < runs; ++i) {
    expect_not_stopped(is_stop_asked);
    if (i == 0) {
      feeder->start_clock();
      watch.emplace(training);
    }
    const auto feeds = feeder->next();
    training.session->run_timed(train::Training::kTrain, feeds,
                                measured.times[static_cast<size_t>(std::max<int64_t>(0, i))]);
    if (training.spec.communicator) training.spec.communicator->expect_good();
  }
  measured.exchanges = watch->count(runs);
  measured.data = feeder->profile();
  return measured;
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

report::Profile measure_profile(train::Training& training, int64_t steps, size_t most_tasks,
                                const StopQuestion& is_stop_asked) {
  const Measured measured = time_steps(training, steps, is_stop_asked);
  const Bytes measured_bytes = peak_resident_bytes();
  const Bytes planned_bytes = training.session->peak_bytes();
  training.session->close();
  const lower::MachineSpeed peak = measure_peak(training.session->arena_bytes());
  const session::PlannedStep& planned = training.main_step();
  report::Profile profile = report::make_profile(planned.program, planned.plan, measured.times, most_tasks);
  profile.data = measured.data;
  profile.exchanges = measured.exchanges;
  profile.model = training.model.name();
  profile.batch = training.spec.batch;
  profile.line_bytes = training.line->limit();
  profile.measured_bytes = measured_bytes;
  profile.planned_bytes = planned_bytes;
  profile.peak = peak;
  profile.predicted_here_ns = predict_here_ns(planned, peak);
  return profile;
}

}  // namespace plimsoll::forecast

#include "forecast/scale.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "forecast/paper_step.h"
#include "plan/make_plan.h"
#include "train/training.h"

namespace plimsoll::forecast {
namespace {

constexpr int64_t kMostRanks = 1024;

// A planned step; all rows of the table with as many samples for each rank share it.
struct OpenStep {
  explicit OpenStep(std::unique_ptr<train::Training> of)
      : training(std::move(of)),
        samples(training->step_batch()),
        overhead(training->session->runtime_bytes() + training->data_bytes),
        shared(count_shared(problem(), plan())) {}

  const plan::Problem& problem() const { return training->main_step().program.problem; }
  const plan::Plan& plan() const { return training->main_step().plan; }

  std::unique_ptr<train::Training> training;
  int64_t samples;
  Bytes overhead;  // beside the arena
  SharedBytes shared;
};

class ScalePlanner {
 public:
  ScalePlanner(const train::Spec& spec, int ranks, const StopQuestion& is_stop_asked)
      : spec_(spec), asked_(ranks), is_stop_asked_(is_stop_asked), line_(train::resolve_line(spec).bytes) {
    spec_.line = kOpenLine;
    spec_.own_line.reset();
    spec_.finds_batch = false;
  }

  report::ScaleFacts run() {
    const OpenStep& asked = several(asked_);
    report::ScaleFacts facts{.ranks = asked_,
                             .batch = batch_,
                             .rank_samples = asked.samples,
                             .line_bytes = line_,
                             .bytes_per_s = spec_.network.bytes_per_s,
                             .message_ns = spec_.network.message_ns,
                             .network = to_text(spec_.network)};
    const OpenStep whole(open(batch_, nullptr)), weak(open(asked.samples, nullptr));
    for (const Sharding part : kShardings) {
      report::ScaleBlock block{.part = part};
      for (const int64_t ranks : list_ranks()) {
        const bool is_one = ranks == 1, has_samples = ranks <= batch_;
        const OpenStep& step = is_one ? whole : has_samples ? several(ranks) : asked;
        report::ScaleRow row = make_row(step, part, ranks);
        if (!has_samples) row = without_samples(row);
        row.weak = time_of(is_one ? weak : asked, part, ranks, time_alone(weak));
        if (row.strong) row.strong->efficiency = time_alone(whole) / static_cast<double>(ranks) / row.strong->step_ns;
        block.rows.push_back(row);
      }
      block.stops_at = report::find_end_of_scaling(block.rows);
      facts.blocks.push_back(std::move(block));
    }
    return facts;
  }

 private:
  static constexpr Bytes kOpenLine = 1000 * 1024 * GiB;

  std::unique_ptr<train::Training> open(int64_t batch, const std::shared_ptr<ranks::Communicator>& communicator) {
    train::Spec spec = spec_;
    spec.batch = batch;
    spec.communicator = communicator;
    return train::make_training(spec, is_stop_asked_);
  }

  // Steps with as many samples for each rank differ only in the price of exchanges, which predict_paper_step replaces.
  const OpenStep& several(int64_t ranks) {
    if (batch_ == 0) batch_ = spec_.batch > 0 ? spec_.batch : train::model_of(spec_).batch;
    const int64_t samples = (batch_ + ranks - 1) / ranks;
    auto found = steps_.find(samples);
    if (found == steps_.end())
      found = steps_.emplace(samples, open(samples * ranks, ranks::make_on_paper(static_cast<int>(ranks)))).first;
    return found->second;
  }

  std::vector<int64_t> list_ranks() const {
    std::vector<int64_t> all{asked_};
    for (int64_t ranks = 1; ranks <= kMostRanks; ranks *= 2)
      if (ranks != asked_) all.push_back(ranks);
    std::ranges::sort(all);
    return all;
  }

  static double time_alone(const OpenStep& step) {
    return predict_paper_step(step.problem(), step.plan(), step.samples, Sharding::None, 1, {}).step_ns;
  }

  report::ScaleTime time_of(const OpenStep& step, Sharding part, int64_t ranks, double alone_ns) const {
    report::ScaleTime time =
        predict_paper_step(step.problem(), step.plan(), step.samples, part, static_cast<int>(ranks), spec_.network);
    time.efficiency = alone_ns / time.step_ns;
    return time;
  }

  // The step is planned without parts; the bytes that a rank saves by holding parts are added to its line.
  report::ScaleRow make_row(const OpenStep& step, Sharding part, int64_t ranks) {
    const Bytes saved = step.shared.saved(part, ranks);
    report::ScaleRow row{.ranks = ranks, .samples = step.samples};
    row.rank_bytes = step.plan().arena_bytes - saved + step.overhead;
    if (row.rank_bytes <= line_) {
      row.strong = time_of(step, part, ranks, 0);
      return row;
    }
    const std::vector<plan::Problem> problems = step.training->session->problems(train::Training::kTrain);
    std::vector<const plan::Problem*> pointers;
    for (const plan::Problem& problem : problems) pointers.push_back(&problem);
    plan::Limits limits = step.training->main_step().limits;
    limits.bytes = std::max<Bytes>(0, line_ - step.overhead + saved);
    const plan::Choice choice = plan::choose_plan(problems.front(), pointers, limits);
    if (const auto* lower = std::get_if<plan::Plan>(&choice.answer)) {
      row.rank_bytes = lower->arena_bytes - saved + step.overhead;
      row.strong = predict_paper_step(problems[choice.problem], *lower, step.samples, part, static_cast<int>(ranks),
                                      spec_.network);
    } else {
      row.rank_bytes = std::get<plan::Shortfall>(choice.answer).need_bytes - saved + step.overhead;
      row.fits = false;
    }
    return row;
  }

  static report::ScaleRow without_samples(report::ScaleRow row) {
    row.samples = 0;
    row.strong.reset();
    return row;
  }

  train::Spec spec_;
  const int asked_;
  const StopQuestion& is_stop_asked_;
  const Bytes line_;
  int64_t batch_ = 0;
  std::map<int64_t, OpenStep> steps_;  // by samples of a rank
};

}  // namespace

train::Spec on_paper(const train::Spec& spec, int ranks) {
  const int64_t batch = spec.batch > 0 ? spec.batch : train::model_of(spec).batch;
  if (batch < ranks)
    throw Error(fmt::format("a batch of {} has no sample for each of {} ranks; give a batch of {} or more", batch,
                            ranks, ranks),
                ErrorKind::Usage);
  train::Spec paper = spec;
  paper.communicator = ranks::make_on_paper(ranks);
  return paper;
}

report::ScaleFacts plan_scale(const train::Spec& spec, int ranks, const StopQuestion& is_stop_asked) {
  return ScalePlanner(spec, ranks, is_stop_asked).run();
}

}  // namespace plimsoll::forecast

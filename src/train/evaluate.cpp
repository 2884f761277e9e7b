#include "train/evaluate.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "session/bad_data.h"
#include "train/epoch_sums.h"

namespace plimsoll::train {

double Score::value(std::string_view name) const {
  return find_log(values, name).value_or(std::numeric_limits<double>::quiet_NaN());
}

void plan_last_batch(Training& training, const Inputs& inputs) {
  const int64_t rest = inputs.last_batch().value_or(0);
  if (rest > 0) training.session->plan(evaluate_request(training.passes, rest));
}

Score evaluate(Training& training, Inputs& inputs, const EvaluateOptions& options) {
  Score score;
  EpochSums sums(training.model, training.passes.eval_sums);
  int64_t steps = 0;
  inputs.start_epoch(0);
  BatchFeeds batches(training.fed, inputs.element());
  while (const ElementView* batch = inputs.next()) {
    const int64_t samples_here = samples_of(*batch);
    score.stopped = options.is_stop_asked();
    if (score.stopped) break;
    const auto feeds = batches.of(*batch);
    const auto views = training.session->run_like(training.evaluate_step, feeds);
    const auto batch_loss = static_cast<double>(views[0].floats()[0]);
    if (!std::isfinite(batch_loss))
      session::throw_bad_loss(
          batch_loss, feeds,
          fmt::format("while samples {} to {} were evaluated", score.samples, score.samples + samples_here - 1),
          "the weights are not finite, or as large as from training that diverged");
    sums.add(views, samples_here);
    score.samples += samples_here;
    if (options.most_steps > 0 && ++steps >= options.most_steps) break;
  }
  inputs.stop();
  for (size_t i = 0; i < sums.names().size(); ++i) score.values.push_back({sums.names()[i], sums.mean(i)});
  return score;
}

}  // namespace plimsoll::train

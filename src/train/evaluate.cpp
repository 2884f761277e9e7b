#include "train/evaluate.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "session/bad_data.h"

namespace plimsoll::train {

void plan_last_batch(Training& training, const Inputs& inputs) {
  // Where bad samples are passed over, nobody knows what is left.
  const int64_t rest = training.pipeline.most_corrupt > 0 ? 0 : inputs.samples() % training.batch;
  if (rest > 0) training.session->plan(evaluate_request(training.passes, rest));
}

Score evaluate(Training& training, Inputs& inputs, const StopQuestion& is_stop_asked) {
  Score score;
  double loss = 0;
  double correct = 0;
  const bool counts = training.passes.eval_correct.is_set();
  inputs.start_epoch(0);
  while (const ElementView* batch = inputs.next()) {
    const int64_t samples_here = samples_of(*batch);
    score.stopped = is_stop_asked();
    if (score.stopped) break;
    const auto feeds = feeds_of(training, *batch);
    const auto views = training.session->run(evaluate_request(training.passes, samples_here), feeds);
    const auto batch_loss = static_cast<double>(views[0].floats()[0]);
    if (!std::isfinite(batch_loss))
      session::throw_bad_loss(
          batch_loss, feeds,
          fmt::format("while samples {} to {} were evaluated", score.samples, score.samples + samples_here - 1),
          "the weights are not finite, or as large as from training that diverged");
    loss += batch_loss * static_cast<double>(samples_here);
    if (counts) correct += static_cast<double>(views[1].floats()[0]);
    score.samples += samples_here;
  }
  inputs.stop();
  const auto samples = static_cast<double>(score.samples);
  score.loss = loss / samples;
  score.accuracy = counts ? correct / samples : std::numeric_limits<double>::quiet_NaN();
  return score;
}

}  // namespace plimsoll::train

#include "cli/evaluate.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "cli/verbs.h"
#include "session/bad_data.h"

namespace plimsoll::cli {

void plan_last_batch(Workload& load, const Inputs& inputs) {
  const int64_t rest = inputs.samples() % load.batch;
  if (rest > 0) load.session->plan(evaluate_request(load.training, rest));
}

Score evaluate(Workload& load, Inputs& inputs) {
  Score score;
  double loss = 0;
  double correct = 0;
  const bool counts = load.training.eval_correct.is_set();
  const auto row = [](const TensorType& type) { return element_count(type.shape).count() * size_of(type.dtype); };
  data::Prefetch& batches = inputs.start_epoch(0);
  while (const data::BatchSlot* slot = batches.next()) {
    if (is_stop_asked()) {
      score.stopped = true;
      break;
    }
    const auto feed = [&](Tensor to, const TensorType& type, const void* rows) {
      return Feed(to, type.dtype, rows, slot->samples * row(type));
    };
    const Feed feeds[] = {feed(load.training.input, load.spec.input, slot->rows[0]),
                          feed(load.training.labels, load.spec.labels, slot->rows[1])};
    const auto views = load.session->run(evaluate_request(load.training, slot->samples), feeds);
    const auto batch_loss = static_cast<double>(views[0].floats()[0]);
    if (!std::isfinite(batch_loss))
      session::throw_bad_loss(
          batch_loss, feeds,
          fmt::format("while samples {} to {} were evaluated", score.samples, score.samples + slot->samples - 1),
          "the weights are not finite, or as large as from training that diverged");
    loss += batch_loss * static_cast<double>(slot->samples);
    if (counts) correct += static_cast<double>(views[1].floats()[0]);
    score.samples += slot->samples;
  }
  inputs.stop();
  const auto samples = static_cast<double>(score.samples);
  score.loss = loss / samples;
  score.accuracy = counts ? correct / samples : std::numeric_limits<double>::quiet_NaN();
  return score;
}

}  // namespace plimsoll::cli

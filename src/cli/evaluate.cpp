#include "cli/evaluate.h"

#include <limits>

#include "cli/verbs.h"

namespace plimsoll {

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
  Prefetch& batches = inputs.start_epoch(0);
  while (const Slot* slot = batches.next()) {
    if (is_stop_asked()) {
      score.stopped = true;
      break;
    }
    const Feed feeds[] = {{load.training.input, slot->rows[0], slot->samples * row(load.spec.input)},
                          {load.training.labels, slot->rows[1], slot->samples * row(load.spec.labels)}};
    const auto views = load.session->run(evaluate_request(load.training, slot->samples), feeds);
    loss += static_cast<double>(views[0].floats()[0]) * static_cast<double>(slot->samples);
    if (counts) correct += static_cast<double>(views[1].floats()[0]);
    score.samples += slot->samples;
  }
  inputs.stop();
  const auto samples = static_cast<double>(score.samples);
  score.loss = loss / samples;
  score.accuracy = counts ? correct / samples : std::numeric_limits<double>::quiet_NaN();
  return score;
}

}  // namespace plimsoll

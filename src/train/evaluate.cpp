#include "train/evaluate.h"

#include <limits>

#include "train/batch_runner.h"
#include "train/epoch_sums.h"

namespace plimsoll::train {

double Score::value(std::string_view name) const {
  return find_log(values, name).value_or(std::numeric_limits<double>::quiet_NaN());
}

Score evaluate(Training& training, Inputs& inputs, const EvaluateOptions& options) {
  Score score;
  EpochSums sums(training.model, training.passes.eval_sums);
  inputs.start_epoch(0);
  make_batch_runner(training, inputs.element(), sums.width())->evaluate(inputs, options, sums, score);
  inputs.stop();
  for (size_t i = 0; i < sums.names().size(); ++i) score.values.push_back({sums.names()[i], sums.mean(i)});
  return score;
}

}  // namespace plimsoll::train

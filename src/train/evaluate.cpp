#include "train/evaluate.h"

#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "session/bad_data.h"
#include "train/epoch_sums.h"
#include "train/no_samples.h"
#include "train/pipeline.h"

namespace plimsoll::train {

double Score::value(std::string_view name) const {
  return find_log(values, name).value_or(std::numeric_limits<double>::quiet_NaN());
}

namespace {

std::span<const View> evaluate_batch(Training& training, std::span<const Feed> feeds, int64_t first, int64_t samples) {
  const auto views = training.session->run_like(training.evaluate_step, feeds);
  const auto batch_loss = static_cast<double>(views[0].floats()[0]);
  if (!std::isfinite(batch_loss))
    session::throw_bad_loss(batch_loss, feeds,
                            fmt::format("while samples {} to {} were evaluated", first, first + samples - 1),
                            "the weights are not finite, or as large as from training that diverged");
  return views;
}

// Batch by batch, each by all ranks together: every rank runs its shards.
void evaluate_shards(Training& training, Inputs& inputs, const EvaluateOptions& options, EpochSums& sums,
                     Score& score) {
  const Shards& shards = training.shards;
  ShardRecords records(shards, training.communicator.get(), sums.width());
  input::BatchFeeds batches(training.fed, inputs.element());
  std::optional<ZeroSample> zeros;
  for (int64_t step = 0; (options.most_steps == 0 || step < options.most_steps) && !score.stopped; ++step) {
    const BatchPart part = inputs.next_part();
    if (part.samples == 0) break;
    records.clear();
    if (options.is_stop_asked()) records.set_stop_asked();
    for (int64_t i = 0; i < shards.own; ++i) {
      const int64_t number = shards.number_of(i), first = shards.begin_of(number, part.samples);
      const int64_t count = shards.size_of(number, part.samples);
      if (count > 0) {
        const auto feeds = batches.of(*part.view, part.is_whole ? first : shards.place_of(i, part.samples), count);
        sums.write(evaluate_batch(training, feeds, step * training.batch + first, count), count, records.own(i));
      } else if (training.shared.weights) {
        training.session->run_like(training.evaluate_step, (zeros ? *zeros : zeros.emplace(training)).feeds());
      }
    }
    records.exchange();
    score.stopped = records.is_stop_asked();
    records.add_to(sums);
    score.samples += static_cast<int64_t>(records.samples());
  }
}

}  // namespace

Score evaluate(Training& training, Inputs& inputs, const EvaluateOptions& options) {
  Score score;
  EpochSums sums(training.model, training.passes.eval_sums);
  int64_t steps = 0;
  inputs.start_epoch(0);
  const bool is_together = training.shards.is_cut || training.place.is_set();
  if (training.shards.is_cut) evaluate_shards(training, inputs, options, sums, score);
  if (training.place.is_set()) evaluate_stages(training, inputs, options, sums, score);
  input::BatchFeeds batches(training.fed, inputs.element());
  while (const ElementView* batch = is_together ? nullptr : inputs.next()) {
    score.stopped = options.is_stop_asked();
    if (score.stopped) break;
    const int64_t samples_here = input::samples_of(*batch);
    sums.add(evaluate_batch(training, batches.of(*batch), score.samples, samples_here), samples_here);
    score.samples += samples_here;
    if (options.most_steps > 0 && ++steps >= options.most_steps) break;
  }
  inputs.stop();
  for (size_t i = 0; i < sums.names().size(); ++i) score.values.push_back({sums.names()[i], sums.mean(i)});
  return score;
}

}  // namespace plimsoll::train

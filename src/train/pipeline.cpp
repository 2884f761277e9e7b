#include "train/pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "session/bad_data.h"
#include "train/inputs.h"

namespace plimsoll::train {
namespace {

int64_t choose_micro_batches(int64_t batch, int stages) {
  int64_t count = std::min<int64_t>(batch, 4 * stages);
  while (batch % count != 0) --count;
  return count;
}

[[noreturn]] void refuse_pipeline(const std::string& why) { throw Error(why, ErrorKind::Usage); }

void refuse_combinations(const Spec& spec) {
  if (spec.purpose != Purpose::Train)
    refuse_pipeline("a pipeline trains alone: evaluate, predict and profile with one process");
  if (spec.shards > 0) refuse_pipeline("a pipeline has micro-batches, not shards; leave one of the two away");
  if (spec.sharding != Sharding::None)
    refuse_pipeline(
        "ranks of a pipeline share nothing, as each has the weights of its stage; leave one of the two away");
  if (spec.accumulate > 1)
    refuse_pipeline(
        fmt::format("{} batches for each update can't be combined with a pipeline; give a batch that is as many "
                    "times as large instead",
                    spec.accumulate));
  if (spec.pruning) refuse_pipeline("pruning can't be combined with a pipeline; prune with one process");
  if (spec.pipeline.most_corrupt > 0)
    refuse_pipeline("samples can't be passed over in a pipeline; correct the data, or train with one process");
  if (spec.predicts) refuse_pipeline("a pipeline writes no predictions; predict with one process from the weights");
}

}  // namespace

model::StagePlace place_in_pipeline(const Spec& spec, int64_t batch) {
  if (!spec.stages.is_set()) return {};
  refuse_combinations(spec);
  const int ranks = spec.communicator ? spec.communicator->size() : 1;
  model::StagePlace place;
  place.first_layers = spec.stages.first_layers;
  place.stages = static_cast<int>(place.first_layers.size()) + 1;
  if (place.stages != ranks)
    refuse_pipeline(fmt::format("a pipeline of {0} stage{1} needs {0} rank{1}, one for each, and there {2} {3}",
                                place.stages, place.stages == 1 ? "" : "s", ranks == 1 ? "is" : "are", ranks));
  place.stage = spec.communicator ? spec.communicator->rank() : 0;
  place.micro_batches =
      spec.stages.micro_batches > 0 ? spec.stages.micro_batches : choose_micro_batches(batch, place.stages);
  if (batch % place.micro_batches != 0)
    refuse_pipeline(fmt::format("a batch of {} can't be cut into {} equal micro-batches; try a batch of {}", batch,
                                place.micro_batches,
                                (batch + place.micro_batches - 1) / place.micro_batches * place.micro_batches));
  place.samples = batch / place.micro_batches;
  return place;
}

std::vector<session::Request> list_stage_requests(Training& training, int64_t last_batch) {
  const model::StageGraph& stage = training.stage;
  const int64_t samples = training.place.samples, rest = last_batch % samples;
  training.evaluate_step = 1;
  std::vector<session::Request> requests{{stage.fetches, stage.passes.updates.nodes, samples},
                                         {stage.eval_fetches, stage.eval_exchanges, samples}};
  if (rest > 0) requests.push_back({stage.eval_fetches, stage.eval_exchanges, rest});
  return requests;
}

bool micro_batches_lie_aligned(const Training& training) {
  if (!training.place.is_set()) return true;
  return std::ranges::all_of(training.fed, [&](const input::FedTensor& fed) {
    const Dim count = element_count(fed.placeholder.shape());
    return count.count() * size_of(fed.placeholder.dtype()) * training.place.samples % kAlignment == 0;
  });
}

Shards shards_of_stages(const Training& training, int64_t micro_batches) {
  return {.total = micro_batches * training.place.stages, .own = micro_batches, .samples = training.place.samples};
}

StageRunner::StageRunner(Training& training, const ElementSpec& batches) : training_(training) {
  for (const input::FedTensor& fed : training.fed) {
    const auto at = std::ranges::find_if(batches, [&](const Component& one) { return one.name == fed.component; });
    if (at == batches.end()) throw Error(fmt::format("the data has no '{}'", fed.component), ErrorKind::BadData);
    components_.push_back(static_cast<size_t>(at - batches.begin()));
  }
  for (const std::vector<Tensor>& tensors : training.stage.fed)
    for (size_t i = 0; i < tensors.size(); ++i)
      feeds_.emplace_back(tensors[i], batches[components_[i]].dtype, nullptr, 0);
}

void StageRunner::set_feeds(const ElementView& batch, std::span<Feed> feeds, int64_t first, int64_t samples) const {
  for (size_t i = 0; i < components_.size(); ++i) {
    const Bytes sample_bytes = batch.bytes(components_[i]) / input::samples_of(batch);
    feeds[i].data = static_cast<const std::byte*>(batch.data(components_[i])) + first * sample_bytes;
    feeds[i].bytes = samples * sample_bytes;
  }
}

void StageRunner::train(const ElementView& batch, const EpochSums& sums, ShardRecords& records,
                        const std::string& advice) {
  const model::StagePlace& place = training_.place;
  session::Engine& session = *training_.session;
  for (int64_t i = 0; i < place.micro_batches; ++i)
    set_feeds(batch, std::span(feeds_).subspan(static_cast<size_t>(i) * components_.size()), i * place.samples,
              place.samples);
  const int64_t steps = session.step_count();
  const std::span<const View> views = session.run_step(Training::kTrain, feeds_);
  if (training_.communicator) training_.communicator->expect_good();
  if (!place.is_last()) return;
  const size_t width = views.size() / static_cast<size_t>(place.micro_batches);
  for (int64_t i = 0; i < place.micro_batches; ++i) {
    const auto number = static_cast<size_t>(i);
    const std::span<const View> own = views.subspan(number * width, width);
    const auto loss = static_cast<double>(own[0].floats()[0]);
    if (!std::isfinite(loss))
      session::throw_bad_loss(loss, std::span(feeds_).subspan(number * components_.size(), components_.size()),
                              fmt::format("at step {}", steps + 1), advice);
    sums.write(own, place.samples, records.own(i));
  }
}

void StageRunner::evaluate(const ElementView& batch, int64_t first, int64_t samples, const EpochSums& sums,
                           ShardRecords& records) {
  session::Engine& session = *training_.session;
  const std::span<Feed> feeds = std::span(feeds_).first(components_.size());
  set_feeds(batch, feeds, first, samples);
  const int64_t steps = session.step_count();
  const std::span<const View> views = session.run_like(training_.evaluate_step, feeds);
  session.set_step_count(steps);
  if (training_.communicator) training_.communicator->expect_good();
  if (!training_.place.is_last()) return;
  const auto loss = static_cast<double>(views[0].floats()[0]);
  if (!std::isfinite(loss))
    session::throw_bad_loss(loss, feeds, "during evaluation",
                            "the weights are not finite, or as large as from training that diverged");
  sums.write(views, samples, records.own(0));
}

void evaluate_stages(Training& training, Inputs& inputs, const EvaluateOptions& options, EpochSums& sums,
                     Score& score) {
  ShardRecords records(shards_of_stages(training, 1), training.communicator.get(), sums.width());
  StageRunner runner(training, inputs.element());
  const int64_t all = inputs.steps_per_epoch();  // negative: not known
  const int64_t most = options.most_steps > 0 ? options.most_steps : std::numeric_limits<int64_t>::max();
  for (int64_t step = 0; step < most && step != all && !score.stopped; ++step) {
    const ElementView* const batch = inputs.next();
    if (batch == nullptr && all < 0) break;
    if (batch == nullptr) throw Error("the data ended before its last batch", ErrorKind::BadData);
    const int64_t count = input::samples_of(*batch);
    for (int64_t first = 0; first < count && !score.stopped; first += training.place.samples) {
      records.clear();
      if (options.is_stop_asked()) records.set_stop_asked();
      runner.evaluate(*batch, first, std::min(training.place.samples, count - first), sums, records);
      records.exchange();
      score.stopped = records.is_stop_asked();
      records.add_to(sums);
      score.samples += static_cast<int64_t>(records.samples());
    }
  }
}

}  // namespace plimsoll::train

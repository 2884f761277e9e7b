#include "train/pipeline.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
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

}  // namespace plimsoll::train

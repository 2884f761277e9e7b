#include "train/training_passes.h"

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "model/rank_model.h"
#include "train/checkpoint_store.h"
#include "train/inputs.h"

namespace plimsoll::train {
namespace {

// Bytes stay bytes until the step converts them.
model::InputConversion input_conversion(const Spec& spec, const ModelSpec& model) {
  model::InputConversion conversion{.mean = spec.pipeline.mean, .deviation = spec.pipeline.deviation};
  conversion.stored = fed_types(spec.data, model);
  conversion.scale = model.preprocessing.byte_scale;
  return conversion;
}

model::TrainingGraph build_passes(Training& training, const ModelSpec& model, const Spec& spec) {
  Graph& graph = training.graph;
  if (spec.purpose == Purpose::Predict) return model::build_inference(graph, model);
  const model::InputConversion conversion = input_conversion(spec, model);
  if (spec.purpose == Purpose::Evaluate) return model::build_evaluation(graph, model, conversion);
  if (training.place.is_set()) {
    training.stage = model::build_stage(graph, model, optimiser_of(spec), conversion, spec.freeze, training.place);
    return training.stage.passes;
  }
  return model::build_training(graph, model, optimiser_of(spec), conversion, spec.accumulate, spec.freeze,
                               training.shards.levels(), training.shared);
}

// Statistics of the whole batch need all of its samples at once, at the same layer.
void expect_synchronised(const Training& training, const Spec& spec) {
  const auto refuse = [](const std::string& why) { throw Error(why, ErrorKind::Usage); };
  if (!spec.split_ops.empty())
    refuse("batch norm has the statistics of the whole batch or of each micro-batch; ask for one of the two");
  if (training.place.is_set())
    refuse(
        "batch norm in a pipeline has the statistics of a micro-batch, not those of the whole batch; share the batch "
        "between ranks instead, or give batch norm its own statistics");
  if (training.shards.own > 1)
    refuse(
        fmt::format("batch norm with the statistics of the whole batch needs a rank for each shard, and {} shards "
                    "are computed one after another on each of {}; give as many ranks as shards",
                    training.shards.own,
                    training.shards.total / training.shards.own == 1
                        ? "1 rank"
                        : fmt::format("{} ranks", training.shards.total / training.shards.own)));
}

}  // namespace

model::TrainingGraph build_shared_passes(Training& training) {
  const Spec& spec = training.spec;
  autodiff::SharedTensors& shared = training.shared;
  if (!trains(spec) || (!training.shards.is_cut && !training.place.is_set()))
    return build_passes(training, training.model, spec);
  const ModelSpec model =
      model::make_rank_model(training.model, shared,
                             spec.synchronises_norms ? model::SynchronisedNorms::All : model::SynchronisedNorms::Named);
  if (shared.synchronises_norms) expect_synchronised(training, spec);
  if (training.place.stages > 1) {  // the hash of the step in one process
    Training alone;
    alone.place = training.place;
    alone.place.stage = 0;
    alone.place.stages = 1;
    alone.place.first_layers.clear();
    build_passes(alone, training.model, spec);
    training.step_hash = hash_of_step(alone.whole_graph());
  }
  if (!shared.buffer) return build_passes(training, training.model, spec);
  if (shared.weights && spec.pruning)
    throw Error("weights that ranks share can't be pruned; let them share gradients alone", ErrorKind::Usage);
  Training whole;  // the step without sharing, for its hash
  whole.shards = training.shards;
  build_passes(whole, training.model, spec);
  training.step_hash = hash_of_step(whole.graph);
  return build_passes(training, model, spec);
}

weights::VariableSlices list_slices(const Training& training) {
  weights::VariableSlices slices{training.spec.communicator.get(), {}};
  for (const autodiff::SharedVariable& variable : training.passes.shared)
    slices.whole.emplace(variable.slice.name(), at_batch(variable.whole, 1));
  return slices;
}

}  // namespace plimsoll::train

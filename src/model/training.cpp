#include "model/training.h"

namespace plimsoll {
namespace {

struct Pass {
  Tensor answer;
  Verdict verdict;
};

Pass build_pass(const ModelSpec& spec, Tensor input, Tensor labels, bool training, Scope::Mode mode) {
  const Tensor answer = spec.model(input, training, mode);
  // The judge may share variables of the model, such as an embedding that is also the last layer.
  const Scope scope(input.graph(), spec.name(), Scope::Mode::Reuse);
  return {answer, spec.judge(answer, labels)};
}

}  // namespace

TrainingGraph build_training(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser) {
  TrainingGraph result;
  result.input = graph.placeholder("input", spec.input.dtype, spec.input.shape);
  result.labels = graph.placeholder("labels", spec.labels.dtype, spec.labels.shape);
  const Pass training = build_pass(spec, result.input, result.labels, true, Scope::Mode::Inherit);
  result.loss = training.verdict.loss;
  result.correct = training.verdict.correct;
  result.updates = minimize(result.loss, optimiser);
  result.learning_rate = result.updates.learning_rate;
  // After the backward pass, which walks over all nodes that there are.
  const Pass inference = build_pass(spec, result.input, result.labels, false, Scope::Mode::Reuse);
  result.answer = inference.answer;
  result.eval_loss = inference.verdict.loss;
  result.eval_correct = inference.verdict.correct;
  return result;
}

}  // namespace plimsoll

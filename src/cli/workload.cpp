#include "cli/workload.h"

#include <omp.h>

#include "cli/verbs.h"
#include "data/prefetch.h"
#include "session/weights_file.h"

namespace plimsoll::cli {
namespace {

Bytes sample_bytes(const TensorType& type) { return element_count(type.shape).count() * size_of(type.dtype); }

// Files of another element type are converted piece by piece, those for training and those for testing. No file has
// elements of more than 8 bytes.
Bytes conversion_bytes(const ModelSpec& spec) {
  const int64_t elements = std::max(element_count(spec.input.shape).count(), element_count(spec.labels.shape).count());
  return 2 * std::max(data::Batches::kStagingBytes, elements * 8);
}

std::vector<Tensor> fetches(Tensor loss, Tensor correct) {
  return correct.is_set() ? std::vector{loss, correct} : std::vector{loss};
}

}  // namespace

session::Request train_request(const TrainingGraph& training, int64_t batch) {
  return {fetches(training.loss, training.correct), training.updates.nodes, batch};
}

session::Request evaluate_request(const TrainingGraph& training, int64_t batch) {
  return {fetches(training.eval_loss, training.eval_correct), {}, batch};
}

std::unique_ptr<Workload> make_workload(const Settings& settings, Purpose purpose) {
  stop_if_asked();
  auto load = std::make_unique<Workload>();
  if (settings.threads > 0) omp_set_num_threads(settings.threads);
  load->spec = find_model(settings.model, settings.model_options);
  load->batch = settings.batch > 0 ? settings.batch : load->spec.batch;
  allow_split(load->graph, settings.split);
  load->training = build_training(load->graph, load->spec, make_optimiser(settings));
  stop_if_asked();
  load->line_origin = resolve_line(settings);
  load->line = MemoryLine::process(load->line_origin.bytes);

  const Bytes rows[] = {sample_bytes(load->spec.input), sample_bytes(load->spec.labels)};
  load->data_bytes = data::Prefetch::bytes_needed(rows, load->batch, kPrefetchSlots) + conversion_bytes(load->spec);
  std::vector<session::Request> requests;
  if (purpose != Purpose::Evaluate) requests.push_back(train_request(load->training, load->batch));
  requests.push_back(evaluate_request(load->training, load->batch));
  SessionOptions options;
  options.plans_other_batches = false;  // all steps are planned before it opens
  options.keeps_plans = purpose == Purpose::Profile;
  if (purpose == Purpose::Profile)
    options.caller_step_bytes = profile_runs(settings) * Bytes{sizeof(int64_t)};
  else
    options.caller_bytes = settings.weights.empty() ? 2 * OutputFile::kBufferBytes : session::kWeightsFileBytes;
  options.later_plans = purpose == Purpose::Profile ? 0 : 1;  // the last batch of the test data may be smaller
  options.data_bytes = load->data_bytes;
  options.seed = settings.seed;
  const Allowed allowed = parse_without(settings.without);
  options.levers = allowed.levers;
  options.masks = allowed.masks;
  options.half_values = parse_half_storage(settings.half_storage).values;
  const Scratch scratch = resolve_scratch(settings);
  load->scratch_folder = options.scratch_folder = scratch.folder;
  options.disk_limit = scratch.bytes;
  load->session = std::make_unique<session::Engine>(load->graph, *load->line, requests, options);
  stop_if_asked();
  load->changes.half.values = load->session->steps().front().program.half_values > 0;
  for (const Node& node : load->graph.nodes())
    load->changes.splits_norm = load->changes.splits_norm || load->graph.may_split(node.op->name);
  for (const Variable& variable : load->graph.variables())
    load->changes.half.state = load->changes.half.state || load->graph.value(variable.value).type.dtype == DType::BF16;
  return load;
}

}  // namespace plimsoll::cli

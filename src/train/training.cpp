#include "train/training.h"

#include <omp.h>

#include <algorithm>

#include <fmt/format.h>

#include "graph/body.h"
#include "graph/init.h"
#include "input/opening/roles.h"
#include "input/running.h"
#include "lower/frozen.h"
#include "memory/process.h"
#include "memory/trial_lines.h"
#include "model/freeze.h"
#include "model/model_state.h"
#include "plan/make_plan.h"
#include "session/variables.h"
#include "train/checkpoint_store.h"
#include "train/data_names.h"
#include "train/inputs.h"
#include "train/no_samples.h"
#include "train/pipeline.h"
#include "train/training_passes.h"
#include "weights/weights_file.h"

namespace plimsoll::train {
namespace {

constexpr Bytes kOpenLine = 1000 * 1024 * GiB;  // a curve is about all lines, so none is set

std::vector<Tensor> fetches(Tensor loss, const std::vector<Tensor>& sums) {
  std::vector<Tensor> all{loss};
  all.insert(all.end(), sums.begin(), sums.end());
  return all;
}

session::Request apply_request(const model::TrainingGraph& passes, int64_t batch) {
  return {{}, passes.apply.nodes, batch};
}

session::Request prune_request(const model::PrunedWeights& pruned, int64_t batch) { return {{}, pruned.nodes, batch}; }

// Adds pruning after the updates of the weights: each step ends with the pruning for the next one.
void add_pruning(Training& training) {
  const Spec& spec = training.spec;
  training.pruned = model::add_pruning(training.graph, *spec.pruning, model::list_trained(training.graph, spec.freeze),
                                       training.model.name());
  model::TrainingGraph& passes = training.passes;
  std::vector<NodeId>& nodes = passes.apply.nodes.empty() ? passes.updates.nodes : passes.apply.nodes;
  nodes.insert(nodes.end(), training.pruned.nodes.begin(), training.pruned.nodes.end());
}

session::Request last_shard_request(const model::TrainingGraph& passes, int64_t batch) {
  session::Request request = train_request(passes, batch);
  request.updates.insert(request.updates.end(), passes.apply.nodes.begin(), passes.apply.nodes.end());
  return request;
}

void allow_split(Graph& graph, const std::vector<std::string>& ops) {
  for (const std::string& op : ops) {
    if (op != "batch_norm")
      throw Error(fmt::format("operator '{}' can't be split; what mixes samples and can be split is batch_norm", op),
                  ErrorKind::Usage);
    graph.allow_split(op);
  }
}

// A step that can't be planned is refused while its graph grows, before that takes long or passes the line: planning
// takes so much for each operator that has no kernel yet. Smaller graphs are planned under any line, to name the
// smallest that works.
void limit_size(Graph& graph, Bytes line) {
  constexpr Bytes kLeastForNode = session::kBytesOfTask + session::kBytesOfAction;
  constexpr Bytes kPlannedAnyway = 80'000, kMost = 150'000;
  const Bytes within_line = std::max(kPlannedAnyway, line / kLeastForNode);
  const Bytes most = std::min(within_line, kMost);
  graph.body().limit_nodes(static_cast<size_t>(most), [=] {
    if (most == kMost)
      throw Error(
          fmt::format("a step of more than {} operators can't be planned: give a model with fewer layers", most),
          ErrorKind::Usage);
    Refusal refusal;
    refusal.line = line;
    refusal.need = (most + 1) * kLeastForNode;
    throw DoesNotFit(refusal,
                     fmt::format("does not fit: to plan more than {} operators takes more than {}, and the line "
                                 "is {}; give a larger line, or a model with fewer layers",
                                 most, format_bytes(refusal.need), format_bytes(line)));
  });
}

// The larger of what reading weights takes and what writing them takes.
Bytes weights_file_bytes(const Spec& spec) {
  const Bytes to_write = 2 * memory::OutputFile::kBufferBytes;
  if (!spec.loads_weights) return to_write;
  if (spec.weights_file.empty()) return weights::kWeightsFileBytes;
  return std::max(to_write, weights::WeightsReader::bytes_to_read(spec.weights_file));
}

session::EngineOptions engine_options(const Training& training) {
  const Spec& spec = training.spec;
  const bool profiles = spec.purpose == Purpose::Profile;
  session::EngineOptions options;
  // All steps are planned before the session opens, unless the size of the last batch is not known.
  options.plans_other_batches = spec.plans_other_batches || (!spec.data.is_empty() && spec.pipeline.most_corrupt > 0);
  options.keeps_plans = profiles;
  if (profiles)
    options.caller_step_bytes = spec.profile_steps * Bytes{sizeof(int64_t)};
  else
    options.caller_bytes = training.weights_file_bytes;
  options.caller_bytes += spec.log_bytes;
  if (spec.communicator) options.caller_bytes += run::Exchanges::kBytes;
  if (training.needs_all_ranks()) options.caller_bytes += ZeroSample::bytes_of(training.fed);
  options.finds_bad_numbers = spec.finds_bad_numbers;
  if (spec.finds_bad_numbers) options.caller_step_bytes += session::NumberWatch::kBytesOfAction;
  // Without data, the last batch of the test data may be smaller; with data it is planned with the others.
  options.later_plans = profiles || spec.own_model || !spec.data.is_empty() ? 0 : 1;
  options.data_bytes = training.data_bytes;
  // Slots of the last stage are aligned, shards within them are not.
  options.reads_feeds_in_place = lie_aligned(training) && micro_batches_lie_aligned(training) &&
                                 (!training.shards.is_cut || (spec.batches.is_empty() && training.shards.own == 1));
  options.seed = spec.seed;
  if (training.place.is_set())
    options.exchange_ns = [speed = spec.network](double bytes) { return ranks::predict_message_ns(bytes, speed); };
  else if (spec.communicator)
    options.exchange_ns = [ranks = spec.communicator->size(), speed = spec.network](double bytes) {
      return ranks::predict_sum_ns(bytes, ranks, speed);
    };
  options.levers = spec.levers;
  // Micro-batches would change the bits of a shard's sums with the line; users save memory with more shards instead.
  if (training.shards.is_fixed || training.place.is_set()) options.levers.micro_batch = false;
  options.masks = spec.masks;
  options.policy = spec.policy;
  // In a graph that does not train nothing is updated, but only what training freezes may be packed.
  options.frozen_type = trains(spec) ? spec.freeze.type : DType::F32;
  const ScratchRoom scratch = resolve_scratch(spec);
  options.scratch_folder = scratch.folder;
  options.disk_limit = scratch.bytes;
  return options;
}

// Called after all planning. A little stays free, because what a process takes beside its reservations is an estimate.
void give_rest_to_data(Training& training) {
  constexpr Bytes kLeftFree = 2 * MiB;
  const Bytes rest = training.session->free_bytes() - kLeftFree;
  if (training.spec.data.is_empty() || rest <= 0) return;
  training.data_more_bytes = useful_bytes(training, training.data_bytes + rest) - training.data_bytes;
  training.session->give_to_data(training.data_more_bytes);
}

// The line of the caller; where another is tried instead of it, what others hold there counts as well.
void take_line(Training& training) {
  const Spec& spec = training.spec;
  const Bytes bytes = training.line_origin.bytes;
  if (spec.own_line && bytes == spec.own_line->limit()) {
    training.line = *spec.own_line;
    return;
  }
  const bool covers_process = !spec.own_line || spec.own_line->covers_process();
  const memory::TrialLines trial;
  training.line = covers_process ? MemoryLine::process(bytes) : MemoryLine(bytes);
  if (spec.own_line)
    training.others = training.line->reserve(Tag::Runtime, spec.own_line->used() - spec.own_line->process_bytes());
}

// Data that is given as vectors takes its memory before there is a plan.
void hold_kept(Training& training, Bytes more) {
  const Bytes kept = training.kept_data.bytes() + more;
  training.kept_data = {};
  training.kept_data = training.line->reserve(Tag::Data, kept);
}

// Each kind of step for all sizes that shards have, on every rank: so all have the same list.
std::vector<session::Request> list_shard_requests(Training& training) {
  const Spec& spec = training.spec;
  const model::TrainingGraph& passes = training.passes;
  const auto sizes_of = [&](const std::optional<input::Samples>& half, int64_t rest) {
    auto sizes = list_shard_sizes(training.shards,
                                  {training.spec.batch, half ? half->elements.size() % training.spec.batch : rest});
    // A rank without samples runs a step on one sample that does not count.
    if (training.needs_all_ranks() && sizes.back() == 0) {
      sizes.back() = 1;
      sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
    }
    return sizes;
  };
  const std::vector<int64_t> sizes = sizes_of(spec.data.train, spec.last_batches.train);
  std::vector<session::Request> requests;
  const auto add = [&](session::Request (*make)(const model::TrainingGraph&, int64_t), const std::vector<int64_t>& of) {
    for (const int64_t size : of)
      if (size > 0) requests.push_back(make(passes, size));
  };
  add(last_shard_request, sizes);
  training.evaluate_step = requests.size();
  add(evaluate_request, sizes_of(spec.data.test, spec.last_batches.evaluate));
  training.shard_step = requests.size();
  if (training.shards.own > 1) add(train_request, sizes);
  training.first_merge_step = requests.size();
  for (const Updates& merge : passes.merges) requests.push_back({{}, merge.nodes, training.step_batch()});
  training.apply_step = requests.size();
  if (sizes.back() == 0) requests.push_back(apply_request(passes, training.step_batch()));
  if (training.pruned.nodes.empty()) return requests;
  training.prune_step = requests.size();
  requests.push_back(prune_request(training.pruned, training.step_batch()));
  return requests;
}

// Where the data is known, steps for its last batches are planned with the others: what is accepted or refused then
// does not change later.
LastBatches last_batches_of(const Spec& spec) {
  LastBatches last = spec.last_batches;
  if (spec.pipeline.most_corrupt > 0) return last;
  if (spec.data.train && spec.purpose == Purpose::Train) last.train = spec.data.train->elements.size() % spec.batch;
  if (spec.data.test) (spec.predicts ? last.predict : last.evaluate) = spec.data.test->elements.size() % spec.batch;
  return last;
}

// The step that needs the most memory comes first: Training::main_step().
std::vector<session::Request> list_requests(Training& training) {
  const Spec& spec = training.spec;
  if (training.shards.is_cut && spec.purpose == Purpose::Train) return list_shard_requests(training);
  const LastBatches last = last_batches_of(spec);
  if (training.place.is_set()) return list_stage_requests(training, last.evaluate);
  const model::TrainingGraph& passes = training.passes;
  std::vector<session::Request> requests;
  const auto add = [&](session::Request (*make)(const model::TrainingGraph&, int64_t), int64_t last_batch) {
    requests.push_back(make(passes, training.step_batch()));
    const size_t number = requests.size() - 1;
    if (last_batch > 0) requests.push_back(make(passes, last_batch));
    return number;
  };
  if (trains(spec)) add(training.shards.is_cut ? last_shard_request : train_request, last.train);
  if (spec.purpose != Purpose::Predict) training.evaluate_step = add(evaluate_request, last.evaluate);
  if (spec.predicts || spec.purpose == Purpose::Predict) training.predict_step = add(predict_request, last.predict);
  if (!training.pruned.nodes.empty()) {
    training.prune_step = requests.size();
    requests.push_back(prune_request(training.pruned, training.step_batch()));
  }
  if (!trains(spec) || passes.apply.nodes.empty()) return requests;
  if (!training.shards.is_cut) {
    training.apply_step = add(apply_request, 0);
  } else if (training.shards.own > 1) {
    training.shard_step = add(train_request, 0);
    training.first_merge_step = requests.size();
    for (const Updates& merge : passes.merges) requests.push_back({{}, merge.nodes, training.step_batch()});
  }
  return requests;
}

std::vector<input::FedTensor> list_fed(const Training& training) {
  const ModelSpec& model = training.model;
  const std::vector<std::string> components =
      model.components.empty() ? input::component_names(model) : model.components;
  std::vector<input::FedTensor> fed;
  for (const NamedTensors* tensors : {&training.passes.inputs, &training.passes.targets})
    for (const auto& [name, tensor] : *tensors) fed.push_back({tensor, components.at(fed.size())});
  return fed;
}

report::ResultChanges find_changes(const Training& training, DType values) {
  report::ResultChanges changes;
  const Graph& graph = training.graph;
  if (training.main_step().program.half_values > 0) changes.values = values;
  changes.half_products = training.main_step().program.half_products > 0;
  for (const graph::Node& node : graph.body().nodes())
    changes.splits_the_norm = changes.splits_the_norm || graph.body().may_split(node.op->name);
  changes.state_bits = session::state_bits(graph.body());
  for (const lower::Port& port : training.main_step().program.variables)
    if (port.packed) changes.frozen = port.packed->dtype;
  return changes;
}

// In a graph that trains nothing, no weight counts as frozen.
report::FrozenFacts count_frozen(const Training& training) {
  const graph::Body& graph = training.graph.body();
  report::FrozenFacts facts;
  if (training.passes.updates.nodes.empty()) return facts;
  const std::vector<bool> is_updated = lower::find_updated(graph);
  for (const lower::Port& port : training.main_step().program.variables) {
    const auto number = static_cast<size_t>(graph.value(port.value).extra);
    if (is_updated[number] || graph.variables()[number].role() != VariableRole::Weight) continue;
    facts.weights += element_count(graph.value(port.value).type.shape).fixed();
    facts.bytes += port.type.bytes();
  }
  return facts;
}

report::SharingFacts sharing_facts(const Training& training) {
  report::SharingFacts facts;
  if (!training.spec.communicator) return facts;
  facts.ranks = training.spec.communicator->size();
  facts.sharding = name_of(training.shared.sharding);
  facts.reason = training.spec.sharding_reason;
  const graph::Body& graph = training.graph.body();
  for (const lower::Port& port : training.main_step().program.variables) {
    const graph::Variable& variable = graph.variable_of(port.value);
    const Bytes bytes = port.packed ? port.packed->bytes() : port.type.bytes();
    if (variable.stored->name.ends_with("/received"))
      facts.received_bytes += bytes;
    else if (variable.role() == VariableRole::Gradient)
      facts.gradient_bytes += bytes;
    else
      (variable.role() == VariableRole::Optimiser ? facts.state_bytes : facts.weight_bytes) += bytes;
  }
  return facts;
}

// All problems of the main step, whole and in micro-batches, as the planner takes them.
struct Ways {
  explicit Ways(const Training& training) : problems(training.session->problems(0)) {
    for (const plan::Problem& problem : problems) pointers.push_back(&problem);
  }
  std::vector<plan::Problem> problems;
  std::vector<const plan::Problem*> pointers;
};

}  // namespace

session::Request train_request(const model::TrainingGraph& passes, int64_t batch) {
  return {fetches(passes.loss, passes.sums), passes.updates.nodes, batch};
}

session::Request evaluate_request(const model::TrainingGraph& passes, int64_t batch) {
  return {fetches(passes.eval_loss, passes.eval_sums), {}, batch};
}

session::Request predict_request(const model::TrainingGraph& passes, int64_t batch) {
  session::Request request{{}, {}, batch};
  for (const auto& [name, output] : passes.outputs) request.fetches.push_back(output);
  return request;
}

int64_t count_weights(const Training& training) {
  int64_t weights = plimsoll::count_weights(training.whole_graph());
  if (training.shared.weights)
    for (const autodiff::SharedWeight& weight : training.shared.weights->all)
      weights += element_count(weight.whole).fixed() - element_count(weight.slice.shape()).fixed();
  return weights;
}

void initialize_slices(Training& training) {
  if (!training.shared.weights) return;
  const graph::Body& graph = training.graph.body();
  for (const autodiff::SharedWeight& weight : training.shared.weights->all) {
    const StoredVariable& stored = *graph.variable_of(weight.slice.id()).stored;
    const int64_t length = element_count(weight.slice.shape()).fixed();
    const kernels::RankSlice own =
        kernels::slice_of_rank(element_count(weight.whole).fixed(), length, training.spec.communicator->rank());
    training.session->fill(weight.slice, [&](void* into, Bytes, Bytes) {
      auto* const floats = static_cast<float*>(into);
      graph::fill(stored.init, training.spec.seed, stored.name, own.first, own.count, floats);
      std::fill(floats + own.count, floats + length, 0.0F);
    });
  }
}

Optimiser optimiser_of(const Spec& spec) {
  Optimiser optimiser = spec.optimiser;
  if (spec.learning_rate) optimiser.learning_rate = *spec.learning_rate;
  optimiser.scales_loss = optimiser.scales_loss || spec.policy.scales_loss();
  return optimiser;
}

std::unique_ptr<Training> make_training(const Spec& spec, const StopQuestion& is_stop_asked) {
  expect_not_stopped(is_stop_asked);
  auto training = std::make_unique<Training>();
  training->spec = spec;
  if (spec.threads > kMostThreads)
    throw Error(fmt::format("{} threads are more than there can be: give 1 to {}", spec.threads, kMostThreads),
                ErrorKind::Usage);
  if (spec.threads > 0) omp_set_num_threads(spec.threads);
  // Reading a model, its data and making its graphs run different code: none of it adds up near the line.
  const auto drop_code = [&] {
    if (!spec.own_line || spec.own_line->covers_process()) memory::drop_code_near(resolve_line(spec).bytes);
  };
  drop_code();
  training->model = model_of(spec);
  drop_code();
  training->model.preprocessing = preprocessing_of(spec, training->model);
  if (!training->model.can_train && (spec.purpose == Purpose::Train || spec.purpose == Purpose::Profile))
    throw Error(
        fmt::format("model '{}' was made for inference and can't be trained; train the model that it was made of",
                    training->model.name()),
        ErrorKind::Usage);
  if (spec.batch <= 0) training->spec.batch = training->model.batch;
  // A batch of more than all samples would take memory for nothing.
  if (!trains(spec) && spec.data.test && !spec.communicator && spec.shards == 0)
    if (const int64_t samples = spec.data.test->elements.size(); samples > 0)
      training->spec.batch = std::min(training->spec.batch, samples);
  allow_split(training->graph, spec.split_ops);
  training->starts_fresh = training->model.model.state()->starts_fresh;
  training->place = place_in_pipeline(spec, training->spec.batch);
  training->shards = training->place.is_set() ? Shards{.samples = training->place.samples}
                                              : cut_into_shards(spec, training->spec.batch);
  training->shared = {spec.sharding, spec.communicator ? spec.communicator->size() : 1};
  limit_size(training->graph, resolve_line(spec).bytes);
  training->passes = build_shared_passes(*training);
  drop_code();
  training->slices = list_slices(*training);
  if (spec.pruning && trains(spec)) add_pruning(*training);
  training->fed = list_fed(*training);
  expect_not_stopped(is_stop_asked);
  training->line_origin = resolve_line(spec);
  drop_code();
  take_line(*training);

  if (!spec.shares_batches || spec.communicator->rank() == 0) training->data_stages = planned_stages(*training);
  training->data_bytes = bytes_of(training->data_stages);
  if (!training->line->covers_process() && (!spec.shares_batches || spec.communicator->rank() == 0))
    for (const std::optional<Dataset>& half : {spec.batches.train, spec.batches.test})
      if (half) hold_kept(*training, input::kept_bytes(*input::recipe_of(*half)));
  training->weights_file_bytes = weights_file_bytes(spec);
  const std::vector<session::Request> requests = list_requests(*training);
  const session::EngineOptions options = engine_options(*training);
  training->spec.scratch_folder = options.scratch_folder;
  training->spec.plans_other_batches = options.plans_other_batches;
  training->reads_in_place = options.reads_feeds_in_place;
  training->session =
      std::make_unique<session::Engine>(training->graph, *training->line, requests, options, spec.planning_line);
  training->session->set_network(spec.communicator.get());
  give_rest_to_data(*training);
  expect_not_stopped(is_stop_asked);
  training->changes = find_changes(*training, spec.policy.values);
  return training;
}

report::InputFacts data_facts(const Training& training) {
  const input::Data& data = training.spec.data;
  report::InputFacts facts;
  facts.path = data.path;
  facts.kind = data.kind;
  facts.classes = data.classes;
  facts.stages = training.data_stages;
  if (data.is_empty()) return facts;
  const Dataset& main = data.train ? data.train->elements : data.test->elements;
  facts.fields = to_string(main.element());
  facts.elements = main.size();
  if (data.train && data.test) facts.test_elements = data.test->elements.size();
  return facts;
}

report::PlanFacts plan_facts(const Training& training) {
  const session::PlannedStep& step = training.main_step();
  const session::Engine& session = *training.session;
  report::PlanFacts facts{.problem = step.program.problem, .plan = step.plan};
  facts.model = training.model.name();
  facts.batch = training.spec.batch;
  facts.batch_reason = training.batch_reason;
  facts.weights = count_weights(training);
  facts.ranks = sharing_facts(training);
  facts.frozen = count_frozen(training);
  facts.line_bytes = training.line->limit();
  facts.line_reason = training.line_origin.reason;
  facts.arena_bytes = session.arena_bytes();
  facts.runtime_bytes = session.runtime_bytes();
  facts.data_bytes = training.data_bytes;
  facts.data_more_bytes = training.data_more_bytes;
  facts.data = data_facts(training);
  facts.peak_bytes = session.peak_bytes();
  facts.scratch_file_bytes = session.file_bytes();
  facts.scratch_folder = training.spec.scratch_folder;
  facts.changes = training.changes;
  facts.half_values = step.program.half_values;
  facts.half_value_bytes = step.program.half_value_bytes;
  facts.products = step.program.products;
  facts.half_products = step.program.half_products;
  facts.accumulate = training.spec.accumulate;
  facts.mask_bytes = model::mask_bytes(training.graph);
  facts.limit_bytes = step.limits.bytes;
  facts.other = step.other;
  return facts;
}

std::optional<report::LowerBound> find_lower_bound(const Training& training) {
  plan::Limits limits = training.main_step().limits;
  limits.search_bytes = training.session->room_for_problems(0);
  if (limits.search_bytes == 0) return std::nullopt;
  const Ways ways(training);
  const plan::Floor floor = plan::LineSearch(ways.problems.front(), ways.pointers, limits).floor();
  const plan::Problem& problem = ways.problems[floor.problem];
  const int64_t samples = problem.micro_batch > 0 ? problem.micro_batch : limits.batch;
  std::string reason = report::needs_text(problem, floor.task, samples, 4);
  if (samples < limits.batch) reason += fmt::format(", in micro-batches of {}", samples);
  return report::LowerBound{floor.bytes + training.session->runtime_bytes() + training.data_bytes, reason};
}

report::Curve plan_curve(const Spec& spec, int points, const StopQuestion& is_stop_asked) {
  Spec open = spec;
  open.line = kOpenLine;
  const auto training = make_training(open, is_stop_asked);
  const Ways ways(*training);
  report::Curve curve{training->model.name(), training->spec.batch,
                      training->session->runtime_bytes() + training->data_bytes,
                      make_curve(ways.problems.front(), ways.pointers, training->main_step().limits, points)};
  expect_not_stopped(is_stop_asked);
  return curve;
}

}  // namespace plimsoll::train

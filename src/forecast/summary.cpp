// The table of a model's layers: what each holds in a training step, as planned.
#include "forecast/summary.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "forecast/batch_search.h"
#include "report/summary.h"

namespace plimsoll::forecast {
namespace {

constexpr std::string_view kOthers = "loss and input";

// "dense" of "net/dense/kernel" in the model "net"; empty: it is outside of the model.
std::string_view layer_name(std::string_view name, std::string_view model) {
  constexpr std::string_view kOptimiser = "optimiser/";
  if (name.starts_with(kOptimiser)) name.remove_prefix(kOptimiser.size());
  if (!name.starts_with(model) || name.size() <= model.size() || name[model.size()] != '/') return {};
  name.remove_prefix(model.size() + 1);
  return name.substr(0, name.find('/'));
}

class LayerTable {
 public:
  explicit LayerTable(const train::Training& training)
      : training_(training),
        problem_(training.main_step().program.problem),
        plan_(training.main_step().plan),
        samples_(plan_.micro_batches.front()) {
    list_layers();
    add_variables();
    add_gradients();
    add_values();
  }

  std::vector<report::LayerRow> take() {
    if (others_.kept_bytes + others_.recomputed_bytes + others_.spilled_bytes + others_.weight_bytes > 0)
      rows_.push_back(std::move(others_));
    return std::move(rows_);
  }
  int64_t samples() const { return samples_; }

 private:
  // Lists the layers in their order, from a graph of the model alone.
  void list_layers() {
    Graph graph;
    model::build_inference(graph, training_.model, true);
    const graph::Body& body = graph.body();
    for (const graph::Node& node : body.nodes()) {
      const std::string_view name = layer_name(body.name(node), training_.model.name());
      if (name.empty() || node.outputs == 0) continue;
      const auto [at, is_new] = numbers_.try_emplace(std::string(name), rows_.size());
      if (is_new) rows_.push_back({.name = std::string(name)});
      rows_[at->second].output = to_string(body.value(node.first_output).type);
    }
  }

  report::LayerRow& row_of(std::string_view name) {
    const auto found = numbers_.find(std::string(layer_name(name, training_.model.name())));
    return found == numbers_.end() ? others_ : rows_[found->second];
  }

  void add_variables() {
    const graph::Body& body = training_.graph.body();
    for (const graph::Variable& variable : body.variables()) {
      const graph::Value& value = body.value(variable.value);
      const int64_t count = element_count(value.type.shape).fixed();
      const Bytes bytes = count * size_of(value.type.dtype);
      report::LayerRow& row = row_of(body.name(value));
      if (variable.role() == VariableRole::Optimiser) {
        row.optimiser_bytes += bytes;
        continue;
      }
      row.weight_bytes += bytes;
      (variable.role() == VariableRole::Weight ? row.weights : row.untrained) += count;
    }
  }

  // What updates of weights read.
  void add_gradients() {
    for (size_t i = 0; i < problem_.tasks.size(); ++i) {
      const graph::Op* const op = training_.main_step().program.tasks[i].op;
      if (op == nullptr || op->traits.updates == 0) continue;
      for (const plan::BufferId id : problem_.tasks[i].reads) {
        const plan::Buffer& buffer = problem_.buffers[static_cast<size_t>(id)];
        if (buffer.tag == Tag::Gradients)
          row_of(problem_.tasks[i].name).gradient_bytes += placed_bytes(buffer, samples_);
      }
    }
  }

  // Values of the forward pass that are held when the backward pass begins, and those that are recomputed or read back
  // in it. All micro-batches are alike: only the first one is counted.
  void add_values() {
    const size_t border = find_border();
    for (const plan::Life& life : plan_.lives) {
      if (life.buffer == plan::kWorkspace || problem_.buffers[static_cast<size_t>(life.buffer)].tag != Tag::Activations)
        continue;
      if (life.first_action < static_cast<int32_t>(border) && life.last_action >= static_cast<int32_t>(border))
        row_of(problem_.buffers[static_cast<size_t>(life.buffer)].name).kept_bytes += life.bytes;
    }
    std::vector<bool> is_written(problem_.buffers.size());
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      const plan::Action& action = plan_.actions[i];
      if (action.micro_batch != 0) continue;
      for (const plan::BufferId id : work_of(problem_, plan_, action).writes) {
        const plan::Buffer& buffer = problem_.buffers[static_cast<size_t>(id)];
        if (i < border)
          is_written[static_cast<size_t>(id)] = true;
        else if (is_written[static_cast<size_t>(id)] && buffer.tag == Tag::Activations)
          (is_transfer(problem_, action) ? row_of(buffer.name).spilled_bytes : row_of(buffer.name).recomputed_bytes) +=
              placed_bytes(buffer, samples_);
      }
    }
  }

  // The number of the first action of the backward pass.
  size_t find_border() const {
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      const plan::Action& action = plan_.actions[i];
      if (is_transfer(problem_, action)) continue;
      const NodeId origin = training_.main_step().program.tasks[static_cast<size_t>(action.task)].origin;
      if (origin >= 0 && training_.graph.body().node(origin).is_backward) return i;
    }
    return plan_.actions.size();
  }

  const train::Training& training_;
  const plan::Problem& problem_;
  const plan::Plan& plan_;
  const int64_t samples_;
  std::vector<report::LayerRow> rows_;
  std::unordered_map<std::string, size_t> numbers_;
  report::LayerRow others_{.name = std::string(kOthers)};
};

}  // namespace

std::string summarise(const train::Spec& spec) {
  Attempt tried = attempt(spec);
  std::string note;
  if (!tried.training) {
    const Refusal& refusal = *tried.refusal;
    if (refusal.smallest_line == 0) throw DoesNotFit(refusal);
    note = fmt::format("does not fit the line of {}: planned for the smallest line that works, {}\n",
                       format_bytes(refusal.line), format_bytes(refusal.smallest_line));
    train::Spec larger = spec;
    larger.line = refusal.smallest_line;
    tried.training = train::make_training(larger);
  }
  const train::Training& training = *tried.training;
  const report::PlanFacts facts = train::plan_facts(training);
  LayerTable table(training);
  return report::summary_text(
      {.model = training.model.name(),
       .batch = training.spec.batch,
       .micro_batch = table.samples(),
       .layers = table.take(),
       .title = note + fmt::format("model   {} · batch {} · {} weights\n", training.model.name(), training.spec.batch,
                                   report::grouped_text(facts.weights)),
       .notes = fmt::format("does    {}\npeak    planned {} of {}\n",
                            report::actions_text(facts.problem, facts.plan, facts.scratch_folder, facts.changes),
                            format_bytes(facts.peak_bytes), format_bytes(facts.line_bytes))});
}

}  // namespace plimsoll::forecast

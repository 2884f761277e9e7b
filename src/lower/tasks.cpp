#include "lower/tasks.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/half_product.h"
#include "lower/tiles.h"

namespace plimsoll::lower {
namespace {

bool updates(const DraftNode& node, size_t input) { return (node.op->traits.updates >> input & 1) != 0; }

// Operands that appear twice are listed once.
KernelOperand add_operand(plan::Task& task, bool updated, plan::BufferId buffer) {
  std::vector<plan::BufferId>& list = updated ? task.updates : task.reads;
  auto at = std::find(list.begin(), list.end(), buffer);
  if (at == list.end()) at = list.insert(list.end(), buffer);
  return {updated ? KernelOperand::List::Updates : KernelOperand::List::Reads, static_cast<int32_t>(at - list.begin())};
}

// How many elements of the variable share one number of the operand: 1, or a block; 0: the operand is not cut.
int64_t elements_of_number(const DraftNode& node, const kernels::ConcreteType& variable,
                           const kernels::ConcreteType& operand) {
  const int64_t elements = variable.count(), block = node.op->traits.update_block;
  if (elements <= 1) return 0;
  if (operand.count() == elements) return 1;
  return block > 0 && operand.count() == (elements + block - 1) / block ? block : 0;
}

// The exchange takes as long as a sum over ranks of this many bytes.
double exchanged_bytes(const DraftNode& node, const ProgramTask& work, const kernels::ConcreteType& first) {
  return node.op->cost != nullptr ? work.own.cost.bytes : static_cast<double>(first.bytes());
}

}  // namespace

TaskBuilder::TaskBuilder(const Draft& draft, const LowerOptions& options, const BatchSizes& sizes,
                         ValueBuffers& buffers, KernelChooser& chooser, Program& program)
    : draft_(draft), options_(options), sizes_(sizes), buffers_(buffers), chooser_(chooser), program_(program) {
  program_.problem.tasks.reserve(draft_.nodes.size());
  program_.tasks.reserve(draft_.nodes.size());
}

bool TaskBuilder::is_batched(const DraftNode& node) const {
  const auto grows = [&](ValueId value) { return sizes_.is_batched(value); };
  return std::any_of(node.in.begin(), node.in.end(), grows) || std::any_of(node.out.begin(), node.out.end(), grows);
}

void TaskBuilder::add_task(plan::Task task, ProgramTask work, Bytes workspace_bytes) {
  task.workspace_fixed_bytes = workspace_bytes;
  program_.problem.tasks.push_back(std::move(task));
  program_.tasks.push_back(std::move(work));
}

void TaskBuilder::set_time(plan::Task& task, const graph::Cost& cost, const graph::Cost& fewer_cost,
                           int64_t fewer) const {
  const LinearTime time =
      line_through(sizes_.samples(), predict_ns(cost, options_.speed), fewer, predict_ns(fewer_cost, options_.speed));
  task.fixed_ns = time.fixed_ns;
  task.per_sample_ns = time.per_sample_ns;
}

// With a peer, that rank is sent all inputs but the first and sends the outputs; without one all ranks exchange.
void TaskBuilder::set_exchange(plan::Task& task, const DraftNode& node, const ProgramTask& work,
                               std::span<const kernels::ConcreteType> in) const {
  task.lane = plan::Lane::Network;
  task.peer = static_cast<int32_t>(node.attrs->i("peer", -1));
  double bytes = exchanged_bytes(node, work, in[0]);
  if (task.peer >= 0) {
    Bytes sent = 0, received = 0;
    for (const kernels::ConcreteType& input : in.subspan(1)) sent += input.bytes();
    for (const ValueId value : node.out) received += sizes_.type(value).bytes();
    bytes = static_cast<double>(std::max(sent, received));
  }
  task.fixed_ns = options_.exchange_ns ? options_.exchange_ns(bytes) : 0;
  task.per_sample_ns = 0;
}

// The work of the node for a batch of one sample.
graph::Cost TaskBuilder::cost_of_sample(const DraftNode& node) const {
  const auto types = [&](const std::vector<ValueId>& values) {
    std::vector<kernels::ConcreteType> list;
    for (const ValueId value : values) list.push_back(sizes_.type_at(value, 1));
    return list;
  };
  const std::vector<kernels::ConcreteType> in = types(node.in), out = types(node.out);
  return cost_of(*node.op, {*node.attrs, in, out, 1, sizes_.batch(), false});
}

// The buffer that holds the value in that layout; adds a reorder the first time.
plan::BufferId TaskBuilder::in_layout(ValueId value, const kernels::Layout& layout) {
  if (const plan::BufferId found = buffers_.find(value, layout); found >= 0) return found;
  const ValuePlace& place = buffers_.place(value);
  ChosenKernels reorder = chooser_.choose_reorder(value, place.type, layout);
  plan::Task task;
  task.name = fmt::format("{}/as/{}", draft_.name(value), to_string(layout));
  task.reads = {place.buffer};
  task.writes = {buffers_.add_copy(value, layout, task.name)};
  task.recomputable = true;
  task.batch_rule = BatchRule::Rows;
  const graph::Cost& cost = reorder.kernels.cost;
  set_time(task, cost, sizes_.is_batched(value) ? cost_of_reorder(0, 0) : cost, 0);
  ProgramTask work{std::move(reorder.kernels), -1};
  work.own.in = {{KernelOperand::List::Reads, 0}};
  const plan::BufferId copy = task.writes[0];
  add_task(std::move(task), std::move(work), reorder.workspace_bytes);
  return copy;
}

void TaskBuilder::add(const DraftNode& node) {
  if (node.op->traits.view) return add_view(node);
  const bool is_after = runs_after_micro_batches(node);
  for (const ValueId value : node.in)
    if (is_after && sizes_.is_batched(value)) buffers_.collect_rows(value);
  std::vector<kernels::ConcreteType> in;
  bool has_tiles = false;
  for (const ValueId value : node.in) {
    const ValuePlace& place = buffers_.place(value);
    in.push_back(place.type);
    if (is_after) in.back().dims = sizes_.type_at(value, sizes_.batch()).dims;
    has_tiles = has_tiles || place.tiles > 1;
  }
  has_tiles ? add_tiles(node, std::move(in)) : add_single(node, in);
}

void TaskBuilder::add_view(const DraftNode& node) {
  // A view has no task by which the planner would know that samples mix.
  if (draft_.batch_rule(node) == BatchRule::Mixes) buffers_.forbid_micro_batches();
  buffers_.add_view(node.out[0], in_layout(node.in[0], kernels::Layout()));
}

void TaskBuilder::add_single(const DraftNode& node, const std::vector<kernels::ConcreteType>& in) {
  std::vector<kernels::ConcreteType> out;
  for (const ValueId value : node.out) out.push_back(sizes_.type(value));
  const bool is_after = runs_after_micro_batches(node);
  const bool for_each = sizes_.in_micro_batches() && is_batched(node) && !is_after;
  NodeKernels chosen = for_each ? chooser_.choose_for_each(node, in, out)
                                : chooser_.choose(node, in, out, is_after ? sizes_.batch() : sizes_.samples());
  plan::Task task;
  task.name = draft_.name(node);
  ProgramTask work{std::move(chosen.own.kernels), node.origin, node.op};
  work.is_half = kernels::computes_in_bf16(*node.attrs);
  for (size_t i = 0; i < node.in.size(); ++i) {
    const plan::BufferId buffer = in_layout(node.in[i], chosen.input_layout(i));
    if (updates(node, i) && buffer != buffers_.place(node.in[i]).buffer)
      throw Error(fmt::format("{} '{}' would update a copy of variable '{}'", node.op->name, task.name,
                              draft_.name(node.in[i])));
    work.own.in.push_back(add_operand(task, updates(node, i), buffer));
  }
  for (size_t i = 0; i < node.out.size(); ++i) {
    out[i].layout = chosen.output_layout(i);
    buffers_.add_computed(node.out[i], out[i]);
    task.writes.push_back(buffers_.place(node.out[i]).buffer);
  }
  forget_copies(node);
  add_sharing(node, task, work);
  task.recomputable = node.op->traits.recomputable;
  task.batch_rule = draft_.batch_rule(node);
  if (is_after)
    task.fixed_ns = predict_ns(work.own.cost, options_.speed);
  else
    set_time(task, work.own.cost, cost_of_sample(node), 1);
  if (node.op->traits.exchanges) set_exchange(task, node, work, in);
  if (chosen.slim) add_variant(node, std::move(*chosen.slim), task, work);
  add_task(std::move(task), std::move(work), chosen.own.workspace_bytes);
}

// The same operands, less workspace, more time.
void TaskBuilder::add_variant(const DraftNode& node, ChosenKernels slim, plan::Task& task, ProgramTask& work) const {
  work.slim = std::move(slim.kernels);
  work.slim.in = work.own.in;
  plan::Variant variant{static_cast<const plan::Work&>(task), std::string(node.op->traits.slim)};
  variant.workspace_fixed_bytes = slim.workspace_bytes;
  const double times = predict_ns(work.slim.cost, options_.speed) / predict_ns(work.own.cost, options_.speed);
  variant.fixed_ns *= times;
  variant.per_sample_ns *= times;
  task.variants.push_back(std::move(variant));
}

// One task for each tile. Operands with as many elements as the variable, its state and gradient, are cut like it.
void TaskBuilder::add_tiles(const DraftNode& node, std::vector<kernels::ConcreteType> types) {
  const NodeKernels whole = chooser_.choose(node, types, {}, sizes_.samples());
  std::vector<plan::BufferId> buffers;
  int32_t tiles = 1;
  for (size_t i = 0; i < node.in.size(); ++i) {
    types[i].layout = whole.input_layout(i);
    buffers.push_back(in_layout(node.in[i], types[i].layout));
    tiles = std::max(tiles, buffers_.place(node.in[i]).tiles);
  }
  const int64_t total = types[0].bytes() / size_of(types[0].dtype);  // padding included
  for (int32_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = tile * kTileElements, elements = tile + 1 == tiles ? total - first : kTileElements;
    std::vector<kernels::ConcreteType> in = types;
    plan::Task task;
    task.name = fmt::format("{}/tile{}", draft_.name(node), tile);
    task.batch_rule = node.op->traits.batch;
    std::vector<KernelOperand> operands;
    for (size_t i = 0; i < node.in.size(); ++i) {
      const int64_t block = elements_of_number(node, types[0], types[i]);
      const bool has_tiles = buffers_.place(node.in[i]).tiles > 1;
      if (block > 0) in[i] = {types[i].dtype, Dims{(elements + block - 1) / block}, {}, false};
      operands.push_back(add_operand(task, updates(node, i), has_tiles ? buffers[i] + tile : buffers[i]));
      if (block > 0 && !has_tiles) operands.back().offset = first / block * size_of(types[i].dtype);
    }
    NodeKernels chosen = chooser_.choose(node, in, {}, sizes_.batch());
    ProgramTask work{std::move(chosen.own.kernels), node.origin, node.op};
    work.own.in = std::move(operands);
    // A tile is small enough for a cache, but is read from memory: its variable is not.
    MachineSpeed from_memory = options_.speed;
    from_memory.cache_bytes = 0;
    task.fixed_ns = predict_ns(work.own.cost, from_memory);
    if (node.op->traits.exchanges) set_exchange(task, node, work, in);
    add_task(std::move(task), std::move(work), chosen.own.workspace_bytes);
  }
  forget_copies(node);
}

void TaskBuilder::forget_copies(const DraftNode& node) {
  for (size_t i = 0; i < node.in.size(); ++i)
    if (updates(node, i)) buffers_.forget_copies(node.in[i]);
}

// The first output may take the place of an input of its size, where the operator claims it.
void TaskBuilder::add_sharing(const DraftNode& node, plan::Task& task, const ProgramTask& work) const {
  if (task.writes.empty()) return;
  const plan::Buffer& out = buffers_.buffer(task.writes[0]);
  for (size_t i = 0; i < work.own.in.size(); ++i) {
    const KernelOperand& operand = work.own.in[i];
    if ((node.op->traits.in_place >> i & 1) == 0 || operand.list != KernelOperand::List::Reads) continue;
    const plan::Buffer& in = buffers_.buffer(task.reads[static_cast<size_t>(operand.index)]);
    const plan::InPlace share{operand.index, 0};
    if (in.fixed_bytes == out.fixed_bytes && in.per_sample_bytes == out.per_sample_bytes &&
        std::find(task.may_share.begin(), task.may_share.end(), share) == task.may_share.end())
      task.may_share.push_back(share);
  }
}

void TaskBuilder::add_fetch(ValueId value) {
  const plan::BufferId buffer = in_layout(value, kernels::Layout());
  buffers_.keep_as_output(buffer);
  buffers_.expect_whole_samples(value);
  program_.fetches.push_back({value, buffer, sizes_.type_at(value, sizes_.batch())});
}

}  // namespace plimsoll::lower

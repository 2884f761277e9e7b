#include "eager/lowered_piece.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include <fmt/format.h>

#include "lower/tiles.h"
#include "ops/ops.h"

namespace plimsoll::eager {

PieceGoal::PieceGoal(std::shared_ptr<const CodePiece> of, std::vector<PieceValue> wanted, bool with_updates)
    : piece(std::move(of)),
      targets(std::move(wanted)),
      updates(with_updates),
      leaves_of(targets.size()),
      is_repeatable(targets.size(), true) {
  const auto leaves = static_cast<PieceValue>(piece->leaves.size());
  std::vector<bool> reads(piece->types.size());
  for (size_t t = 0; t < targets.size(); ++t) {
    std::fill(reads.begin(), reads.end(), false);
    reads[static_cast<size_t>(targets[t])] = true;
    for (const auto& node : std::views::reverse(piece->nodes)) {
      const auto first = reads.begin() + node.first_out;
      if (std::find(first, first + node.outputs, true) == first + node.outputs) continue;
      for (const PieceValue in : node.in) reads[static_cast<size_t>(in)] = true;
      if (!node.op->traits.recomputable && !node.op->traits.view) is_repeatable[t] = false;
    }
    for (PieceValue l = 0; l < leaves; ++l)
      if (reads[static_cast<size_t>(l)] && !piece->leaves[static_cast<size_t>(l)].is_constant)
        leaves_of[t].push_back(l);
  }
}

// A target that is a view of a leaf, or of another target, is copied by a node of its own.
struct LoweredPiece::BuiltGraph {
  Graph graph;
  std::vector<ValueId> ids;          // by value of the piece
  std::vector<int32_t> of_variable;  // by variable of the graph: leaf l as l, target t as -1 - t
  std::vector<ValueId> fetches;
  std::vector<int32_t> fetched;  // the target of each fetch
  std::vector<NodeId> updates;
};

// Adds nodes, and each target as soon as it is computed: a variable that it is a view of may be changed later.
class LoweredPiece::NodeAdder {
 public:
  NodeAdder(const PieceGoal& goal, BuiltGraph& built)
      : piece_(*goal.piece),
        updates_(goal.updates),
        built_(built),
        roots_(piece_.types.size()),
        target_of_(piece_.types.size(), -1),
        is_taken_(piece_.types.size(), false) {
    for (size_t v = 0; v < roots_.size(); ++v) roots_[v] = static_cast<PieceValue>(v);
    for (size_t t = 0; t < goal.targets.size(); ++t)
      target_of_[static_cast<size_t>(goal.targets[t])] = static_cast<int32_t>(t);
    for (size_t l = 0; l < piece_.leaves.size(); ++l) is_taken_[l] = true;
  }

  void add(const PieceNode& node) {
    graph::Body& body = built_.graph.body();
    std::vector<ValueId> in;
    for (const PieceValue value : node.in) in.push_back(built_.ids[static_cast<size_t>(value)]);
    body.set_backward(node.is_backward);
    const NodeId id = body.add_node(*node.op, in, node.attrs, "");
    body.set_backward(false);
    for (int i = 0; i < node.outputs; ++i) built_.ids.push_back(body.node(id).first_output + i);
    if (node.op->traits.view) roots_[static_cast<size_t>(node.first_out)] = roots_[static_cast<size_t>(node.in[0])];
    if (updates_ && node.op->traits.updates != 0) built_.updates.push_back(id);
    for (PieceValue out = node.first_out; out < node.first_out + node.outputs; ++out)
      if (target_of_[static_cast<size_t>(out)] >= 0) add_target(out, target_of_[static_cast<size_t>(out)]);
  }

 private:
  void add_target(PieceValue value, int32_t target) {
    const ValueId id = built_.ids[static_cast<size_t>(value)];
    const auto root = static_cast<size_t>(roots_[static_cast<size_t>(value)]);
    if (!is_taken_[root]) {
      is_taken_[root] = true;
      built_.fetches.push_back(id);
      built_.fetched.push_back(target);
      return;
    }
    const ValueId copy =
        built_.graph.body().add_variable(fmt::format("target{}", target), piece_.types[static_cast<size_t>(value)],
                                         Init::zeros(), VariableRole::Statistic);
    built_.of_variable.push_back(-1 - target);
    built_.updates.push_back(ops::assign({built_.graph, copy}, {built_.graph, id}));
  }

  const CodePiece& piece_;
  const bool updates_;
  BuiltGraph& built_;
  std::vector<PieceValue> roots_;  // by value: the value that it is a view of, or itself
  std::vector<int32_t> target_of_;
  std::vector<bool> is_taken_;  // by root: its bytes are a leaf's or a target's
};

LoweredPiece::LoweredPiece(const PieceGoal& goal, int32_t wanted, lower::KernelStore& kernels)
    : built_(std::make_unique<BuiltGraph>()) {
  built_->ids.reserve(goal.piece->types.size());
  add_leaves(*goal.piece);
  NodeAdder adder(goal, *built_);
  for (const PieceNode& node : goal.piece->nodes) adder.add(node);
  lower::LowerOptions options;
  options.gives_all = true;
  lower::VariableLayouts layouts;
  program_ = lower::lower(built_->graph.body(), built_->fetches, built_->updates, options, layouts, kernels);
  find_places(*goal.piece);
  if (wanted != kAllTargets) keep_only(wanted);
}

LoweredPiece::~LoweredPiece() = default;

void LoweredPiece::add_leaves(const CodePiece& piece) {
  graph::Body& body = built_->graph.body();
  for (size_t l = 0; l < piece.leaves.size(); ++l) {
    const PieceLeaf& leaf = piece.leaves[l];
    if (leaf.is_constant) {
      built_->ids.push_back(body.add_constant(leaf.type, leaf.bytes, ""));
    } else if (leaf.is_variable) {
      built_->ids.push_back(body.add_variable(fmt::format("variable{}", l), leaf.type, Init::zeros(), leaf.role));
      built_->of_variable.push_back(static_cast<int32_t>(l));
    } else {
      built_->ids.push_back(body.add_placeholder(fmt::format("value{}", l), leaf.type));
    }
  }
}

void LoweredPiece::find_places(const CodePiece& piece) {
  std::vector<int32_t> leaf_of(built_->graph.body().values().size(), -1);
  for (size_t l = 0; l < piece.leaves.size(); ++l)
    leaf_of[static_cast<size_t>(built_->ids[l])] = static_cast<int32_t>(l);
  for (const lower::Port& port : program_.feeds)
    places_.push_back({port.buffer, leaf_of[static_cast<size_t>(port.value)], 0, false});
  for (size_t v = 0; v < program_.variables.size(); ++v) {
    const lower::Port& port = program_.variables[v];
    const int32_t of = built_->of_variable[v];
    for (int32_t tile = 0; tile < port.tiles; ++tile)
      places_.push_back(
          {port.buffer + tile, of >= 0 ? of : -1 - of, tile * lower::kTileElements * size_of(port.type.dtype), of < 0});
  }
  for (size_t f = 0; f < program_.fetches.size(); ++f)
    places_.push_back({program_.fetches[f].buffer, built_->fetched[f], 0, true});
}

// Drops tasks after lowering, so that the kernels that stay are those of the whole goal.
void LoweredPiece::keep_only(int32_t target) {
  plan::Problem& problem = program_.problem;
  std::vector<bool> is_needed(problem.buffers.size(), false), is_wanted(problem.buffers.size(), false);
  for (const Place& place : places_)
    if (place.is_target && place.number == target)
      is_needed[static_cast<size_t>(place.buffer)] = is_wanted[static_cast<size_t>(place.buffer)] = true;
  const auto gives = [&](const plan::Task& task) {
    const auto is_in = [](const std::vector<bool>& set) {
      return [&set](plan::BufferId id) { return static_cast<bool>(set[static_cast<size_t>(id)]); };
    };
    return std::any_of(task.writes.begin(), task.writes.end(), is_in(is_needed)) ||
           std::any_of(task.updates.begin(), task.updates.end(), is_in(is_wanted));
  };
  std::vector<bool> runs(problem.tasks.size(), false);
  for (size_t t = problem.tasks.size(); t-- > 0;) {
    if (!gives(problem.tasks[t])) continue;
    runs[t] = true;
    for (const plan::BufferId id : problem.tasks[t].reads) is_needed[static_cast<size_t>(id)] = true;
  }
  size_t kept = 0;
  for (size_t t = 0; t < runs.size(); ++t) {
    if (!runs[t]) continue;
    if (kept != t) {
      problem.tasks[kept] = std::move(problem.tasks[t]);
      program_.tasks[kept] = std::move(program_.tasks[t]);
    }
    ++kept;
  }
  problem.tasks.resize(kept);
  program_.tasks.erase(program_.tasks.begin() + static_cast<ptrdiff_t>(kept), program_.tasks.end());
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].kind != plan::BufferKind::Output || is_wanted[b]) continue;
    problem.buffers[b].kind = plan::BufferKind::Temporary;
    problem.buffers[b].is_given = false;
  }
  std::erase_if(places_, [&](const Place& place) { return place.is_target && place.number != target; });
  for (Place& place : places_)
    if (place.is_target) place.number = 0;
}

std::unique_ptr<memory::Arena> LoweredPiece::copy_constants(std::span<std::byte*> by_buffer) const {
  Bytes bytes = 0;
  for (const lower::Port& port : program_.constants) bytes += round_up(port.type.bytes(), kAlignment);
  if (bytes == 0) return nullptr;
  auto memory = std::make_unique<memory::Arena>(round_up(bytes, memory::Arena::kPage));
  memory->commit(bytes);
  Bytes at = 0;
  for (const lower::Port& port : program_.constants) {
    const std::vector<std::byte>& from = built_->graph.body().constant_of(port.value).bytes;
    std::memcpy(memory->data() + at, from.data(), from.size());
    by_buffer[static_cast<size_t>(port.buffer)] = memory->data() + at;
    at += round_up(port.type.bytes(), kAlignment);
  }
  return memory;
}

std::string LoweredPiece::describe(plan::TaskId task) const {
  const lower::ProgramTask& of = program_.tasks[static_cast<size_t>(task)];
  if (of.origin < 0) return "a change of layout";
  const graph::Body& body = built_->graph.body();
  std::string types;
  for (const ValueId input : body.inputs(body.node(of.origin)))
    types += (types.empty() ? "" : ", ") + to_string(body.value(input).type);
  const std::string_view name = of.op == nullptr ? body.node(of.origin).op->name : of.op->name;
  if (types.empty())  // made of no tensor, such as random numbers
    return fmt::format("{} as {}", name, to_string(body.value(body.node(of.origin).first_output).type));
  return fmt::format("{} of {}", name, types);
}

}  // namespace plimsoll::eager

#include "eager/planned_piece.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "lower/tiles.h"
#include "ops/ops.h"
#include "plan/check/check.h"
#include "plan/make_plan.h"

namespace plimsoll::eager {
namespace {

// Targets that show the bytes of a leaf, or of another target, are written by a node of their own.
struct BuiltGraph {
  Graph graph;
  std::vector<ValueId> ids;          // by value of the piece
  std::vector<int32_t> of_variable;  // by variable of the graph: leaf l as l, target t as -1 - t
  std::vector<ValueId> fetches;
  std::vector<int32_t> fetched;  // the target of each fetch
  std::vector<NodeId> updates;
};

void add_leaves(const CodePiece& piece, BuiltGraph& built) {
  for (size_t l = 0; l < piece.leaves.size(); ++l) {
    const PieceLeaf& leaf = piece.leaves[l];
    graph::Body& body = built.graph.body();
    if (leaf.is_constant) {
      built.ids.push_back(body.add_constant(leaf.type, leaf.bytes, ""));
    } else if (leaf.is_variable) {
      built.ids.push_back(body.add_variable(fmt::format("variable{}", l), leaf.type, Init::zeros(), leaf.role));
      built.of_variable.push_back(static_cast<int32_t>(l));
    } else {
      built.ids.push_back(body.add_placeholder(fmt::format("value{}", l), leaf.type));
    }
  }
}

// Adds nodes, and each target as soon as it is computed: a variable that it shows may be changed later.
class NodeAdder {
 public:
  NodeAdder(const CodePiece& piece, const std::vector<PieceValue>& targets, bool updates, BuiltGraph& built)
      : piece_(piece),
        updates_(updates),
        built_(built),
        roots_(piece.types.size()),
        target_of_(piece.types.size(), -1),
        is_taken_(piece.types.size(), false) {
    for (size_t v = 0; v < roots_.size(); ++v) roots_[v] = static_cast<PieceValue>(v);
    for (size_t t = 0; t < targets.size(); ++t) target_of_[static_cast<size_t>(targets[t])] = static_cast<int32_t>(t);
    for (size_t l = 0; l < piece.leaves.size(); ++l) is_taken_[l] = true;
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
  std::vector<PieceValue> roots_;  // by value: that whose bytes it shows
  std::vector<int32_t> target_of_;
  std::vector<bool> is_taken_;  // by root: its bytes are a leaf's or a target's
};

}  // namespace

struct PlannedPiece::Lowered {
  std::unique_ptr<BuiltGraph> built;
  lower::Program program;
};

PlannedPiece::PlannedPiece(std::shared_ptr<const CodePiece> piece, std::vector<PieceValue> targets, bool updates)
    : piece_(std::move(piece)), targets_(std::move(targets)), updates_(updates) {}

PlannedPiece::Lowered PlannedPiece::lower(lower::KernelStore& kernels) const {
  Lowered lowered{std::make_unique<BuiltGraph>(), {}};
  BuiltGraph& built = *lowered.built;
  built.ids.reserve(piece_->types.size());
  add_leaves(*piece_, built);
  NodeAdder adder(*piece_, targets_, updates_, built);
  for (const PieceNode& node : piece_->nodes) adder.add(node);
  lower::LowerOptions options;
  options.gives_all = true;
  lower::VariableLayouts layouts;
  lowered.program = lower::lower(built.graph.body(), built.fetches, built.updates, options, layouts, kernels);
  return lowered;
}

std::optional<plan::Shortfall> PlannedPiece::plan(Bytes limit, std::byte* arena, lower::KernelStore& kernels) {
  const Lowered lowered = lower(kernels);
  plan::Limits limits;
  limits.bytes = std::max<Bytes>(limit, 0);
  limits.levers.micro_batch = limits.levers.spill = false;
  std::variant<plan::Plan, plan::Shortfall> answer = plan::make_plan(lowered.program.problem, limits);
  if (auto* shortfall = std::get_if<plan::Shortfall>(&answer)) return std::move(*shortfall);
  const plan::Plan& plan = std::get<plan::Plan>(answer);
  if (const std::string wrong = plan::check(lowered.program.problem, plan, limits); !wrong.empty())
    throw Error(fmt::format("the planner made a plan that does not hold: {}", wrong));
  bind(lowered, plan, arena);
  planned_limit_ = limit;
  return {};
}

void PlannedPiece::bind(const Lowered& lowered, const plan::Plan& plan, std::byte* arena) {
  const lower::Program& program = lowered.program;
  const BuiltGraph& built = *lowered.built;
  executor_ = std::make_unique<run::Executor>(program, plan, arena);
  arena_bytes_ = plan.arena_bytes;
  predicted_ns_ = plan.predicted_ns;
  slowdown_ = plan.unconstrained_ns > 0 ? plan.predicted_ns / plan.unconstrained_ns - 1 : 0;
  action_ops_.clear();
  for (const plan::Action& action : plan.actions)
    action_ops_.push_back(program.tasks[static_cast<size_t>(action.task)].op);

  by_buffer_.assign(program.problem.buffers.size(), nullptr);
  places_.clear();
  std::vector<int32_t> leaf_of(built.graph.body().values().size(), -1);
  for (size_t l = 0; l < piece_->leaves.size(); ++l)
    leaf_of[static_cast<size_t>(built.ids[l])] = static_cast<int32_t>(l);
  for (const lower::Port& port : program.feeds)
    places_.push_back({port.buffer, leaf_of[static_cast<size_t>(port.value)], 0, false});
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const lower::Port& port = program.variables[v];
    const int32_t of = built.of_variable[v];
    for (int32_t tile = 0; tile < port.tiles; ++tile)
      places_.push_back(
          {port.buffer + tile, of >= 0 ? of : -1 - of, tile * lower::kTileElements * size_of(port.type.dtype), of < 0});
  }
  for (size_t f = 0; f < program.fetches.size(); ++f)
    places_.push_back({program.fetches[f].buffer, built.fetched[f], 0, true});

  Bytes constant_bytes = 0;
  for (const lower::Port& port : program.constants) constant_bytes += round_up(port.type.bytes(), kAlignment);
  if (constant_bytes == 0) return;
  constants_ = std::make_unique<memory::Arena>(round_up(constant_bytes, memory::Arena::kPage));
  constants_->commit(constant_bytes);
  Bytes at = 0;
  for (const lower::Port& port : program.constants) {
    const std::vector<std::byte>& bytes = built.graph.body().constant_of(port.value).bytes;
    std::memcpy(constants_->data() + at, bytes.data(), bytes.size());
    by_buffer_[static_cast<size_t>(port.buffer)] = constants_->data() + at;
    at += round_up(port.type.bytes(), kAlignment);
  }
}

void PlannedPiece::run(const kernels::StepState& state, std::span<std::byte* const> leaves,
                       std::span<std::byte* const> targets) {
  for (const Place& place : places_)
    by_buffer_[static_cast<size_t>(place.buffer)] =
        (place.is_target ? targets : leaves)[static_cast<size_t>(place.number)] + place.offset;
  executor_->give_all(by_buffer_);
  executor_->run(state);
}

Bytes PlannedPiece::bytes() const {
  // The operands of an action, kernels of its own and what libraries keep for these; lists, and blocks of the heap.
  constexpr Bytes kBytesOfAction = 900, kBytesOfPlan = 4 * KiB;
  return kBytesOfPlan + std::ssize(action_ops_) * kBytesOfAction + std::ssize(by_buffer_) * 8;
}

}  // namespace plimsoll::eager

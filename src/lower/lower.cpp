#include "lower/lower.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "lower/draft.h"
#include "lower/fuse.h"

namespace plimsoll {
namespace {

Tag tag_of(VariableRole role) { return role == VariableRole::Optimiser ? Tag::Optimiser : Tag::Weights; }

class Lowering {
 public:
  Lowering(Draft& draft, const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels)
      : draft_(draft),
        graph_(*draft.graph),
        options_(options),
        layouts_(layouts),
        kernels_(kernels),
        homes_(graph_.values().size()) {
    program_.batch = options.batch;
  }

  Program run() {
    add_variables();
    mark_gradients();
    for (const DraftNode& node : draft_.nodes) add_node(node);
    add_fetches();
    finish_variables();
    return std::move(program_);
  }

 private:
  // A value in memory: its main buffer, and copies of it in other layouts.
  struct Home {
    BufferId buffer = -1;
    ConcreteType type;
    std::vector<std::pair<Layout, BufferId>> copies;
  };

  ConcreteType concrete(ValueId value) const { return concrete(value, options_.batch); }
  ConcreteType concrete(ValueId value, int64_t batch) const {
    const TensorType& type = graph_.value(value).type;
    return {type.dtype, at_batch(type.shape, batch), {}, false};
  }

  // Whether the bytes of a value grow with the batch.
  bool is_batched(ValueId value) const { return element_count(graph_.value(value).type.shape).is_batch(); }

  BufferId add_buffer(ValueId value, const ConcreteType& type, Tag tag, BufferKind kind, std::string name) {
    Buffer buffer{std::move(name), tag, kind, 0, 0};
    const Bytes bytes = type.bytes();
    if (is_batched(value) && bytes % options_.batch == 0)
      buffer.per_sample_bytes = bytes / options_.batch;
    else
      buffer.fixed_bytes = bytes;
    program_.problem.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(program_.problem.buffers.size()) - 1;
  }

  std::string name_of_value(ValueId value) const { return std::string(graph_.name(graph_.value(value))); }

  // Variables come first and all of them, used or not, so that their buffers are the same in every program.
  void add_variables() {
    for (const Variable& variable : graph_.variables()) {
      Home& home = homes_[static_cast<size_t>(variable.value)];
      home.type = concrete(variable.value);
      const auto fixed = layouts_.find(variable.value);
      home.type.is_open = fixed == layouts_.end();
      if (!home.type.is_open) home.type.layout = fixed->second;
      home.buffer = add_buffer(variable.value, home.type, tag_of(variable.role), BufferKind::Variable,
                               name_of_value(variable.value));
    }
    for (const Constant& constant : graph_.constants()) {
      Home& home = homes_[static_cast<size_t>(constant.value)];
      home.type = concrete(constant.value);
      home.buffer =
          add_buffer(constant.value, home.type, Tag::Weights, BufferKind::Variable, name_of_value(constant.value));
      program_.constants.push_back({constant.value, home.buffer, home.type});
    }
  }

  // A variable's size is known when its layout is.
  void finish_variables() {
    for (const Variable& variable : graph_.variables()) {
      Home& home = homes_[static_cast<size_t>(variable.value)];
      program_.problem.buffers[static_cast<size_t>(home.buffer)].fixed_bytes = home.type.bytes();
      if (!home.type.is_open) layouts_.insert_or_assign(variable.value, home.type.layout);
      home.type.is_open = false;
      program_.variables.push_back({variable.value, home.buffer, home.type});
    }
  }

  // What an update reads besides variables is a gradient in the report.
  void mark_gradients() {
    is_gradient_.assign(graph_.values().size(), false);
    for (const DraftNode& node : draft_.nodes) {
      if (node.op->traits.updates == 0) continue;
      for (const ValueId value : node.in)
        if (graph_.value(value).kind == ValueKind::Computed) is_gradient_[static_cast<size_t>(value)] = true;
    }
  }

  Home& home_of(ValueId value) {
    Home& home = homes_[static_cast<size_t>(value)];
    if (home.buffer >= 0) return home;
    if (graph_.value(value).kind != ValueKind::Placeholder)
      throw Error(fmt::format("'{}' is used before it is made", name_of_value(value)));
    home.type = concrete(value);
    home.buffer = add_buffer(value, home.type, Tag::Data, BufferKind::Input, name_of_value(value));
    program_.feeds.push_back({value, home.buffer, home.type});
    return home;
  }

  Tag tag_of_value(ValueId value) const {
    return is_gradient_[static_cast<size_t>(value)] ? Tag::Gradients : Tag::Activations;
  }

  // The buffer that holds the value in that layout; adds a reorder the first time.
  BufferId in_layout(ValueId value, const Layout& layout) {
    Home& home = home_of(value);
    if (home.type.is_open) {
      home.type.layout = layout;
      home.type.is_open = false;
    }
    if (home.type.layout == layout) return home.buffer;
    for (const auto& [other, buffer] : home.copies)
      if (other == layout) return buffer;
    const Prepared& prepared = kernels_.reorder(home.type, layout);
    ConcreteType type = home.type;
    type.layout = layout;
    const std::string name = fmt::format("{}/as/{}", name_of_value(value), to_string(layout));
    const BufferId copy = add_buffer(value, type, tag_of_value(value), BufferKind::Temporary, name);
    const Cost cost = cost_of_reorder(home.type.bytes(), type.bytes());
    Task task;
    task.name = name;
    task.reads = {home.buffer};
    task.writes = {copy};
    task.recomputable = true;
    task.batch_rule = BatchRule::Rows;
    set_time(task, cost, is_batched(value) ? cost_of_reorder(0, 0) : cost, 0);
    add_task(std::move(task), {prepared.kernel, -1, {{Operand::List::Reads, 0}}, cost}, prepared.scratch_bytes);
    home.copies.emplace_back(layout, copy);
    return copy;
  }

  // The work of the node for a batch of one sample.
  Cost cost_of_sample(const DraftNode& node) const {
    const auto types = [&](const std::vector<ValueId>& values) {
      std::vector<ConcreteType> list;
      for (const ValueId value : values) list.push_back(concrete(value, 1));
      return list;
    };
    const std::vector<ConcreteType> in = types(node.in), out = types(node.out);
    return cost_of(*node.op, {*node.attrs, in, out, 1, options_.batch, false});
  }

  // A straight line through the times at the whole batch and at a smaller one: what does not grow with the batch, such
  // as reading the weights, is paid again by every part.
  void set_time(Task& task, const Cost& whole, const Cost& part, int64_t part_batch) const {
    const double whole_ns = predict_ns(whole, options_.speed);
    task.fixed_ns = whole_ns;
    if (part_batch == options_.batch) return;
    const double part_ns = std::min(predict_ns(part, options_.speed), whole_ns);
    const auto batch = static_cast<double>(options_.batch);
    task.per_sample_ns =
        std::min((whole_ns - part_ns) / static_cast<double>(options_.batch - part_batch), whole_ns / batch);
    task.fixed_ns = std::max(0.0, whole_ns - task.per_sample_ns * batch);
  }

  void add_task(Task task, ProgramTask work, Bytes scratch_bytes) {
    task.scratch_fixed_bytes = scratch_bytes;
    program_.problem.tasks.push_back(std::move(task));
    program_.tasks.push_back(std::move(work));
  }

  void add_view(const DraftNode& node) {
    const BufferId buffer = in_layout(node.in[0], Layout());
    Home& home = homes_[static_cast<size_t>(node.out[0])];
    home.type = concrete(node.out[0]);
    home.buffer = buffer;
    // A gradient seen under another shape is still one.
    if (is_gradient_[static_cast<size_t>(node.out[0])]) {
      Buffer& held = program_.problem.buffers[static_cast<size_t>(buffer)];
      if (held.kind == BufferKind::Temporary) held.tag = Tag::Gradients;
    }
  }

  void add_node(const DraftNode& node) {
    if (node.op->traits.view) return add_view(node);
    std::vector<ConcreteType> in, out;
    for (const ValueId value : node.in) in.push_back(home_of(value).type);
    for (const ValueId value : node.out) out.push_back(concrete(value));
    const Facts facts{*node.attrs, in, out, options_.batch, options_.batch, false};
    const Prepared& prepared = kernels_.prepare(*node.op, facts);

    Task task;
    ProgramTask work{prepared.kernel, node.origin, {}, cost_of(*node.op, facts), node.op};
    for (size_t i = 0; i < node.in.size(); ++i) {
      const bool updated = (node.op->traits.updates >> i & 1) != 0;
      const BufferId buffer = in_layout(node.in[i], prepared.in.empty() ? Layout() : prepared.in[i]);
      Home& home = homes_[static_cast<size_t>(node.in[i])];
      if (updated && buffer != home.buffer)
        throw Error(fmt::format("{} '{}' would update a copy of variable '{}'", node.op->name,
                                graph_.name(graph_.node(node.origin)), name_of_value(node.in[i])));
      work.in.push_back(add_operand(updated ? task.updates : task.reads, updated, buffer));
    }
    task.name = std::string(graph_.name(graph_.node(node.origin)));
    for (size_t i = 0; i < node.out.size(); ++i) {
      Home& home = homes_[static_cast<size_t>(node.out[i])];
      home.type = out[i];
      if (!prepared.out.empty()) home.type.layout = prepared.out[i];
      home.buffer = add_buffer(node.out[i], home.type, tag_of_value(node.out[i]), BufferKind::Temporary,
                               name_of_value(node.out[i]));
      task.writes.push_back(home.buffer);
    }
    // An update makes every copy of the variable stale.
    for (size_t i = 0; i < node.in.size(); ++i)
      if ((node.op->traits.updates >> i & 1) != 0) homes_[static_cast<size_t>(node.in[i])].copies.clear();

    add_sharing(node, task, work);
    task.recomputable = node.op->traits.recomputable;
    std::vector<TensorType> types;
    if (node.op->batch_rule != nullptr)
      for (const ValueId value : node.in) types.push_back(graph_.value(value).type);
    task.batch_rule = node.op->batch_rule ? node.op->batch_rule(*node.attrs, types) : node.op->traits.batch;
    set_time(task, work.cost, cost_of_sample(node), 1);
    add_task(std::move(task), std::move(work), prepared.scratch_bytes);
  }

  // Operands that appear twice are listed once.
  static Operand add_operand(std::vector<BufferId>& list, bool updated, BufferId buffer) {
    auto at = std::find(list.begin(), list.end(), buffer);
    if (at == list.end()) at = list.insert(list.end(), buffer);
    return {updated ? Operand::List::Updates : Operand::List::Reads, static_cast<int32_t>(at - list.begin())};
  }

  void add_sharing(const DraftNode& node, Task& task, const ProgramTask& work) {
    if (task.writes.empty()) return;
    const Buffer& out = program_.problem.buffers[static_cast<size_t>(task.writes[0])];
    for (size_t i = 0; i < work.in.size(); ++i) {
      if ((node.op->traits.in_place >> i & 1) == 0 || work.in[i].list != Operand::List::Reads) continue;
      const Buffer& in =
          program_.problem.buffers[static_cast<size_t>(task.reads[static_cast<size_t>(work.in[i].index)])];
      const InPlace share{work.in[i].index, 0};
      if (in.fixed_bytes == out.fixed_bytes && in.per_sample_bytes == out.per_sample_bytes &&
          std::find(task.may_share.begin(), task.may_share.end(), share) == task.may_share.end())
        task.may_share.push_back(share);
    }
  }

  void add_fetches() {
    for (const ValueId value : draft_.fetches) {
      const BufferId buffer = in_layout(value, Layout());
      Buffer& held = program_.problem.buffers[static_cast<size_t>(buffer)];
      if (held.kind == BufferKind::Temporary) held.kind = BufferKind::Output;
      program_.fetches.push_back({value, buffer, concrete(value)});
    }
  }

  Draft& draft_;
  const Graph& graph_;
  const LowerOptions& options_;
  VariableLayouts& layouts_;
  KernelStore& kernels_;
  std::vector<Home> homes_;
  std::vector<bool> is_gradient_;
  Program program_;
};

}  // namespace

Program lower(const Graph& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates,
              const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels) {
  Draft draft = make_draft(graph, fetches, updates);
  if (options.fuse) fuse(draft);
  return Lowering(draft, options, layouts, kernels).run();
}

}  // namespace plimsoll

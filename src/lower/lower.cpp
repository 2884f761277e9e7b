#include "lower/lower.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "lower/draft.h"
#include "lower/fuse.h"
#include "lower/half_storage.h"
#include "lower/masks.h"
#include "lower/tiles.h"

namespace plimsoll::lower {
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
        samples_(options.part_samples > 0 ? options.part_samples : options.batch),
        last_samples_(options.batch % samples_),
        homes_(draft.value_count()) {
    program_.batch = options.batch;
    program_.part_samples = program_.problem.part_samples = options.part_samples;
  }

  std::optional<Program> run() {
    reserve();
    add_variables();
    mark_gradients();
    for (const DraftNode& node : draft_.nodes) add_node(node);
    add_fetches();
    finish_variables();
    if (!is_possible_) return std::nullopt;
    return std::move(program_);
  }

 private:
  // A value in memory: its main buffer, and copies of it in other layouts.
  struct Home {
    plan::BufferId buffer = -1;
    kernels::ConcreteType type;
    std::vector<std::pair<kernels::Layout, plan::BufferId>> copies;
    int32_t tiles = 1;  // of a variable: so many buffers, one after another
  };

  // Lists of a deep model are long: doubling would hold them twice.
  void reserve() {
    size_t buffers = 0;
    for (const int32_t tiles : count_tiles(graph_)) buffers += static_cast<size_t>(tiles);
    for (const DraftNode& node : draft_.nodes) buffers += node.out.size();
    program_.problem.buffers.reserve(buffers + graph_.constants().size());
    program_.problem.tasks.reserve(draft_.nodes.size());
    program_.tasks.reserve(draft_.nodes.size());
    program_.variables.reserve(graph_.variables().size());
  }

  kernels::ConcreteType concrete(ValueId value, int64_t samples) const {
    const TensorType& type = draft_.type(value);
    return {type.dtype, at_batch(type.shape, samples), {}, false};
  }
  kernels::ConcreteType concrete(ValueId value) const { return concrete(value, samples_); }

  // Whether the bytes of a value grow with the batch.
  bool is_batched(ValueId value) const { return element_count(draft_.type(value).shape).is_batch(); }

  plan::BufferId add_buffer(ValueId value, const kernels::ConcreteType& type, Tag tag, plan::BufferKind kind,
                            std::string name) {
    plan::Buffer buffer{std::move(name), tag, kind, 0, 0};
    const Bytes bytes = type.bytes();
    if (is_batched(value) && bytes % samples_ == 0) {
      buffer.per_sample_bytes = bytes / samples_;
    } else {
      buffer.fixed_bytes = bytes;
      is_possible_ = is_possible_ && !(is_batched(value) && in_parts());
    }
    program_.problem.buffers.push_back(std::move(buffer));
    return static_cast<plan::BufferId>(program_.problem.buffers.size()) - 1;
  }

  std::string name_of_value(ValueId value) const { return draft_.name(value); }

  // Variables come first and all of them, used or not, so that their buffers are the same in every program.
  void add_variables() {
    const std::vector<int32_t> tiles = count_tiles(graph_);
    for (size_t i = 0; i < tiles.size(); ++i) {
      const graph::Variable& variable = graph_.variables()[i];
      Home& home = homes_[static_cast<size_t>(variable.value)];
      home.type = concrete(variable.value);
      const auto fixed = layouts_.find(variable.value);
      home.type.is_open = fixed == layouts_.end();
      if (!home.type.is_open) home.type.layout = fixed->second;
      home.tiles = tiles[i];
      const std::string name = name_of_value(variable.value);
      home.buffer = static_cast<plan::BufferId>(program_.problem.buffers.size());
      for (int32_t tile = 0; tile < home.tiles; ++tile)
        add_buffer(variable.value, home.type, tag_of(variable.role()), plan::BufferKind::Variable,
                   home.tiles == 1 ? name : fmt::format("{}/tile{}", name, tile));
    }
    for (const graph::Constant& constant : graph_.constants()) {
      Home& home = homes_[static_cast<size_t>(constant.value)];
      home.type = concrete(constant.value);
      home.buffer = add_buffer(constant.value, home.type, Tag::Weights, plan::BufferKind::Variable,
                               name_of_value(constant.value));
      program_.constants.push_back({constant.value, home.buffer, home.type});
    }
  }

  // A variable's size is known when its layout is.
  void finish_variables() {
    for (const graph::Variable& variable : graph_.variables()) {
      Home& home = homes_[static_cast<size_t>(variable.value)];
      Bytes rest = home.type.bytes();
      for (int32_t tile = 0; tile < home.tiles; ++tile) {
        const Bytes bytes = tile + 1 == home.tiles ? rest : kTileElements * size_of(home.type.dtype);
        program_.problem.buffers[static_cast<size_t>(home.buffer + tile)].fixed_bytes = bytes;
        rest -= bytes;
      }
      if (!home.type.is_open) layouts_.insert_or_assign(variable.value, home.type.layout);
      home.type.is_open = false;
      program_.variables.push_back({variable.value, home.buffer, home.type, home.tiles});
    }
  }

  // What an update reads besides variables is a gradient in the report.
  void mark_gradients() {
    is_gradient_.assign(draft_.value_count(), false);
    for (const DraftNode& node : draft_.nodes) {
      if (node.op->traits.updates == 0) continue;
      for (const ValueId value : node.in)
        if (draft_.kind(value) == graph::ValueKind::Computed) is_gradient_[static_cast<size_t>(value)] = true;
    }
  }

  Home& home_of(ValueId value) {
    Home& home = homes_[static_cast<size_t>(value)];
    if (home.buffer >= 0) return home;
    if (draft_.kind(value) != graph::ValueKind::Placeholder)
      throw Error(fmt::format("'{}' is used before it is made", name_of_value(value)));
    home.type = concrete(value);
    home.buffer = add_buffer(value, home.type, Tag::Data, plan::BufferKind::Input, name_of_value(value));
    program_.feeds.push_back({value, home.buffer, concrete(value, options_.batch)});
    return home;
  }

  Tag tag_of_value(ValueId value) const {
    return is_gradient_[static_cast<size_t>(value)] ? Tag::Gradients : Tag::Activations;
  }

  // The buffer that holds the value in that layout; adds a reorder the first time.
  plan::BufferId in_layout(ValueId value, const kernels::Layout& layout) {
    Home& home = home_of(value);
    if (home.type.is_open) {
      home.type.layout = layout;
      home.type.is_open = false;
    }
    if (home.type.layout == layout) return home.buffer;
    for (const auto& [other, buffer] : home.copies)
      if (other == layout) return buffer;
    const kernels::Prepared& prepared = kernels_.reorder(home.type, layout);
    kernels::ConcreteType type = home.type;
    type.layout = layout;
    const std::string name = fmt::format("{}/as/{}", name_of_value(value), to_string(layout));
    const plan::BufferId copy = add_buffer(value, type, tag_of_value(value), plan::BufferKind::Temporary, name);
    const graph::Cost cost = cost_of_reorder(home.type.bytes(), type.bytes());
    ProgramTask work{{prepared.kernel, cost, {{Operand::List::Reads, 0}}}, -1};
    Bytes scratch = prepared.scratch_bytes;
    if (is_batched(value) && last_samples_ > 0) {
      const kernels::Prepared& smaller =
          kernels_.reorder(in_last_part(value, home.type), layout_in_last_part(value, layout));
      work.own.last = smaller.kernel;
      scratch = std::max(scratch, smaller.scratch_bytes);
    }
    plan::Task task;
    task.name = name;
    task.reads = {home.buffer};
    task.writes = {copy};
    task.recomputable = true;
    task.batch_rule = BatchRule::Rows;
    set_time(task, cost, is_batched(value) ? cost_of_reorder(0, 0) : cost, 0);
    add_task(std::move(task), std::move(work), scratch);
    home.copies.emplace_back(layout, copy);
    return copy;
  }

  // The work of the node for a batch of one sample.
  graph::Cost cost_of_sample(const DraftNode& node) const {
    const auto types = [&](const std::vector<ValueId>& values) {
      std::vector<kernels::ConcreteType> list;
      for (const ValueId value : values) list.push_back(concrete(value, 1));
      return list;
    };
    const std::vector<kernels::ConcreteType> in = types(node.in), out = types(node.out);
    return cost_of(*node.op, {*node.attrs, in, out, 1, options_.batch, false});
  }

  // A straight line through the times at the batch of a part and at a smaller one: what does not grow with the batch,
  // such as reading the weights, is paid again by every part.
  void set_time(plan::Task& task, const graph::Cost& whole, const graph::Cost& part, int64_t part_batch) const {
    const double whole_ns = predict_ns(whole, options_.speed);
    task.fixed_ns = whole_ns;
    if (part_batch == samples_) return;
    const double part_ns = std::min(predict_ns(part, options_.speed), whole_ns);
    const auto batch = static_cast<double>(samples_);
    task.per_sample_ns = std::min((whole_ns - part_ns) / static_cast<double>(samples_ - part_batch), whole_ns / batch);
    task.fixed_ns = std::max(0.0, whole_ns - task.per_sample_ns * batch);
  }

  void add_task(plan::Task task, ProgramTask work, Bytes scratch_bytes) {
    task.scratch_fixed_bytes = scratch_bytes;
    program_.problem.tasks.push_back(std::move(task));
    program_.tasks.push_back(std::move(work));
  }

  void add_view(const DraftNode& node) {
    const plan::BufferId buffer = in_layout(node.in[0], kernels::Layout());
    Home& home = homes_[static_cast<size_t>(node.out[0])];
    home.type = concrete(node.out[0]);
    home.buffer = buffer;
    // A gradient seen under another shape is still one.
    if (is_gradient_[static_cast<size_t>(node.out[0])]) {
      plan::Buffer& held = program_.problem.buffers[static_cast<size_t>(buffer)];
      if (held.kind == plan::BufferKind::Temporary) held.tag = Tag::Gradients;
    }
  }

  bool in_parts() const { return options_.part_samples > 0; }
  // Runs once after all parts, on rows that they collected.
  bool waits(const DraftNode& node) const { return in_parts() && options_.waits[static_cast<size_t>(node.origin)]; }

  void collect_rows(const DraftNode& node) {
    for (const ValueId value : node.in) {
      if (!is_batched(value)) continue;
      const Home& home = home_of(value);
      plan::Buffer& buffer = program_.problem.buffers[static_cast<size_t>(home.buffer)];
      if (!home.type.layout.is_plain()) is_possible_ = false;
      if (buffer.kind == plan::BufferKind::Temporary) buffer.is_collected = true;
    }
  }

  kernels::ConcreteType in_last_part(ValueId value, kernels::ConcreteType type) const {
    type.dims = concrete(value, last_samples_).dims;
    type.layout = layout_in_last_part(value, type.layout);
    return type;
  }
  kernels::Layout layout_in_last_part(ValueId value, const kernels::Layout& layout) const {
    return is_batched(value) ? layout.with_samples(concrete(value, last_samples_).dims[0]) : layout;
  }
  // Do kernels for a whole part and for the smaller last one leave the values in the same order?
  bool agree(const std::vector<ValueId>& values, const std::vector<kernels::Layout>& whole,
             const std::vector<kernels::Layout>& last) const {
    if (whole.size() != last.size()) return false;
    for (size_t i = 0; i < whole.size(); ++i)
      if (!(layout_in_last_part(values[i], whole[i]) == last[i])) return false;
    return true;
  }

  // Adds the kernels of later parts where they differ; returns the scratch that is enough for all.
  Bytes prepare_later(const DraftNode& node, const kernels::Facts& facts, const kernels::Prepared& first,
                      Kernels& kernels) {
    Bytes scratch = first.scratch_bytes;
    const auto rule = batch_rule_of(node);
    const bool adds = rule == BatchRule::Sums;
    if (adds) {
      kernels::Facts adding = facts;
      adding.accumulate = true;
      const kernels::Prepared& later = kernels_.prepare(*node.op, adding);
      is_possible_ = is_possible_ && later.in == first.in && later.out == first.out;
      scratch = std::max(scratch, later.scratch_bytes);
      kernels.later = later.kernel;
    }
    if (last_samples_ == 0) return scratch;
    std::vector<kernels::ConcreteType> last_in(facts.in.begin(), facts.in.end()),
        last_out(facts.out.begin(), facts.out.end());
    for (size_t i = 0; i < last_in.size(); ++i) last_in[i] = in_last_part(node.in[i], last_in[i]);
    for (size_t i = 0; i < last_out.size(); ++i) last_out[i] = in_last_part(node.out[i], last_out[i]);
    const kernels::Prepared& last =
        kernels_.prepare(*node.op, {*node.attrs, last_in, last_out, last_samples_, options_.batch, adds, facts.slim});
    is_possible_ = is_possible_ && agree(node.in, first.in, last.in) && agree(node.out, first.out, last.out);
    scratch = std::max(scratch, last.scratch_bytes);
    kernels.last = last.kernel;
    return scratch;
  }

  BatchRule batch_rule_of(const DraftNode& node) const {
    if (node.op->batch_rule == nullptr) return node.op->traits.batch;
    std::vector<TensorType> types;
    for (const ValueId value : node.in) types.push_back(draft_.type(value));
    return node.op->batch_rule(*node.attrs, types);
  }

  void add_node(const DraftNode& node) {
    if (node.op->traits.view) return add_view(node);
    const bool waits_for_parts = waits(node);
    if (waits_for_parts) collect_rows(node);
    std::vector<kernels::ConcreteType> in, out;
    bool batched = false;
    for (const ValueId value : node.in) {
      in.push_back(home_of(value).type);
      if (waits_for_parts) in.back().dims = concrete(value, options_.batch).dims;
      batched = batched || is_batched(value);
    }
    for (const ValueId value : node.out) {
      out.push_back(concrete(value));
      batched = batched || is_batched(value);
    }
    const int64_t samples = waits_for_parts ? options_.batch : samples_;
    const kernels::Facts facts{*node.attrs, in, out, samples, options_.batch, false};
    const kernels::Prepared& prepared = kernels_.prepare(*node.op, facts);
    const bool has_tiles =
        std::any_of(node.in.begin(), node.in.end(), [&](ValueId value) { return home_of(value).tiles > 1; });
    if (has_tiles) return add_tiles(node, in, prepared);

    plan::Task task;
    ProgramTask work{{prepared.kernel, cost_of(*node.op, facts)}, node.origin, node.op};
    for (size_t i = 0; i < node.in.size(); ++i) {
      const bool updated = (node.op->traits.updates >> i & 1) != 0;
      const plan::BufferId buffer = in_layout(node.in[i], prepared.in.empty() ? kernels::Layout() : prepared.in[i]);
      Home& home = homes_[static_cast<size_t>(node.in[i])];
      if (updated && buffer != home.buffer)
        throw Error(fmt::format("{} '{}' would update a copy of variable '{}'", node.op->name, draft_.name(node),
                                name_of_value(node.in[i])));
      work.own.in.push_back(add_operand(updated ? task.updates : task.reads, updated, buffer));
    }
    task.name = draft_.name(node);
    for (size_t i = 0; i < node.out.size(); ++i) {
      Home& home = homes_[static_cast<size_t>(node.out[i])];
      home.type = out[i];
      if (!prepared.out.empty()) home.type.layout = prepared.out[i];
      home.buffer = add_buffer(node.out[i], home.type, tag_of_value(node.out[i]), plan::BufferKind::Temporary,
                               name_of_value(node.out[i]));
      task.writes.push_back(home.buffer);
    }
    forget_copies(node);
    add_sharing(node, task, work);
    task.recomputable = node.op->traits.recomputable;
    task.batch_rule = batch_rule_of(node);
    const bool in_each_part = in_parts() && batched && !waits_for_parts;
    const Bytes scratch = in_each_part ? prepare_later(node, facts, prepared, work.own) : prepared.scratch_bytes;
    if (waits_for_parts)
      task.fixed_ns = predict_ns(work.own.cost, options_.speed);
    else
      set_time(task, work.own.cost, cost_of_sample(node), 1);
    if (!node.op->traits.slim.empty()) add_variant(node, facts, prepared, in_each_part, task, work);
    add_task(std::move(task), std::move(work), scratch);
  }

  // The same operands, less scratch, more time.
  void add_variant(const DraftNode& node, kernels::Facts facts, const kernels::Prepared& own, bool in_each_part,
                   plan::Task& task, ProgramTask& work) {
    facts.slim = true;
    const kernels::Prepared& slim = kernels_.prepare(*node.op, facts);
    if (slim.in != own.in || slim.out != own.out) return;
    work.slim = {slim.kernel, cost_of(*node.op, facts), work.own.in};
    plan::Variant variant{static_cast<const plan::Work&>(task), std::string(node.op->traits.slim)};
    variant.scratch_fixed_bytes = in_each_part ? prepare_later(node, facts, slim, work.slim) : slim.scratch_bytes;
    const double times = predict_ns(work.slim.cost, options_.speed) / predict_ns(work.own.cost, options_.speed);
    variant.fixed_ns *= times;
    variant.per_sample_ns *= times;
    task.variants.push_back(std::move(variant));
  }

  // One task for each tile of the state. What has the variable's size is the variable, its state and its gradient.
  void add_tiles(const DraftNode& node, std::vector<kernels::ConcreteType> types, const kernels::Prepared& whole) {
    std::vector<plan::BufferId> buffers;
    int32_t tiles = 1;
    for (size_t i = 0; i < node.in.size(); ++i) {
      const kernels::Layout layout = whole.in.empty() ? kernels::Layout() : whole.in[i];
      buffers.push_back(in_layout(node.in[i], layout));
      types[i].layout = layout;
      tiles = std::max(tiles, home_of(node.in[i]).tiles);
    }
    const int64_t total = types[0].bytes() / size_of(types[0].dtype);  // padding included
    for (int32_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = tile * kTileElements, elements = tile + 1 == tiles ? total - first : kTileElements;
      std::vector<kernels::ConcreteType> in = types;
      plan::Task task;
      task.name = fmt::format("{}/tile{}", draft_.name(node), tile);
      task.batch_rule = node.op->traits.batch;
      ProgramTask work{{}, node.origin, node.op};
      for (size_t i = 0; i < node.in.size(); ++i) {
        const bool updated = (node.op->traits.updates >> i & 1) != 0;
        const bool is_cut = types[i].count() == types[0].count() && types[0].count() > 1;
        const bool has_tiles = home_of(node.in[i]).tiles > 1;
        if (is_cut) in[i] = {types[i].dtype, Dims{elements}, {}, false};
        work.own.in.push_back(
            add_operand(updated ? task.updates : task.reads, updated, has_tiles ? buffers[i] + tile : buffers[i]));
        if (is_cut && !has_tiles) work.own.in.back().offset = first * size_of(types[i].dtype);
      }
      const kernels::Facts facts{*node.attrs, in, {}, options_.batch, options_.batch, false};
      const kernels::Prepared& prepared = kernels_.prepare(*node.op, facts);
      work.own.first = prepared.kernel;
      work.own.cost = cost_of(*node.op, facts);
      // A tile is small, but its variable is in no cache.
      MachineSpeed from_memory = options_.speed;
      from_memory.cache_bytes = 0;
      task.fixed_ns = predict_ns(work.own.cost, from_memory);
      add_task(std::move(task), std::move(work), prepared.scratch_bytes);
    }
    forget_copies(node);
  }

  // An update makes every copy of the variable stale.
  void forget_copies(const DraftNode& node) {
    for (size_t i = 0; i < node.in.size(); ++i)
      if ((node.op->traits.updates >> i & 1) != 0) homes_[static_cast<size_t>(node.in[i])].copies.clear();
  }

  // Operands that appear twice are listed once.
  static Operand add_operand(std::vector<plan::BufferId>& list, bool updated, plan::BufferId buffer) {
    auto at = std::find(list.begin(), list.end(), buffer);
    if (at == list.end()) at = list.insert(list.end(), buffer);
    return {updated ? Operand::List::Updates : Operand::List::Reads, static_cast<int32_t>(at - list.begin())};
  }

  void add_sharing(const DraftNode& node, plan::Task& task, const ProgramTask& work) {
    if (task.writes.empty()) return;
    const plan::Buffer& out = program_.problem.buffers[static_cast<size_t>(task.writes[0])];
    for (size_t i = 0; i < work.own.in.size(); ++i) {
      if ((node.op->traits.in_place >> i & 1) == 0 || work.own.in[i].list != Operand::List::Reads) continue;
      const plan::Buffer& in =
          program_.problem.buffers[static_cast<size_t>(task.reads[static_cast<size_t>(work.own.in[i].index)])];
      const plan::InPlace share{work.own.in[i].index, 0};
      if (in.fixed_bytes == out.fixed_bytes && in.per_sample_bytes == out.per_sample_bytes &&
          std::find(task.may_share.begin(), task.may_share.end(), share) == task.may_share.end())
        task.may_share.push_back(share);
    }
  }

  void add_fetches() {
    for (const ValueId value : draft_.fetches) {
      const plan::BufferId buffer = in_layout(value, kernels::Layout());
      plan::Buffer& held = program_.problem.buffers[static_cast<size_t>(buffer)];
      if (held.kind == plan::BufferKind::Temporary) held.kind = plan::BufferKind::Output;
      program_.fetches.push_back({value, buffer, concrete(value, options_.batch)});
    }
  }

  Draft& draft_;
  const graph::Body& graph_;
  const LowerOptions& options_;
  VariableLayouts& layouts_;
  KernelStore& kernels_;
  const int64_t samples_;       // of a part
  const int64_t last_samples_;  // of the last part, when it is smaller; else 0
  bool is_possible_ = true;
  std::vector<Home> homes_;
  std::vector<bool> is_gradient_;
  Program program_;
};

void rewrite(Draft& draft, const LowerOptions& options) {
  if (options.fuse) {
    fuse_loss(draft);
    fuse_activation(draft);
    fuse_norm_backward(draft);
    fuse_pool_backward(draft);
  }
  if (options.masks) use_masks(draft);
  if (options.fuse) fuse_elementwise(draft);
}

}  // namespace

std::optional<Program> lower_in_parts(const graph::Body& graph, std::span<const ValueId> fetches,
                                      std::span<const NodeId> updates, const LowerOptions& options,
                                      VariableLayouts& layouts, KernelStore& kernels) {
  Draft draft = make_draft(graph, fetches, updates);
  rewrite(draft, options);
  // After fusing, which would not look through the conversions.
  const int half_values = options.half_values ? store_in_half(draft, options.batch) : 0;
  std::optional<Program> program = Lowering(draft, options, layouts, kernels).run();
  if (program) program->half_values = half_values;
  return program;
}

Program lower(const graph::Body& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates,
              const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels) {
  return *lower_in_parts(graph, fetches, updates, options, layouts, kernels);
}

}  // namespace plimsoll::lower

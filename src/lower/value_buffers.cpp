#include "lower/value_buffers.h"

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "lower/tiles.h"

namespace plimsoll::lower {
namespace {

Tag tag_of(VariableRole role) {
  if (role == VariableRole::Gradient) return Tag::Gradients;
  return role == VariableRole::Optimiser ? Tag::Optimiser : Tag::Weights;
}

// By value: an update reads it and it is computed. Reports call it a gradient.
std::vector<bool> find_gradients(const Draft& draft) {
  std::vector<bool> is_gradient(draft.value_count(), false);
  for (const DraftNode& node : draft.nodes) {
    if (node.op->traits.updates == 0) continue;
    for (const ValueId value : node.in)
      if (draft.kind(value) == graph::ValueKind::Computed) is_gradient[static_cast<size_t>(value)] = true;
  }
  return is_gradient;
}

// By value: gathered from slices of all ranks. Only weights are.
std::vector<bool> find_gathered(const Draft& draft) {
  std::vector<bool> is_gathered(draft.value_count(), false);
  for (const DraftNode& node : draft.nodes)
    if (node.op->traits.exchanges && node.attrs->i("slices", 0) > 0)
      for (const ValueId value : node.out) is_gathered[static_cast<size_t>(value)] = true;
  return is_gathered;
}

// By variable: some update of it, in this step or another, needs it row-major.
std::vector<bool> find_plain_variables(const graph::Body& graph) {
  std::vector<bool> is_plain(graph.variables().size(), false);
  for (const graph::Node& node : graph.nodes()) {
    if (!node.op->traits.plain_updates) continue;
    const std::span<const ValueId> inputs = graph.inputs(node);
    for (size_t i = 0; i < inputs.size(); ++i)
      if ((node.op->traits.updates >> i & 1) != 0) is_plain[static_cast<size_t>(graph.value(inputs[i]).extra)] = true;
  }
  return is_plain;
}

}  // namespace

ValueBuffers::ValueBuffers(const Draft& draft, const BatchSizes& sizes, const LowerOptions& options, Program& program)
    : draft_(draft),
      graph_(*draft.graph),
      sizes_(sizes),
      gives_feeds_(options.gives_feeds || options.gives_all),
      gives_all_(options.gives_all),
      program_(program),
      places_(draft.value_count()),
      is_gradient_(find_gradients(draft)),
      is_gathered_(find_gathered(draft)) {
  // Lists of a deep model are long: doubling would hold them twice.
  size_t buffers = graph_.constants().size();
  for (const int32_t tiles : count_tiles(graph_)) buffers += static_cast<size_t>(tiles);
  for (const DraftNode& node : draft_.nodes) buffers += node.out.size();
  program_.problem.buffers.reserve(buffers);
  program_.buffer_types.reserve(buffers);
  program_.variables.reserve(graph_.variables().size());
}

plan::BufferId ValueBuffers::add_buffer(ValueId value, const kernels::ConcreteType& type, Tag tag,
                                        plan::BufferKind kind, std::string name) {
  plan::Buffer added{std::move(name), tag, kind, 0, 0};
  const Bytes bytes = type.bytes();
  if (sizes_.is_batched(value) && bytes % sizes_.samples() == 0) {
    added.per_sample_bytes = bytes / sizes_.samples();
  } else {
    added.fixed_bytes = bytes;
    if (sizes_.is_batched(value)) forbid_micro_batches();
  }
  program_.problem.buffers.push_back(std::move(added));
  program_.buffer_types.push_back(type.dtype);
  return static_cast<plan::BufferId>(program_.problem.buffers.size()) - 1;
}

void ValueBuffers::add_variables(const VariableLayouts& layouts) {
  const std::vector<int32_t> tiles = count_tiles(graph_);
  const std::vector<bool> is_plain = find_plain_variables(graph_);
  for (size_t i = 0; i < tiles.size(); ++i) {
    const graph::Variable& variable = graph_.variables()[i];
    ValuePlace& place = at(variable.value);
    place.type = sizes_.type(variable.value);
    const auto fixed = layouts.find(variable.value);
    place.type.is_open =
        fixed == layouts.end() && !is_plain[i] && !gives_all_ && !draft_.packed.contains(variable.value);
    if (fixed != layouts.end()) place.type.layout = fixed->second;
    place.tiles = tiles[i];
    const std::string name = draft_.name(variable.value);
    place.buffer = static_cast<plan::BufferId>(program_.problem.buffers.size());
    for (int32_t tile = 0; tile < place.tiles; ++tile)
      edit(add_buffer(variable.value, place.type, tag_of(variable.role()), plan::BufferKind::Variable,
                      place.tiles == 1 ? name : fmt::format("{}/tile{}", name, tile)))
          .is_given = gives_all_;
  }
  for (const graph::Constant& constant : graph_.constants()) {
    ValuePlace& place = at(constant.value);
    place.type = sizes_.type(constant.value);
    place.buffer =
        add_buffer(constant.value, place.type, Tag::Weights, plan::BufferKind::Variable, draft_.name(constant.value));
    edit(place.buffer).is_given = gives_all_;
    program_.constants.push_back({constant.value, place.buffer, place.type});
  }
}

void ValueBuffers::finish_variables(VariableLayouts& layouts) {
  for (const graph::Variable& variable : graph_.variables()) {
    ValuePlace& place = at(variable.value);
    Bytes rest = place.type.bytes();
    for (int32_t tile = 0; tile < place.tiles; ++tile) {
      const Bytes bytes = tile + 1 == place.tiles ? rest : kTileElements * size_of(place.type.dtype);
      edit(place.buffer + tile).fixed_bytes = bytes;
      rest -= bytes;
    }
    if (!place.type.is_open) layouts.insert_or_assign(variable.value, place.type.layout);
    place.type.is_open = false;
    program_.variables.push_back({variable.value, place.buffer, place.type, place.tiles});
    if (const auto packed = draft_.packed.find(variable.value); packed != draft_.packed.end())
      program_.variables.back().packed = packed->second.form;
  }
}

const ValuePlace& ValueBuffers::place(ValueId value) {
  ValuePlace& place = at(value);
  if (place.buffer >= 0) return place;
  if (draft_.kind(value) != graph::ValueKind::Placeholder)
    throw Error(fmt::format("'{}' is used before it is computed", draft_.name(value)));
  place.type = sizes_.type(value);
  place.buffer = add_buffer(value, place.type, Tag::Data, plan::BufferKind::Input, draft_.name(value));
  edit(place.buffer).is_given = gives_feeds_;
  expect_whole_samples(value);
  program_.feeds.push_back({value, place.buffer, sizes_.type_at(value, sizes_.batch())});
  return place;
}

void ValueBuffers::add_computed(ValueId value, const kernels::ConcreteType& type) {
  at(value).type = type;
  at(value).buffer = add_buffer(value, type, tag_of_computed(value), plan::BufferKind::Temporary, draft_.name(value));
}

void ValueBuffers::add_view(ValueId view, plan::BufferId shown) {
  at(view).type = sizes_.type(view);
  at(view).buffer = shown;
  // A gradient seen under another shape is still one.
  if (is_gradient_[static_cast<size_t>(view)] && buffer(shown).kind == plan::BufferKind::Temporary)
    edit(shown).tag = Tag::Gradients;
}

plan::BufferId ValueBuffers::find(ValueId value, const kernels::Layout& layout) {
  place(value);
  ValuePlace& place = at(value);
  if (place.type.is_open) {
    place.type.layout = layout;
    place.type.is_open = false;
  }
  if (place.type.layout == layout) return place.buffer;
  for (const auto& [other, copy] : place.copies)
    if (other == layout) return copy;
  return -1;
}

plan::BufferId ValueBuffers::add_copy(ValueId value, const kernels::Layout& layout, std::string name) {
  kernels::ConcreteType type = at(value).type;
  type.layout = layout;
  const plan::BufferId copy =
      add_buffer(value, type, tag_of_computed(value), plan::BufferKind::Temporary, std::move(name));
  at(value).copies.emplace_back(layout, copy);
  return copy;
}

void ValueBuffers::collect_rows(ValueId value) {
  const ValuePlace& rows = place(value);
  expect_whole_samples(value);
  if (!rows.type.layout.is_plain()) forbid_micro_batches();
  if (buffer(rows.buffer).kind == plan::BufferKind::Temporary) edit(rows.buffer).is_collected = true;
}

void ValueBuffers::expect_whole_samples(ValueId value) {
  if (!sizes_.has_whole_samples(value)) forbid_micro_batches();
}

void ValueBuffers::keep_as_output(plan::BufferId id) {
  if (gives_all_ && buffer(id).kind != plan::BufferKind::Temporary)
    throw Error(fmt::format("'{}' has its bytes already and can't be fetched into others", buffer(id).name));
  if (buffer(id).kind == plan::BufferKind::Temporary) edit(id).kind = plan::BufferKind::Output;
  edit(id).is_given = gives_all_;  // else the caller reads it in the arena
}

}  // namespace plimsoll::lower

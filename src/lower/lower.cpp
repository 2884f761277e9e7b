#include "lower/lower.h"

#include "lower/draft.h"
#include "lower/frozen.h"
#include "lower/fuse.h"
#include "lower/half_storage.h"
#include "lower/masks.h"
#include "lower/node_kernels.h"
#include "lower/tasks.h"
#include "lower/value_buffers.h"

namespace plimsoll::lower {
namespace {

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

std::optional<Program> lower_in_micro_batches(const graph::Body& graph, std::span<const ValueId> fetches,
                                              std::span<const NodeId> updates, const LowerOptions& options,
                                              VariableLayouts& layouts, KernelStore& kernels) {
  Draft draft = make_draft(graph, fetches, updates);
  rewrite(draft, options);
  pack_frozen(draft, options.frozen);
  // After fusing, which would not look through the conversions.
  const HalfValues half =
      options.values == DType::F32
          ? HalfValues{}
          : store_in_half(draft, options.batch, options.values, options.half_products && options.values == DType::BF16);
  Program program;
  program.batch = options.batch;
  program.micro_batch = program.problem.micro_batch = options.micro_batch;
  program.half_values = half.count;
  program.half_value_bytes = half.bytes;
  program.products = half.products;
  program.half_products = half.half_products;
  const BatchSizes sizes(draft, options.batch, options.micro_batch);
  ValueBuffers buffers(draft, sizes, options, program);
  KernelChooser chooser(draft, sizes, kernels);
  TaskBuilder tasks(draft, options, sizes, buffers, chooser, program);
  buffers.add_variables(layouts);
  for (const DraftNode& node : draft.nodes) tasks.add(node);
  for (const ValueId value : draft.fetches) tasks.add_fetch(value);
  buffers.finish_variables(layouts);
  if (!buffers.is_possible() || !chooser.is_possible()) return std::nullopt;
  return program;
}

Program lower(const graph::Body& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates,
              const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels) {
  return *lower_in_micro_batches(graph, fetches, updates, options, layouts, kernels);
}

}  // namespace plimsoll::lower

// The kernels that a node runs: for the first, later and last micro-batch, and for its variant.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lower/batch_sizes.h"
#include "lower/kernels.h"
#include "lower/program.h"

namespace plimsoll::lower {

struct ChosenKernels {
  Kernels kernels;  // without operands
  Bytes workspace_bytes;
};

struct NodeKernels {
  std::vector<kernels::Layout> in, out;  // the layouts that the kernels want; empty: row-major
  ChosenKernels own;
  std::optional<ChosenKernels> slim;  // the same layouts, less workspace, more time

  kernels::Layout input_layout(size_t i) const { return in.empty() ? kernels::Layout() : in[i]; }
  kernels::Layout output_layout(size_t i) const { return out.empty() ? kernels::Layout() : out[i]; }
};

class KernelChooser {
 public:
  KernelChooser(const Draft& draft, const BatchSizes& sizes, KernelStore& kernels)
      : draft_(draft), sizes_(sizes), kernels_(kernels) {}

  // For one run on `samples` samples.
  NodeKernels choose(const DraftNode& node, std::span<const kernels::ConcreteType> in,
                     std::span<const kernels::ConcreteType> out, int64_t samples);
  // For a run on each micro-batch.
  NodeKernels choose_for_each(const DraftNode& node, std::span<const kernels::ConcreteType> in,
                              std::span<const kernels::ConcreteType> out);
  // Copies the value from the layout that it has to another.
  ChosenKernels choose_reorder(ValueId value, const kernels::ConcreteType& from, const kernels::Layout& to);

  // False when the kernels of some node want other layouts in later micro-batches than in the first.
  bool is_possible() const { return is_possible_; }

 private:
  NodeKernels choose(const DraftNode& node, kernels::Facts facts, bool for_each);
  ChosenKernels with_later(const DraftNode& node, const kernels::Facts& facts, const kernels::Prepared& first,
                           bool for_each);
  bool agree(const std::vector<ValueId>& values, const std::vector<kernels::Layout>& first,
             const std::vector<kernels::Layout>& last) const;

  const Draft& draft_;
  const BatchSizes& sizes_;
  KernelStore& kernels_;
  bool is_possible_ = true;
};

}  // namespace plimsoll::lower

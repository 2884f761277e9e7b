// Where each value of a draft lies: its buffer, its layout, and copies of it in other layouts.
#pragma once

#include <utility>
#include <vector>

#include "lower/batch_sizes.h"
#include "lower/lower.h"

namespace plimsoll::lower {

struct ValuePlace {
  plan::BufferId buffer = -1;
  kernels::ConcreteType type;  // an open layout is decided by the first kernel that uses the value
  std::vector<std::pair<kernels::Layout, plan::BufferId>> copies;
  int32_t tiles = 1;  // a large variable takes so many buffers, one after another
};

// Adds buffers to the program's problem, and its variables, constants and feeds.
class ValueBuffers {
 public:
  ValueBuffers(const Draft& draft, const BatchSizes& sizes, const LowerOptions& options, Program& program);

  // All variables, used or not, so that they are the first buffers of every program.
  void add_variables(const VariableLayouts& layouts);
  // The sizes of variables, once their layouts are decided. `layouts` gains these.
  void finish_variables(VariableLayouts& layouts);

  // A placeholder gets its buffer at its first use; any other value must have one.
  const ValuePlace& place(ValueId value);
  void add_computed(ValueId value, const kernels::ConcreteType& type);
  // `view` shows the bytes of `shown` under a shape of its own.
  void add_view(ValueId view, plan::BufferId shown);

  // The buffer that holds the value in that layout, or -1. Decides an open layout.
  plan::BufferId find(ValueId value, const kernels::Layout& layout);
  plan::BufferId add_copy(ValueId value, const kernels::Layout& layout, std::string name);
  // To be called after an update, which makes every copy of the variable stale.
  void forget_copies(ValueId value) { at(value).copies.clear(); }

  // The rows of all micro-batches are kept, for a task that runs after them.
  void collect_rows(ValueId value);
  // The buffer of a value that is read after the step.
  void keep_as_output(plan::BufferId id);

  const plan::Buffer& buffer(plan::BufferId id) const { return program_.problem.buffers[static_cast<size_t>(id)]; }
  // Feeds, fetches and collected rows are stored micro-batch after micro-batch: samples must be outermost there.
  void expect_whole_samples(ValueId value);
  void forbid_micro_batches() { is_possible_ = is_possible_ && !sizes_.in_micro_batches(); }
  // False when some value can't be held in micro-batches of this size.
  bool is_possible() const { return is_possible_; }

 private:
  ValuePlace& at(ValueId value) { return places_[static_cast<size_t>(value)]; }
  plan::Buffer& edit(plan::BufferId id) { return program_.problem.buffers[static_cast<size_t>(id)]; }
  Tag tag_of_computed(ValueId value) const {
    if (is_gathered_[static_cast<size_t>(value)]) return Tag::Weights;
    return is_gradient_[static_cast<size_t>(value)] ? Tag::Gradients : Tag::Activations;
  }
  plan::BufferId add_buffer(ValueId value, const kernels::ConcreteType& type, Tag tag, plan::BufferKind kind,
                            std::string name);

  const Draft& draft_;
  const graph::Body& graph_;
  const BatchSizes& sizes_;
  const bool gives_feeds_, gives_all_;
  Program& program_;
  std::vector<ValuePlace> places_;  // by value
  std::vector<bool> is_gradient_;   // by value
  std::vector<bool> is_gathered_;   // by value
  bool is_possible_ = true;
};

}  // namespace plimsoll::lower

// Brings the elements of a batch to one shape, in the memory that they lie in.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <plimsoll/dataset.h>
#include "input/rows.h"

namespace plimsoll::input {

class RowPadding {
 public:
  RowPadding() = default;  // none
  // Throws Error(Usage) for shapes that elements can't be padded to.
  RowPadding(const ElementSpec& spec, const PaddedBatchOptions& options);

  bool is_empty() const { return targets_.empty(); }
  bool is_padded(size_t component) const { return !is_empty() && targets_[component].is_padded; }
  ElementSpec padded(const ElementSpec& spec) const;  // of an element
  std::string text() const;

  // What a row of the batch needs.
  Bytes row_bytes(const Component& component, size_t index) const;
  Dims fixed_shape(const Component& component, size_t index) const;
  // Rows of `component` become one array without gaps, of the shape that is written to *shape where that is not null.
  // Throws Error(BadData) for an element larger than its target.
  void pad(const Component& component, size_t index, const Rows& rows, Dims* shape) const;

 private:
  struct Target {
    Dims shape;  // -1: the largest of the batch
    Dims most;
    double value = 0;
    bool is_padded = false;
  };
  std::vector<Target> targets_;
};

}  // namespace plimsoll::input

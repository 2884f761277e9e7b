// The rewrite that replaces operators by their int8 forms, and the names of the variables that it makes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shrink/calibrate.h"
#include "shrink/int8_graph.h"

namespace plimsoll::shrink {

// All that the rewritten graph and its weights follow from.
struct Int8Plan {
  std::shared_ptr<const model::TracedModel> traced;
  Int8Graph graph;
  std::vector<ByteScale> scales;  // by value; of those that are bytes
  bool full_range = false;        // of weights

  ByteScale scale_at(ValueId id) const { return scales[static_cast<size_t>(id)]; }
  bool gives_bytes(const Int8Unit& unit) const { return graph.needs_bytes[static_cast<size_t>(unit.y)]; }
};

// Within the scope of the model. The kernel keeps its name; a kernel that several layers share has scales and offsets
// for each, since these follow from the scales of the values around the layer.
struct Int8Names {
  std::string kernel, scale, offset;
};
Int8Names names_of(const Int8Plan& plan, const Int8Unit& unit);
// [out, in ...]
Shape kernel_shape(const Int8Plan& plan, const Int8Unit& unit);

model::Rewrite int8_rewrite(const std::shared_ptr<const Int8Plan>& plan);

}  // namespace plimsoll::shrink

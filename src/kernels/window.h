// A window among the settings of a node, and the size of what it makes.
#pragma once

#include <plimsoll/types.h>
#include "graph/op.h"

namespace plimsoll::kernels {

using namespace graph;  // kernels are written with the words of operators

Attrs attrs_of(const Window& window);
Window window_of(const Attrs& attrs);

// The size of the output. Fails when the window does not fit once, or when its settings are invalid.
Size2d output_size(const Infer& n, Size2d image, Size2d kernel);

}  // namespace plimsoll::kernels

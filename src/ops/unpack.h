// Packed weights (kernels/packed_weights.h) as operands: a variable of bytes that some operators read as it is.
#pragma once

#include "kernels/packed_weights.h"
#include "ops/ops.h"

namespace plimsoll::ops {

// The bytes that hold weights of these dimensions.
TensorType packed_type(const PackedWeights& form);

// Settings of an operator that reads packed weights: their type and dimensions.
void set_packed(Attrs& attrs, DType dtype, const Dims& dims);
bool has_packed(const Attrs& attrs);
Dims packed_dims(const Attrs& attrs);
PackedWeights packed_form(const Attrs& attrs);

// Fails unless the input has the bytes of these settings.
void expect_packed(const Infer& n, size_t input);

// Whether the operator reads this input packed, with these settings. It then gets the settings of set_packed.
bool reads_packed(const Op& op, const Attrs& attrs, size_t input);

}  // namespace plimsoll::ops

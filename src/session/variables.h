// Values of variables: made in place, and copied in and out row-major.
#pragma once

#include <string_view>

#include <plimsoll/tensor.h>
#include "graph/init.h"
#include "kernels/kernel.h"
#include "kernels/packed_weights.h"

namespace plimsoll::session {

// What a piece of a packed variable takes as floats, on its way in or out.
constexpr Bytes kPieceBytes = MiB;
Bytes piece_bytes(const kernels::PackedWeights& form);
// Fills a packed variable, through `piece`.
void initialize_packed(const Init& init, uint64_t seed, std::string_view name, const kernels::PackedWeights& form,
                       std::byte* place, float* piece);

// Fills a variable at `place`. One that is not row-major is made in `staging` first.
void initialize_variable(const Init& init, uint64_t seed, std::string_view name, const kernels::ConcreteType& type,
                         std::byte* place, std::byte* staging);

void copy_to_plain(const kernels::ConcreteType& type, const void* from, void* into);
void copy_from_plain(const kernels::ConcreteType& type, const void* from, void* into);

// Throws Error that names the variable when `bytes` is not its row-major size.
void expect_bytes(Tensor variable, Bytes bytes);

// The fewest bits that an element of the optimiser's state takes.
int state_bits(const graph::Body& graph);

}  // namespace plimsoll::session

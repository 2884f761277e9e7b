// One step of a recurrent layer for some samples and some units.
#pragma once

#include "kernels/recurrent.h"

namespace plimsoll::kernels {

struct CellRange {
  int64_t first_row, last_row;      // samples
  int64_t first_block, last_block;  // of strip_width() units
};

constexpr int64_t kCellRows = 96;  // samples whose tile stays in a near cache

// A strip of packed columns, whole rows of `columns` rounded up to half a strip.
inline int64_t packed_width(int64_t columns, int64_t strip) { return columns > strip / 2 ? strip : strip / 2; }

// c (+)= a strip (+ bias).
struct StripProduct {
  int64_t rows, columns, inner;
  const float* a;
  int64_t a_stride;
  const float* strip;
  const float* bias;
  float* c;
  int64_t c_stride;
  bool adds;
};
void multiply_strip(const StripProduct& p);

// `packed`: for each block of units a strip for each gate. `tile`: kCellRows strips.
void step_forward(const RecurrentSizes& n, const RecurrentForward& in, const float* packed, int64_t step,
                  const CellRange& range, float* tile);

// What a step hands to the one before it, and what products over several steps read.
struct CellSlopes {
  float *dh, *dc;        // [batch, units]; dc: lstm alone
  float* drecurrent_x;   // [batch, width]: the gradients of h R + b
  const float* product;  // [batch, units]: gru, h R + b of n
};
// Gradients of the gates, from those of the state; dh keeps what reaches the state before other than by the product.
void step_back(const RecurrentSizes& n, const RecurrentBackward& in, int64_t step, const CellRange& range,
               const CellSlopes& slopes);

}  // namespace plimsoll::kernels

// Recurrent layers over whole sequences: the products with the last state, gates and states of all steps, and their
// gradients. What depends on the inputs alone is computed before, as one product.
#pragma once

#include <array>
#include <cstdint>

#include <plimsoll/types.h>
#include "kernels/product.h"

namespace plimsoll::kernels {

//  simple  h = activation(x + h R)
//  lstm    c = f c + i g,  h = o tanh(c)                     gates i f g o
//  gru     h = z h + (1 - z) n,  n = tanh(x + r (h R + b))   gates z r n
enum class Cell : uint8_t { Simple, Lstm, Gru };

struct RecurrentSizes {
  Cell cell = Cell::Simple;
  int64_t batch = 0, steps = 0, units = 0;
  bool reverse = false;                      // from the last step to the first
  bool relu = false;                         // of a simple cell, instead of tanh
  std::array<int64_t, 4> at = {0, 1, 2, 3};  // where each of the gates above lies among the columns

  int64_t gates() const { return cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1; }
  int64_t width() const { return gates() * units; }
  int64_t place(int64_t step) const { return reverse ? steps - 1 - step : step; }
};

// Sequences are [batch, steps, width or units], states [batch, units]. What may be missing is null.
struct RecurrentForward {
  const float* x;               // what depends on the inputs, of all gates
  const float* recurrent;       // [units, width]
  const float* bias = nullptr;  // gru: [width], added to h R
  const float *state = nullptr, *cell = nullptr;
  const uint8_t* mask = nullptr;  // [batch, steps]: 0 where the states stay as they are
  float* gates;                   // may be x; simple: the same as y
  float *y, *cells = nullptr;     // states of all steps
  float *last, *last_cell = nullptr;
};

struct RecurrentBackward {
  const float *gates, *y, *cells = nullptr;
  const float *recurrent, *bias = nullptr;
  const float *state = nullptr, *cell = nullptr;
  const uint8_t* mask = nullptr;
  const float *dy = nullptr, *dlast = nullptr, *dlast_cell = nullptr;
  float* dx;               // may be the gates
  float* drecurrent;       // grows
  float* dbias = nullptr;  // gru: grows
  float *dstate, *dcell = nullptr;
};

// Results do not depend on the number of threads.
class Recurrence {
 public:
  explicit Recurrence(const RecurrentSizes& sizes);
  Bytes forward_bytes() const;
  Bytes backward_bytes() const;
  void run(const RecurrentForward& in, void* workspace) const noexcept;
  void run_back(const RecurrentBackward& in, void* workspace) const noexcept;

 private:
  struct Chunk;
  struct BackwardPlaces;
  int64_t blocks() const { return (n_.units + strip_ - 1) / strip_; }
  BackwardPlaces places(void* workspace) const;
  void pack(const float* recurrent, float* packed) const;
  void pack_transposed(const float* recurrent, float* packed) const;
  void gather_states(const RecurrentBackward& in, int64_t first, int64_t count, float* states) const;

  RecurrentSizes n_;
  int64_t strip_;
  int slots_;
  bool by_units_;      // threads share the units of a step, not the samples
  int64_t chunk_;      // steps whose part of drecurrent is one product
  Product weights_;    // states of a chunk, transposed, by gradients of gates
  Product candidate_;  // gru: states of a chunk by the columns of n
};

}  // namespace plimsoll::kernels

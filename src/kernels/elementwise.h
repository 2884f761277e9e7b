// The engine of element-wise operators: short programs of tile functions, run over memory in one pass.
//
//   inputs ──load──► registers of kTile floats ──steps──► registers ──store──► outputs
//
// Loading broadcasts and converts to f32, storing converts back, so that a tile function sees contiguous floats alone.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

constexpr Bytes kStreamBytes = 24 * MiB;  // results above this are written past the caches
constexpr int64_t kTile = 1024;           // floats: a few registers of this size stay in the first-level cache

// One call of a tile function. `out` may be one of `in`.
struct Tile {
  const float* in[4];
  float* out;
  size_t count;         // at most kTile
  const float* params;  // as fill_params left them
  int64_t index;        // of the first element in this micro-batch, row-major
  const StepState* state;
  bool streams = false;  // `out` is aligned, and better written past the caches
};
using TileFn = void (*)(const Tile&);

struct TileOp {
  TileFn run;
  int params = 0;  // how many floats of settings
  void (*fill_params)(const Attrs&, float*) = nullptr;
  bool uses_index = false;  // the result depends on where the element is, not on its value alone
};

// Registers 0 .. inputs-1 are the inputs, step i writes register inputs+i.
struct TileStep {
  const TileOp* op;
  std::vector<float> params;
  std::vector<int> in;
  DType dtype = DType::F32;  // of the result: later steps see it rounded to this, as if it had been stored
};
struct TileProgram {
  std::vector<TileStep> steps;
  std::vector<int> outputs;  // the register that each output is; none of them an input, all different
};

// Keeps the layout of the first full-sized input that is not plain where the shapes allow it.
Prepared prepare_program(const Facts& facts, const TileProgram& program);
Prepared prepare_tile(const Facts& facts, const TileOp& op);
// The same as a function of the facts alone, as Op::prepare wants it.
template <const TileOp* (*tile)()>
Prepared prepare_tile(const Facts& facts) {
  return prepare_tile(facts, *tile());
}

// Registers that a program may have: what a thread's stack holds.
constexpr int kMaxRegisters = 32;

// Shape rules. One float input, an output of the same type.
void infer_map(Infer& n);
// Two inputs of one type (floats may differ: the result is then f32), broadcast.
void infer_broadcast(Infer& n);
// Two inputs of exactly the same shape, the output is of the type of the first: what gradient operators take.
void infer_same(Infer& n);
// Broadcasts all inputs from `first` on; fail() where they don't go together.
Shape broadcast_inputs(const Infer& n, size_t first);
DType common_dtype(const Infer& n, size_t a, size_t b);

// Conversion of a run of elements to and from floats. Storing to integers rounds towards zero and saturates; a NaN is
// stored as 0.
using LoadFn = void (*)(const void* from, float* to, size_t count);
using StoreFn = void (*)(const float* from, void* to, size_t count);
LoadFn load_of(DType dtype);
StoreFn store_of(DType dtype);
// Past the caches, for outputs too large to stay in them.
StoreFn streaming_store();

// The traits of an operator that is nothing but a map; `in_place` as in Traits.
constexpr Traits map_traits(uint32_t in_place) {
  return {.batch = BatchRule::Rows, .recomputable = true, .elementwise = true, .in_place = in_place};
}

}  // namespace plimsoll::kernels

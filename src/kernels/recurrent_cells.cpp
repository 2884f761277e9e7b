#include "kernels/recurrent_cells.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent_cells.cpp"
#include <hwy/foreach_target.h>

#include "kernels/tile_math-inl.h"

#ifndef PLIMSOLL_KERNELS_RECURRENT_CELLS_ONCE
#define PLIMSOLL_KERNELS_RECURRENT_CELLS_ONCE
namespace plimsoll::kernels {
namespace {

// States of all samples before a step: null where they are zero.
struct StateRows {
  const float* at = nullptr;
  int64_t stride = 0;
  const float* row(int64_t sample) const { return at == nullptr ? nullptr : at + sample * stride; }
};

StateRows before(const RecurrentSizes& n, const float* all, const float* initial, int64_t step) {
  if (step == 0) return {initial, n.units};
  if (all == nullptr) return {};
  return {all + n.place(step - 1) * n.units, n.steps * n.units};
}

bool is_masked(const RecurrentSizes& n, const uint8_t* mask, int64_t sample, int64_t step) {
  return mask != nullptr && mask[sample * n.steps + n.place(step)] == 0;
}

void copy_or_clear(const float* from, int64_t count, float* to) {
  if (from != nullptr)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else
    std::fill_n(to, count, 0.0F);
}

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

template <class Access>
HWY_INLINE Floats load_or_zero(Access part, const float* from) {
  return from == nullptr ? hn::Zero(FloatTag()) : part.load(FloatTag(), from);
}

HWY_INLINE Floats one() { return hn::Set(FloatTag(), 1.0F); }
// y (1 - y) and 1 - y^2: the derivatives of sigmoid and tanh.
HWY_INLINE Floats sigmoid_slope(Floats y) { return hn::NegMulAdd(y, y, y); }
HWY_INLINE Floats tanh_slope(Floats y) { return hn::NegMulAdd(y, y, one()); }

// Gates of one sample from their sums to their values, in place; the new state.
void simple_row(int64_t count, bool relu, float* y) {
  const FloatTag d;
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats x = part.load(d, y + i);
    part.store(d, relu ? at_least(hn::Zero(d), x) : tanh_of(x), y + i);
  });
}

void lstm_row(int64_t count, float* const (&gate)[4], const float* cell, float* next_cell, float* y) {
  const FloatTag d;
  for_vectors(count, [&](int64_t u, auto part) HWY_ATTR {
    const Floats i = sigmoid_of(part.load(d, gate[0] + u)), f = sigmoid_of(part.load(d, gate[1] + u));
    const Floats g = tanh_of(part.load(d, gate[2] + u)), o = sigmoid_of(part.load(d, gate[3] + u));
    const Floats kept = hn::Mul(f, load_or_zero(part, cell == nullptr ? nullptr : cell + u));
    const Floats c = hn::MulAdd(i, g, kept);
    part.store(d, i, gate[0] + u);
    part.store(d, f, gate[1] + u);
    part.store(d, g, gate[2] + u);
    part.store(d, o, gate[3] + u);
    part.store(d, c, next_cell + u);
    part.store(d, hn::Mul(o, tanh_of(c)), y + u);
  });
}

void gru_row(int64_t count, float* const (&gate)[4], const float* product, const float* state, float* y) {
  const FloatTag d;
  for_vectors(count, [&](int64_t u, auto part) HWY_ATTR {
    const Floats z = sigmoid_of(part.load(d, gate[0] + u)), r = sigmoid_of(part.load(d, gate[1] + u));
    const Floats n = tanh_of(hn::MulAdd(r, part.load(d, product + u), part.load(d, gate[2] + u)));
    const Floats h = load_or_zero(part, state == nullptr ? nullptr : state + u);
    part.store(d, z, gate[0] + u);
    part.store(d, r, gate[1] + u);
    part.store(d, n, gate[2] + u);
    part.store(d, hn::MulAdd(z, hn::Sub(h, n), n), y + u);
  });
}

// Samples [row, row + rows), units [unit, unit + count): sums of the gates, then their values.
void forward_tile(const RecurrentSizes& n, const RecurrentForward& in, const float* strips, int64_t step, int64_t row,
                  int64_t rows, int64_t unit, int64_t count, int64_t strip, float* tile) {
  const int64_t gates = n.gates(), width = n.width(), place = n.place(step);
  const int64_t strip_floats = n.units * packed_width(count, strip);
  const StateRows states = before(n, in.y, in.state, step), cells = before(n, in.cells, in.cell, step);
  const auto at_gate = [&](int64_t sample, int64_t gate) {
    return (sample * n.steps + place) * width + n.at[static_cast<size_t>(gate)] * n.units + unit;
  };
  const auto at_state = [&](int64_t sample) { return (sample * n.steps + place) * n.units + unit; };
  for (int64_t g = 0; g < gates; ++g) {
    if (in.gates != in.x)
      for (int64_t r = row; r < row + rows; ++r)
        std::memcpy(in.gates + at_gate(r, g), in.x + at_gate(r, g), static_cast<size_t>(count) * sizeof(float));
    const bool apart = n.cell == Cell::Gru && g == 2;  // r is multiplied with h R + b before x is added
    multiply_strip({.rows = rows,
                    .columns = count,
                    .inner = states.at == nullptr ? 0 : n.units,
                    .a = states.row(row),
                    .a_stride = states.stride,
                    .strip = strips + g * strip_floats,
                    .bias = in.bias == nullptr ? nullptr : in.bias + n.at[static_cast<size_t>(g)] * n.units + unit,
                    .c = apart ? tile : in.gates + at_gate(row, g),
                    .c_stride = apart ? strip : n.steps * width,
                    .adds = !apart});
  }
  for (int64_t r = row; r < row + rows; ++r) {
    float* y = in.y + at_state(r);
    const float* state = states.row(r);
    const float* cell = cells.row(r);
    if (state != nullptr) state += unit;
    if (cell != nullptr) cell += unit;
    float* gate[4] = {};
    for (int64_t g = 0; g < gates; ++g) gate[g] = in.gates + at_gate(r, g);
    if (is_masked(n, in.mask, r, step)) {
      copy_or_clear(state, count, y);
      if (n.cell == Cell::Lstm) copy_or_clear(cell, count, in.cells + at_state(r));
    } else if (n.cell == Cell::Simple) {
      simple_row(count, n.relu, y);
    } else if (n.cell == Cell::Lstm) {
      lstm_row(count, gate, cell, in.cells + at_state(r), y);
    } else {
      gru_row(count, gate, tile + (r - row) * strip, state, y);
    }
    if (step + 1 < n.steps) continue;
    copy_or_clear(y, count, in.last + r * n.units + unit);
    if (n.cell == Cell::Lstm) copy_or_clear(in.cells + at_state(r), count, in.last_cell + r * n.units + unit);
  }
}

void forward_range(const RecurrentSizes& n, const RecurrentForward& in, const float* packed, int64_t step,
                   const CellRange& range, float* tile) {
  const int64_t strip = strip_width();
  for (int64_t row = range.first_row; row < range.last_row; row += kCellRows)
    for (int64_t block = range.first_block; block < range.last_block; ++block)
      forward_tile(n, in, packed + block * n.gates() * n.units * strip, step, row,
                   std::min(kCellRows, range.last_row - row), block * strip, std::min(strip, n.units - block * strip),
                   strip, tile);
}

// One sample: what the gradient of its state makes of the gates'.
void simple_back(int64_t count, bool relu, const float* y, float* dh, float* dx, float* dproduct) {
  const FloatTag d;
  for_vectors(count, [&](int64_t u, auto part) HWY_ATTR {
    const Floats h = part.load(d, y + u), slope = part.load(d, dh + u);
    const Floats a = relu ? hn::IfThenElseZero(hn::Gt(h, hn::Zero(d)), slope) : hn::Mul(slope, tanh_slope(h));
    part.store(d, a, dx + u);
    part.store(d, a, dproduct + u);
    part.store(d, hn::Zero(d), dh + u);
  });
}

void lstm_back(int64_t count, const float* const (&gate)[4], const float* cell, const float* before, float* dh,
               float* dc, float* const (&dx)[4], float* const (&dproduct)[4]) {
  const FloatTag d;
  for_vectors(count, [&](int64_t u, auto part) HWY_ATTR {
    const Floats i = part.load(d, gate[0] + u), f = part.load(d, gate[1] + u);
    const Floats g = part.load(d, gate[2] + u), o = part.load(d, gate[3] + u);
    const Floats t = tanh_of(part.load(d, cell + u)), slope = part.load(d, dh + u);
    const Floats s = hn::MulAdd(hn::Mul(slope, o), tanh_slope(t), part.load(d, dc + u));
    const Floats old = load_or_zero(part, before == nullptr ? nullptr : before + u);
    const Floats all[] = {hn::Mul(hn::Mul(s, g), sigmoid_slope(i)), hn::Mul(hn::Mul(s, old), sigmoid_slope(f)),
                          hn::Mul(hn::Mul(s, i), tanh_slope(g)), hn::Mul(hn::Mul(slope, t), sigmoid_slope(o))};
    for (int k = 0; k < 4; ++k) {
      part.store(d, all[k], dx[k] + u);
      part.store(d, all[k], dproduct[k] + u);
    }
    part.store(d, hn::Mul(s, f), dc + u);
    part.store(d, hn::Zero(d), dh + u);
  });
}

void gru_back(int64_t count, const float* const (&gate)[4], const float* product, const float* state, float* dh,
              float* const (&dx)[4], float* const (&dproduct)[4]) {
  const FloatTag d;
  for_vectors(count, [&](int64_t u, auto part) HWY_ATTR {
    const Floats z = part.load(d, gate[0] + u), r = part.load(d, gate[1] + u), n = part.load(d, gate[2] + u);
    const Floats h = load_or_zero(part, state == nullptr ? nullptr : state + u), slope = part.load(d, dh + u);
    const Floats dn = hn::Mul(hn::Mul(slope, hn::Sub(one(), z)), tanh_slope(n));
    const Floats dz = hn::Mul(hn::Mul(slope, hn::Sub(h, n)), sigmoid_slope(z));
    const Floats dr = hn::Mul(hn::Mul(dn, part.load(d, product + u)), sigmoid_slope(r));
    part.store(d, dz, dx[0] + u);
    part.store(d, dz, dproduct[0] + u);
    part.store(d, dr, dx[1] + u);
    part.store(d, dr, dproduct[1] + u);
    part.store(d, dn, dx[2] + u);
    part.store(d, hn::Mul(dn, r), dproduct[2] + u);
    part.store(d, hn::Mul(slope, z), dh + u);
  });
}

void add_row(int64_t count, const float* more, float* to) {
  const FloatTag d;
  for_vectors(count, [&](int64_t i, auto part)
                         HWY_ATTR { part.store(d, hn::Add(part.load(d, to + i), part.load(d, more + i)), to + i); });
}

void back_range(const RecurrentSizes& n, const RecurrentBackward& in, int64_t step, const CellRange& range,
                const CellSlopes& slopes) {
  const int64_t strip = strip_width(), unit = range.first_block * strip;
  const int64_t count = std::min(range.last_block * strip, n.units) - unit;
  const int64_t place = n.place(step), gates = n.gates(), width = n.width();
  const StateRows states = before(n, in.y, in.state, step), cells = before(n, in.cells, in.cell, step);
  for (int64_t r = range.first_row; r < range.last_row; ++r) {
    const int64_t at = r * n.steps + place;
    float* dh = slopes.dh + r * n.units + unit;
    if (in.dy != nullptr) add_row(count, in.dy + at * n.units + unit, dh);
    const float* gate[4] = {};
    float* dx[4] = {};
    float* dproduct[4] = {};
    for (int64_t g = 0; g < gates; ++g) {
      const int64_t column = n.at[static_cast<size_t>(g)] * n.units + unit;
      gate[g] = in.gates + at * width + column;
      dx[g] = in.dx + at * width + column;
      dproduct[g] = slopes.drecurrent_x + r * width + column;
    }
    if (is_masked(n, in.mask, r, step)) {
      for (int64_t g = 0; g < gates; ++g) {
        std::fill_n(dx[g], count, 0.0F);
        std::fill_n(dproduct[g], count, 0.0F);
      }
      continue;
    }
    const float* state = states.row(r);
    const float* cell = cells.row(r);
    if (state != nullptr) state += unit;
    if (cell != nullptr) cell += unit;
    if (n.cell == Cell::Simple)
      simple_back(count, n.relu, gate[0], dh, dx[0], dproduct[0]);
    else if (n.cell == Cell::Lstm)
      lstm_back(count, gate, in.cells + at * n.units + unit, cell, dh, slopes.dc + r * n.units + unit, dx, dproduct);
    else
      gru_back(count, gate, slopes.product + r * n.units + unit, state, dh, dx, dproduct);
  }
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(forward_range);
HWY_EXPORT(back_range);

}  // namespace

void multiply_strip(const StripProduct& p) {
  const int64_t width = packed_width(p.columns, strip_width());
  int64_t k = 0;
  do {  // without a state there is nothing to multiply, but a bias may have to be added
    ProductPiece piece;
    piece.rows = p.rows;
    piece.columns = p.columns;
    piece.inner = std::min(kDepth, p.inner - k);
    piece.a = p.inner > 0 ? p.a + k : p.c;
    piece.a_row_stride = p.inner > 0 ? p.a_stride : 0;
    piece.a_column_stride = 1;
    piece.a_panel_stride = kPanel * piece.a_row_stride;
    piece.b = p.strip + k * width;
    piece.bias = k == 0 ? p.bias : nullptr;
    piece.c = p.c;
    piece.c_stride = p.c_stride;
    piece.adds = p.adds || k > 0;
    piece.activation = Activation::None;
    multiply(piece);
    k += kDepth;
  } while (k < p.inner);
}

void step_forward(const RecurrentSizes& n, const RecurrentForward& in, const float* packed, int64_t step,
                  const CellRange& range, float* tile) {
  HWY_DYNAMIC_DISPATCH(forward_range)(n, in, packed, step, range, tile);
}

void step_back(const RecurrentSizes& n, const RecurrentBackward& in, int64_t step, const CellRange& range,
               const CellSlopes& slopes) {
  HWY_DYNAMIC_DISPATCH(back_range)(n, in, step, range, slopes);
}

}  // namespace plimsoll::kernels
#endif

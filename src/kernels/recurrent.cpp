#include "kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/recurrent_cells.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kFewRows = 256;  // that are worth a product of their own

// As many steps as make that many rows, and all chunks alike.
int64_t steps_of_chunk(const RecurrentSizes& n) {
  const int64_t most = std::clamp<int64_t>((kFewRows + n.batch - 1) / std::max<int64_t>(1, n.batch), 1, n.steps);
  const int64_t chunks = (n.steps + most - 1) / most;
  return (n.steps + chunks - 1) / chunks;
}

double flops_of_step(const RecurrentSizes& n) {
  return 2.0 * static_cast<double>(n.batch * n.units) * static_cast<double>(n.width());
}

int slots_of(const RecurrentSizes& n) {
  constexpr double kAloneFlops = 1e6;  // less is not worth waking threads
  return flops_of_step(n) * static_cast<double>(n.steps) < kAloneFlops ? 1 : thread_slots();
}

// Samples do not depend on each other, so that threads need not meet. But few samples share too little of the weights:
// then threads share the units, and meet after each step if a step is long enough.
bool is_by_units(const RecurrentSizes& n) {
  constexpr double kLongFlops = 4e5;
  return slots_of(n) > 1 && n.batch < 4 * slots_of(n) && flops_of_step(n) >= kLongFlops;
}

int64_t floats_of(int64_t count) { return round_up(count, 16); }

MatrixOrder rows_of(const RecurrentSizes& n, int64_t columns) {
  return MatrixOrder::by_rows(steps_of_chunk(n) * n.batch, columns);
}

void start_with(const float* from, int64_t count, float* to) {
  if (to == nullptr) return;
  if (from != nullptr)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else
    std::fill_n(to, count, 0.0F);
}

}  // namespace

Recurrence::Recurrence(const RecurrentSizes& sizes)
    : n_(sizes),
      strip_(strip_width()),
      slots_(slots_of(sizes)),
      by_units_(is_by_units(sizes)),
      chunk_(steps_of_chunk(sizes)),
      weights_(rows_of(sizes, sizes.units).transposed(), rows_of(sizes, sizes.width()), sizes.width(), true),
      candidate_(rows_of(sizes, sizes.units), {sizes.units, sizes.units, sizes.width(), 1}, sizes.units) {}

Bytes Recurrence::forward_bytes() const {
  const int64_t packed = blocks() * strip_ * n_.gates() * n_.units;
  return (floats_of(packed) + slots_ * kCellRows * strip_) * static_cast<Bytes>(sizeof(float));
}

struct Recurrence::BackwardPlaces {
  float *packed, *states, *slopes, *products;
  void* product_workspace;
};

Recurrence::BackwardPlaces Recurrence::places(void* workspace) const {
  const int64_t rows = chunk_ * n_.batch;
  auto* at = static_cast<float*>(workspace);
  const auto take = [&](int64_t count) {
    float* taken = at;
    at += floats_of(count);
    return taken;
  };
  BackwardPlaces places{};
  places.packed = take(blocks() * strip_ * n_.width());
  places.states = take(rows * n_.units);
  places.slopes = take(rows * n_.width());
  places.products = take(n_.cell == Cell::Gru ? rows * n_.units : 0);
  places.product_workspace = at;
  return places;
}

Bytes Recurrence::backward_bytes() const {
  const int64_t rows = chunk_ * n_.batch;
  const bool is_gru = n_.cell == Cell::Gru;
  const int64_t floats = floats_of(blocks() * strip_ * n_.width()) + floats_of(rows * n_.units) +
                         floats_of(rows * n_.width()) + (is_gru ? floats_of(rows * n_.units) : 0);
  Bytes products = weights_.workspace_bytes();
  if (is_gru) products = std::max(products, candidate_.workspace_bytes());
  return floats * static_cast<Bytes>(sizeof(float)) + products;
}

// A strip for each gate of each block of units.
void Recurrence::pack(const float* recurrent, float* packed) const {
  const int64_t gates = n_.gates();
  parallel_for(blocks() * gates, 1 + 16384 / (strip_ * n_.units), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t block = i / gates, gate = i % gates, unit = block * strip_;
      const int64_t count = std::min(strip_, n_.units - unit), width = packed_width(count, strip_);
      float* to = packed + block * gates * n_.units * strip_ + gate * n_.units * width;
      const float* from = recurrent + n_.at[static_cast<size_t>(gate)] * n_.units + unit;
      for (int64_t k = 0; k < n_.units; ++k, to += width, from += n_.width()) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
        std::fill(to + count, to + width, 0.0F);
      }
    }
  });
}

// Strips of the transposed matrix.
void Recurrence::pack_transposed(const float* recurrent, float* packed) const {
  parallel_for(blocks(), 1 + 16384 / (strip_ * n_.width()), [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t unit = block * strip_;
      const int64_t count = std::min(strip_, n_.units - unit), width = packed_width(count, strip_);
      float* to = packed + block * strip_ * n_.width();
      const float* from = recurrent + unit * n_.width();
      for (int64_t k = 0; k < n_.width(); ++k, to += width) {
        for (int64_t i = 0; i < count; ++i) to[i] = from[i * n_.width() + k];
        std::fill(to + count, to + width, 0.0F);
      }
    }
  });
}

void Recurrence::run(const RecurrentForward& in, void* workspace) const noexcept {
  auto* packed = static_cast<float*>(workspace);
  float* tiles = packed + floats_of(blocks() * strip_ * n_.gates() * n_.units);
  pack(in.recurrent, packed);
  const int64_t items = std::min<int64_t>(slots_, by_units_ ? blocks() : n_.batch);
  if (by_units_) {
    for (int64_t step = 0; step < n_.steps; ++step)
      parallel_items(items, slots_, [&](int64_t item, int slot) {
        step_forward(n_, in, packed, step, {0, n_.batch, blocks() * item / items, blocks() * (item + 1) / items},
                     tiles + slot * kCellRows * strip_);
      });
    return;
  }
  parallel_items(items, slots_, [&](int64_t item, int slot) {
    const CellRange range{n_.batch * item / items, n_.batch * (item + 1) / items, 0, blocks()};
    for (int64_t step = 0; step < n_.steps; ++step)
      step_forward(n_, in, packed, step, range, tiles + slot * kCellRows * strip_);
  });
}

// The states before each of `count` steps, side by side; zeros for the steps that a chunk has more.
void Recurrence::gather_states(const RecurrentBackward& in, int64_t first, int64_t count, float* states) const {
  parallel_for(chunk_ * n_.batch, 1 + 8192 / n_.units, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t step = first + i / n_.batch, sample = i % n_.batch;
      const float* from = nullptr;
      if (step > 0)
        from = in.y + (sample * n_.steps + n_.place(step - 1)) * n_.units;
      else if (in.state != nullptr)
        from = in.state + sample * n_.units;
      start_with(step < first + count ? from : nullptr, n_.units, states + i * n_.units);
    }
  });
}

void Recurrence::run_back(const RecurrentBackward& in, void* workspace) const noexcept {
  const BackwardPlaces at = places(workspace);
  pack_transposed(in.recurrent, at.packed);
  start_with(in.dlast, n_.batch * n_.units, in.dstate);
  start_with(in.dlast_cell, n_.batch * n_.units, in.dcell);
  const int64_t width = n_.width(), of_step = n_.batch * width;
  const int64_t items = std::min<int64_t>(slots_, by_units_ ? blocks() : n_.batch);
  for (int64_t first = (n_.steps - 1) / chunk_ * chunk_; first >= 0; first -= chunk_) {
    const int64_t count = std::min(chunk_, n_.steps - first);
    gather_states(in, first, count, at.states);
    std::fill(at.slopes + count * of_step, at.slopes + chunk_ * of_step, 0.0F);
    if (n_.cell == Cell::Gru) {
      const int64_t column = n_.at[2] * n_.units;
      candidate_.run(at.states, in.recurrent + column, in.bias == nullptr ? nullptr : in.bias + column, at.products,
                     at.product_workspace);
    }
    const auto slopes_of = [&](int64_t step) {
      const int64_t row = n_.cell == Cell::Gru ? (step - first) * n_.batch : 0;
      return CellSlopes{in.dstate, in.dcell, at.slopes + (step - first) * of_step, at.products + row * n_.units};
    };
    const auto multiply_back = [&](int64_t step, const CellRange& range) {
      for (int64_t block = range.first_block; block < range.last_block; ++block)
        multiply_strip({.rows = range.last_row - range.first_row,
                        .columns = std::min(strip_, n_.units - block * strip_),
                        .inner = width,
                        .a = at.slopes + (step - first) * of_step + range.first_row * width,
                        .a_stride = width,
                        .strip = at.packed + block * strip_ * width,
                        .bias = nullptr,
                        .c = in.dstate + range.first_row * n_.units + block * strip_,
                        .c_stride = n_.units,
                        .adds = true});
    };
    if (by_units_) {
      for (int64_t step = first + count - 1; step >= first; --step) {
        const auto range_of = [&](int64_t item) {
          return CellRange{0, n_.batch, blocks() * item / items, blocks() * (item + 1) / items};
        };
        parallel_items(items, slots_,
                       [&](int64_t item, int) { step_back(n_, in, step, range_of(item), slopes_of(step)); });
        parallel_items(items, slots_, [&](int64_t item, int) { multiply_back(step, range_of(item)); });
      }
    } else {
      parallel_items(items, slots_, [&](int64_t item, int) {
        const CellRange range{n_.batch * item / items, n_.batch * (item + 1) / items, 0, blocks()};
        for (int64_t step = first + count - 1; step >= first; --step) {
          step_back(n_, in, step, range, slopes_of(step));
          multiply_back(step, range);
        }
      });
    }
    weights_.run(at.states, at.slopes, nullptr, in.drecurrent, at.product_workspace);
    if (in.dbias == nullptr) continue;
    parallel_for(width, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < count * n_.batch; ++row)
        for (int64_t i = begin; i < end; ++i) in.dbias[i] += at.slopes[row * width + i];
    });
  }
}

}  // namespace plimsoll::kernels

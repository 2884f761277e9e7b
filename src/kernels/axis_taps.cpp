#include "kernels/axis_taps.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kGrain = 16384;

int64_t rows_in_a_piece(int64_t row) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row)); }

}  // namespace

AxisTaps::AxisTaps(const Dims& whole, int64_t axis, int64_t to, int64_t per, Fill fill)
    : to_(to), per_(per), fill_(std::move(fill)) {
  for (int i = 0; i < whole.rank(); ++i) (i < axis ? outer_ : i == axis ? from_ : inner_) *= whole[i];
}

Bytes AxisTaps::forward_bytes() const { return to_ * per_ * static_cast<Bytes>(sizeof(int64_t) + sizeof(float)); }
Bytes AxisTaps::backward_bytes() const {
  return forward_bytes() + (from_ + 1 + to_ * per_) * static_cast<Bytes>(sizeof(int64_t));
}

AxisTaps::Lists AxisTaps::fill_lists(void* workspace) const {
  auto* places = static_cast<int64_t*>(workspace);
  const Lists lists{places, reinterpret_cast<float*>(places + to_ * per_)};
  parallel_for(to_, 1024, [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) fill_(j, lists.places + j * per_, lists.weights + j * per_);
  });
  return lists;
}

void AxisTaps::forward(const float* x, float* y, void* workspace) const {
  const Lists lists = fill_lists(workspace);
  parallel_for(outer_ * to_, rows_in_a_piece(inner_ * per_), [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t* places = lists.places + t % to_ * per_;
      const float* weights = lists.weights + t % to_ * per_;
      const float* from = x + t / to_ * from_ * inner_;
      float* to = y + t * inner_;
      for (int64_t i = 0; i < inner_; ++i) to[i] = weights[0] * from[places[0] * inner_ + i];
      for (int64_t k = 1; k < per_; ++k) {
        const float weight = weights[k];
        const float* row = from + places[k] * inner_;
        for (int64_t i = 0; i < inner_; ++i) to[i] += weight * row[i];
      }
    }
  });
}

void AxisTaps::backward(const float* dy, float* dx, void* workspace) const {
  // The lists of the forward pass, turned round: behind them lie the starts and the uses, which need 8-byte places.
  auto* starts = static_cast<int64_t*>(workspace);
  int64_t* uses = starts + from_ + 1;
  const Lists lists = fill_lists(uses + to_ * per_);
  std::fill_n(starts, from_ + 1, 0);
  for (int64_t i = 0; i < to_ * per_; ++i) ++starts[lists.places[i] + 1];
  for (int64_t i = 0; i < from_; ++i) starts[i + 1] += starts[i];
  for (int64_t i = 0; i < to_ * per_; ++i) uses[starts[lists.places[i]]++] = i;
  // Each start is now the end of its element.
  parallel_for(outer_ * from_, rows_in_a_piece(inner_ * per_), [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t at = t % from_;
      const float* from = dy + t / from_ * to_ * inner_;
      float* to = dx + t * inner_;
      std::fill_n(to, inner_, 0.0F);
      for (int64_t k = at == 0 ? 0 : starts[at - 1]; k < starts[at]; ++k) {
        const float weight = lists.weights[uses[k]];
        const float* row = from + uses[k] / per_ * inner_;
        for (int64_t i = 0; i < inner_; ++i) to[i] += weight * row[i];
      }
    }
  });
}

void AxisTaps::copy(const void* x, void* y, Bytes element_bytes, void* workspace) const {
  const Lists lists = fill_lists(workspace);
  const Bytes row = inner_ * element_bytes;
  const auto copy_rows = [&](auto copy_row) {
    parallel_for(outer_ * to_, rows_in_a_piece(inner_), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t)
        copy_row(static_cast<std::byte*>(y) + t * row,
                 static_cast<const std::byte*>(x) + (t / to_ * from_ + lists.places[t % to_]) * row);
    });
  };
  if (row == sizeof(float))
    copy_rows([](std::byte* to, const std::byte* from) { std::memcpy(to, from, sizeof(float)); });
  else
    copy_rows([row](std::byte* to, const std::byte* from) { std::memcpy(to, from, static_cast<size_t>(row)); });
}

}  // namespace plimsoll::kernels

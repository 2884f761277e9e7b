#include "kernels/element_runs.h"

#include <array>
#include <numeric>

#include "kernels/dnnl_layout.h"

namespace plimsoll::kernels {

ElementRuns::ElementRuns(const ConcreteType& type) : layout_(type.layout) {
  if (layout_.is_padded(type.dtype, type.dims) && !set_digits(type)) {
    layout_ = Layout();
    digits_.clear();
  }
  places_ = layout_.bytes(type.dtype, type.dims) / size_of(type.dtype);
}

// False unless the places follow each other without a gap.
bool ElementRuns::set_digits(const ConcreteType& type) {
  const DnnlDesc desc = layout_.desc(type.dtype, type.dims);
  const dnnl_memory_desc_t& md = desc.data;
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  if (md.format_kind != dnnl_blocked || md.offset0 != 0 || blocking.inner_nblks == 0) return false;
  std::array<int64_t, DNNL_MAX_NDIMS> block, weight;
  block.fill(1);
  for (int i = 0; i < blocking.inner_nblks; ++i)
    block[static_cast<size_t>(blocking.inner_idxs[i])] *= blocking.inner_blks[i];
  weight = block;
  std::vector<int> order(static_cast<size_t>(md.ndims));
  std::iota(order.begin(), order.end(), 0);
  const auto outer = [&](int d) { return md.padded_dims[d] / block[static_cast<size_t>(d)]; };
  // Where strides are equal one of the dimensions has a single block.
  std::ranges::stable_sort(order, [&](int a, int b) {
    return blocking.strides[a] != blocking.strides[b] ? blocking.strides[a] > blocking.strides[b] : outer(a) > outer(b);
  });
  for (const int d : order) digits_.push_back({d, outer(d), block[static_cast<size_t>(d)]});
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    const auto d = static_cast<size_t>(blocking.inner_idxs[i]);
    weight[d] /= blocking.inner_blks[i];
    digits_.push_back({static_cast<int>(d), blocking.inner_blks[i], weight[d]});
  }
  int64_t stride = 1;
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    const bool is_outer = digits_.rend() - digit <= md.ndims;
    if (is_outer && digit->size != 1 && blocking.strides[digit->dimension] != stride) return false;
    stride *= digit->size;
  }
  if (stride * size_of(type.dtype) != layout_.bytes(type.dtype, type.dims)) return false;
  row_dimension_ = digits_.back().dimension;
  row_ = digits_.back().size;
  digits_.pop_back();
  dims_.assign(md.dims, md.dims + md.ndims);
  return true;
}

int64_t ElementRuns::elements_of(int64_t row) const {
  std::array<int64_t, DNNL_MAX_NDIMS> index{};
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    index[static_cast<size_t>(digit->dimension)] += row % digit->size * digit->weight;
    row /= digit->size;
  }
  for (size_t d = 0; d < dims_.size(); ++d)
    if (static_cast<int>(d) != row_dimension_ && index[d] >= dims_[d]) return 0;
  const auto d = static_cast<size_t>(row_dimension_);
  return std::clamp<int64_t>(dims_[d] - index[d], 0, row_);
}

}  // namespace plimsoll::kernels

#include "kernels/layout.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/dnnl_layout.h"

namespace plimsoll::kernels {
namespace {

// True when walking the buffer from its start visits the elements in row-major order without gaps.
bool means_row_major(const dnnl_memory_desc_t& md) {
  if (md.format_kind != dnnl_blocked || md.offset0 != 0) return false;
  dnnl_dim_t blocks[DNNL_MAX_NDIMS];
  std::fill(blocks, blocks + md.ndims, dnnl_dim_t{1});
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  for (int i = 0; i < blocking.inner_nblks; ++i) blocks[blocking.inner_idxs[i]] *= blocking.inner_blks[i];
  // With at most one blocked dimension, it is row-major if everything after that dimension has size one.
  int blocked = -1;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    if (blocked >= 0 && blocking.inner_idxs[i] != blocked) return false;
    blocked = static_cast<int>(blocking.inner_idxs[i]);
  }
  if (blocking.inner_nblks > 1) return false;
  dnnl_dim_t expected = 1;
  for (int d = md.ndims - 1; d >= 0; --d) {
    if (md.padded_dims[d] != md.dims[d]) return false;
    if (d == blocked) {
      if (expected != 1) return false;
      const dnnl_dim_t outer = md.dims[d] / blocks[d];
      if (outer != 1 && blocking.strides[d] != blocks[d]) return false;
    } else if (md.dims[d] != 1 && blocking.strides[d] != expected) {
      return false;
    }
    expected *= md.dims[d];
  }
  return true;
}

}  // namespace

Layout::Layout(const DnnlDesc& desc) {
  if (!means_row_major(desc.data)) desc_ = std::make_shared<const DnnlDesc>(desc);
}

dnnl::memory::data_type to_dnnl(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::F32:
      return Type::f32;
    case DType::F16:
      return Type::f16;
    case DType::BF16:
      return Type::bf16;
    case DType::I32:
      return Type::s32;
    case DType::I8:
      return Type::s8;
    case DType::U8:
    case DType::Bool:
      return Type::u8;
    case DType::I64:
      break;
  }
  throw Error(fmt::format("oneDNN has no element type {}", name_of(dtype)));
}

dnnl::memory::dims to_dnnl(const Dims& dims) { return {dims.begin(), dims.end()}; }

dnnl::memory::desc plain_desc(DType dtype, const Dims& dims) {
  dnnl::memory::dims strides(static_cast<size_t>(dims.rank()));
  int64_t stride = 1;
  for (int i = dims.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= dims[i];
  }
  return {to_dnnl(dims), to_dnnl(dtype), strides};
}

dnnl::memory::desc any_desc(DType dtype, const Dims& dims) {
  return {to_dnnl(dims), to_dnnl(dtype), dnnl::memory::format_tag::any};
}

Bytes Layout::bytes(DType dtype, const Dims& dims) const {
  return desc_ ? static_cast<Bytes>(desc_->get_size()) : element_count(dims) * size_of(dtype);
}

bool Layout::is_padded(DType dtype, const Dims& dims) const {
  return bytes(dtype, dims) != element_count(dims) * size_of(dtype);
}

DnnlDesc Layout::desc(DType dtype, const Dims& dims) const {
  return desc_ ? *desc_ : DnnlDesc(plain_desc(dtype, dims));
}

DnnlDesc Layout::desc_beside(const Layout& other, DType dtype, const Dims& dims) const {
  if (desc_ || !other.desc_) return desc(dtype, dims);
  return plain_desc(dtype, Dims::from(other.desc_->dims()));
}

Layout Layout::retyped(DType from, DType to, const Dims& dims) const {
  if (is_plain() || from == to) return *this;
  dnnl::memory::desc other = desc(from, dims);
  other.data.data_type = static_cast<dnnl_data_type_t>(to_dnnl(to));
  return Layout(other);
}

Layout Layout::with_samples(int64_t samples) const {
  if (is_plain() || desc_->data.format_kind != dnnl_blocked) return *this;
  dnnl::memory::desc other = *desc_;
  const dnnl_blocking_desc_t& blocking = other.data.format_desc.blocking;
  const auto* const end = blocking.inner_idxs + blocking.inner_nblks;
  const auto* const outermost = std::max_element(blocking.strides, blocking.strides + other.data.ndims);
  if (std::find(blocking.inner_idxs, end, 0) != end || outermost != blocking.strides) return *this;
  other.data.dims[0] = other.data.padded_dims[0] = samples;
  return Layout(other);
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.desc_ == b.desc_) return true;
  return a.desc_ && b.desc_ && *a.desc_ == *b.desc_;
}

std::string to_string(const Layout& layout) {
  if (layout.is_plain()) return "plain";
  const dnnl_memory_desc_t md = layout.desc(DType::F32, {}).data;
  if (md.format_kind != dnnl_blocked) return "opaque";
  // Dimensions from the outermost to the innermost, upper case where blocked, then the blocks.
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  int order[DNNL_MAX_NDIMS];
  for (int i = 0; i < md.ndims; ++i) order[i] = i;
  std::stable_sort(order, order + md.ndims, [&](int a, int b) { return blocking.strides[a] > blocking.strides[b]; });
  std::string text;
  for (int i = 0; i < md.ndims; ++i) {
    const auto* const end = blocking.inner_idxs + blocking.inner_nblks;
    const bool blocked = std::find(blocking.inner_idxs, end, order[i]) != end;
    text += static_cast<char>((blocked ? 'A' : 'a') + order[i]);
  }
  for (int i = 0; i < blocking.inner_nblks; ++i)
    text += fmt::format("{}{}", blocking.inner_blks[i], static_cast<char>('a' + blocking.inner_idxs[i]));
  return text;
}

}  // namespace plimsoll::kernels

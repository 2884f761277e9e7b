#include "kernels/image_order.h"

#include "kernels/dnnl_layout.h"

namespace plimsoll::kernels {
namespace {

dnnl::memory::desc blocked(DType dtype, const Dims& dims, int64_t block) {
  using FormatTag = dnnl::memory::format_tag;
  return {to_dnnl(dims), to_dnnl(dtype), block == 8 ? FormatTag::nChw8c : FormatTag::nChw16c};
}

}  // namespace

ImageOrder::ImageOrder(const Dims& dims, int64_t block)
    : samples_(dims[0]), channels_(dims[1]), pixels_(1), block_(block) {
  for (int i = 2; i < dims.rank(); ++i) pixels_ *= dims[i];
}

ImageOrder::ImageOrder(const Layout& layout, const Dims& dims) : samples_(dims[0]), channels_(dims[1]), pixels_(1) {
  for (int i = 2; i < dims.rank(); ++i) pixels_ *= dims[i];
  if (layout.is_plain()) {
    block_ = 1;
    return;
  }
  if (dims.rank() != 4) return;
  for (const int64_t block : {8, 16}) {
    // The type of the elements is part of the description.
    const dnnl::memory::desc desc = layout.desc(DType::F32, dims);
    const DType dtype = desc.data_type() == dnnl::memory::data_type::u8    ? DType::U8
                        : desc.data_type() == dnnl::memory::data_type::s32 ? DType::I32
                                                                           : DType::F32;
    if (Layout(blocked(dtype, dims, block)) == layout) block_ = block;
  }
}

Layout ImageOrder::layout(DType dtype, const Dims& dims) const { return Layout(desc(dtype, dims)); }

DnnlDesc ImageOrder::desc(DType dtype, const Dims& dims) const {
  return block_ > 1 ? blocked(dtype, dims, block_) : plain_desc(dtype, dims);
}

ImageOrder blocked_if_free(const ImageOrder& order, const Dims& dims) {
  const int64_t block = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core ? 16 : 8;
  if (order.block() != 1 || order.pixels() != 1 || order.channels() % block != 0) return order;
  return ImageOrder(dims, block);
}

ImageOrder order_or_plain(const ConcreteType& type) {
  const ImageOrder order(type.layout, type.dims);
  return order.is_known() ? order : ImageOrder(Layout(), type.dims);
}

}  // namespace plimsoll::kernels

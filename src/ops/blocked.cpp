#include "ops/blocked.h"

namespace plimsoll {
namespace {

dnnl::memory::desc blocked_desc(DType dtype, const Dims& dims, int64_t block) {
  using Tag = dnnl::memory::format_tag;
  const bool is_volume = dims.rank() == 5;
  const Tag tag = block == 8 ? (is_volume ? Tag::nCdhw8c : Tag::nChw8c) : (is_volume ? Tag::nCdhw16c : Tag::nChw16c);
  return {to_dnnl(dims), to_dnnl(dtype), tag};
}

}  // namespace

int64_t channel_block(const ConcreteType& type) {
  if (type.layout.is_plain() || type.dtype == DType::I64) return 0;
  if (type.dims.rank() != 4 && type.dims.rank() != 5) return 0;
  const dnnl::memory::desc desc = type.layout.desc(type.dtype, type.dims);
  for (const int64_t block : {8, 16})
    if (type.dims[1] % block == 0 && desc == blocked_desc(type.dtype, type.dims, block)) return block;
  return 0;
}

Layout channel_blocked(DType dtype, const Dims& dims, int64_t block) {
  return Layout(blocked_desc(dtype, dims, block));
}

}  // namespace plimsoll

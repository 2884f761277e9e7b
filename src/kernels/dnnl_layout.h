// Layouts in oneDNN's words. Apart from layout.h, so that operators without a primitive do not read oneDNN's header.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/layout.h"

namespace plimsoll::kernels {

// dnnl::memory::desc itself can not be declared without its header.
struct DnnlDesc : dnnl::memory::desc {
  DnnlDesc(const dnnl::memory::desc& from) : dnnl::memory::desc(from) {}
};

dnnl::memory::data_type to_dnnl(DType dtype);
dnnl::memory::dims to_dnnl(const Dims& dims);
// Row-major, or any order that the primitive likes best.
dnnl::memory::desc plain_desc(DType dtype, const Dims& dims);
dnnl::memory::desc any_desc(DType dtype, const Dims& dims);

}  // namespace plimsoll::kernels

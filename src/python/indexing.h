// tensor[...] as NumPy writes it.
#pragma once

#include <nanobind/nanobind.h>

#include <plimsoll/tensor.h>

namespace plimsoll::python {

void bind_indexing(nanobind::class_<Tensor>& tensor);

}  // namespace plimsoll::python

// Numbers that Python holds: NumPy arrays, anything with a buffer or __dlpack__, lists and single numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>
#include "python/types.h"

namespace plimsoll::python {

// Element types of arrays that tensors do not have; they become the tensor type beside them.
enum class Foreign : uint8_t {
  None,
  F64,  // f32
  I16,  // i32
  U16,  // i32
  U32,  // i64
  U64,  // i64
};

// Memory that Python owns, row-major. `owner` keeps it, and may be let go without the interpreter lock.
struct HostArray {
  DType dtype = DType::F32;  // of the tensor that it becomes
  Foreign foreign = Foreign::None;
  Dims dims = {};
  const void* data = nullptr;
  Bytes bytes = 0;  // as it lies there
  std::shared_ptr<const void> owner = {};

  int64_t count() const { return element_count(dims); }
  Bytes element_bytes() const;  // as they lie there
};

// Writes `count` numbers as the tensor type that `foreign` becomes.
void convert_foreign(Foreign foreign, const void* from, void* into, int64_t count);

// A view of what is given; copies only what is not row-major, or is a list. Throws TypeError for what holds no numbers.
HostArray array_of(nb::handle given, const ArgumentPlace& at, std::optional<DType> wanted = {});
bool is_number(nb::handle given);  // bool, int, float, or a NumPy scalar

// Keeps a Python object; may be let go by any thread.
std::shared_ptr<const void> keep(nb::object object);

// An uninitialised NumPy array, and where its numbers are. bf16 has no NumPy type: f32 then.
struct NumpyArray {
  nb::object array;
  void* data;
};
NumpyArray make_numpy(DType dtype, const Dims& dims);

}  // namespace plimsoll::python

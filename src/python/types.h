// What Python programs write for the small types of the engine, and back: 32 or (3, 5) for a size, "float32" for a
// type.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

#include <plimsoll/graph.h>
#include <plimsoll/layers.h>
#include <plimsoll/tensor.h>
#include <plimsoll/types.h>

namespace plimsoll::python {

namespace nb = nanobind;

struct PyDType {
  DType value;
};

// nanobind keeps pointers to texts such as signatures: this one stays.
const char* kept(std::string text);

std::string_view numpy_name(DType dtype);  // "float32"
std::optional<DType> find_dtype(std::string_view name);
// The one object of a type: plimsoll.float32.
nb::object to_python(DType dtype);
nb::tuple to_python(const Dims& dims);
nb::tuple to_python(const Shape& shape);  // None for the batch

// What stands in a call, and for which argument: for messages.
struct ArgumentPlace {
  const char* function;
  const char* argument;
};
[[noreturn]] void refuse_argument(const ArgumentPlace& at, std::string_view wanted, nb::handle given);

bool is_true(nb::handle given, const ArgumentPlace& at);
int64_t to_int(nb::handle given, const ArgumentPlace& at);
double to_double(nb::handle given, const ArgumentPlace& at);
std::string to_text(nb::handle given, const ArgumentPlace& at);
DType to_dtype(nb::handle given, const ArgumentPlace& at);
Dims to_dims(nb::handle given, const ArgumentPlace& at);  // one number is one size
Shape to_shape(nb::handle given, const ArgumentPlace& at);
Size2d to_size(nb::handle given, const ArgumentPlace& at);
Window to_window(nb::handle given, const ArgumentPlace& at);
layers::Padding to_padding(nb::handle given, const ArgumentPlace& at);
Init to_init(nb::handle given, const ArgumentPlace& at);
Bytes to_bytes(nb::handle given, const ArgumentPlace& at);  // "64MiB" or a number

}  // namespace plimsoll::python

#include "python/arrays.h"

#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <plimsoll/error.h>

namespace plimsoll::python {
namespace {

struct ElementKind {
  DType dtype;
  Foreign foreign;
};

std::optional<ElementKind> kind_of(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return std::nullopt;
  const auto code = static_cast<Code>(type.code);
  if (code == Code::Float && type.bits == 32) return ElementKind{DType::F32, Foreign::None};
  if (code == Code::Float && type.bits == 16) return ElementKind{DType::F16, Foreign::None};
  if (code == Code::Float && type.bits == 64) return ElementKind{DType::F32, Foreign::F64};
  if (code == Code::Bfloat && type.bits == 16) return ElementKind{DType::BF16, Foreign::None};
  if (code == Code::Bool && type.bits == 8) return ElementKind{DType::Bool, Foreign::None};
  if (code == Code::Int) {
    if (type.bits == 8) return ElementKind{DType::I8, Foreign::None};
    if (type.bits == 16) return ElementKind{DType::I32, Foreign::I16};
    if (type.bits == 32) return ElementKind{DType::I32, Foreign::None};
    if (type.bits == 64) return ElementKind{DType::I64, Foreign::None};
  }
  if (code == Code::UInt) {
    if (type.bits == 8) return ElementKind{DType::U8, Foreign::None};
    if (type.bits == 16) return ElementKind{DType::I32, Foreign::U16};
    if (type.bits == 32) return ElementKind{DType::I64, Foreign::U32};
    if (type.bits == 64) return ElementKind{DType::I64, Foreign::U64};
  }
  return std::nullopt;
}

// Of the struct module's letters, in the byte order of this machine.
std::optional<ElementKind> kind_of(std::string_view format, Bytes size) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  switch (format[0]) {
    case 'f':
      return ElementKind{DType::F32, Foreign::None};
    case 'd':
      return ElementKind{DType::F32, Foreign::F64};
    case 'e':
      return ElementKind{DType::F16, Foreign::None};
    case '?':
      return ElementKind{DType::Bool, Foreign::None};
    case 'b':
      return ElementKind{DType::I8, Foreign::None};
    case 'B':
      return ElementKind{DType::U8, Foreign::None};
    case 'h':
      return ElementKind{DType::I32, Foreign::I16};
    case 'H':
      return ElementKind{DType::I32, Foreign::U16};
    case 'i':
    case 'l':
    case 'q':
      return size == 4 ? ElementKind{DType::I32, Foreign::None} : ElementKind{DType::I64, Foreign::None};
    case 'I':
    case 'L':
    case 'Q':
      return size == 4 ? ElementKind{DType::I64, Foreign::U32} : ElementKind{DType::I64, Foreign::U64};
    default:
      return std::nullopt;
  }
}

struct HeldBuffer {
  Py_buffer buffer{};
  HeldBuffer() = default;
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  ~HeldBuffer() {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire lock;
    PyBuffer_Release(&buffer);
  }
};

// Memory of C++, for numbers that were in a list or lay in another order.
template <class T>
HostArray own(DType dtype, const Dims& dims, std::vector<T> numbers) {
  const auto kept = std::make_shared<std::vector<T>>(std::move(numbers));
  return {dtype, Foreign::None, dims, kept->data(), static_cast<Bytes>(kept->size() * sizeof(T)), kept};
}

[[noreturn]] void refuse_array(nb::handle given, const ArgumentPlace& at) {
  refuse_argument(at, "numbers: an array of floats, integers or bool, a list of numbers, or a number", given);
}

std::optional<HostArray> from_buffer(nb::handle given, const ArgumentPlace& at) {
  if (PyObject_CheckBuffer(given.ptr()) == 0 || PyUnicode_Check(given.ptr())) return std::nullopt;
  auto held = std::make_shared<HeldBuffer>();
  if (PyObject_GetBuffer(given.ptr(), &held->buffer, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Py_buffer& buffer = held->buffer;
  const auto kind = kind_of(buffer.format == nullptr ? "B" : buffer.format, buffer.itemsize);
  if (!kind) refuse_array(given, at);
  if (buffer.ndim > kMaxRank)
    throw Error(fmt::format("{}: {} has {} dimensions; at most {} are possible", at.function, at.argument, buffer.ndim,
                            kMaxRank));
  HostArray array{kind->dtype, kind->foreign, {}, buffer.buf, buffer.len, nullptr};
  for (int i = 0; i < buffer.ndim; ++i) array.dims.push_back(buffer.shape[i]);
  if (PyBuffer_IsContiguous(&buffer, 'C') == 0) {
    auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(buffer.len));
    if (PyBuffer_ToContiguous(copy->data(), &held->buffer, buffer.len, 'C') != 0) throw nb::python_error();
    array.data = copy->data();
    array.owner = copy;
  } else {
    array.owner = held;
  }
  return array;
}

std::optional<HostArray> from_dlpack(nb::handle given, const ArgumentPlace& at) {
  if (!nb::hasattr(given, "__dlpack__")) return std::nullopt;
  using View = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;
  View view;
  if (!nb::try_cast<View>(given, view)) return std::nullopt;
  const auto kind = kind_of(view.dtype());
  if (!kind) refuse_array(given, at);
  HostArray array{kind->dtype, kind->foreign, {}, view.data(), static_cast<Bytes>(view.nbytes()), nullptr};
  for (size_t i = 0; i < view.ndim(); ++i) array.dims.push_back(static_cast<int64_t>(view.shape(i)));
  array.owner = keep(nb::cast(view));
  return array;
}

// Lists of lists of numbers.
struct Flattened {
  std::vector<nb::object> numbers;
  Dims dims;
  bool has_floats = false, has_integers = false;
};

void flatten(nb::handle given, int depth, Flattened& into, const ArgumentPlace& at) {
  if (is_number(given)) {
    if (depth != into.dims.rank()) refuse_array(given, at);
    into.has_floats |= PyFloat_Check(given.ptr()) || !PyIndex_Check(given.ptr());
    into.has_integers |= !PyBool_Check(given.ptr());
    into.numbers.push_back(nb::borrow(given));
    return;
  }
  if (PyUnicode_Check(given.ptr()) || !PySequence_Check(given.ptr())) refuse_array(given, at);
  const auto size = static_cast<int64_t>(nb::len(given));
  if (depth == into.dims.rank() && into.numbers.empty()) into.dims.push_back(size);
  if (depth >= into.dims.rank() || into.dims[depth] != size)
    throw Error(fmt::format("{}: {} is a list of lists of different lengths", at.function, at.argument));
  for (nb::handle item : given) flatten(item, depth + 1, into, at);
}

HostArray from_list(nb::handle given, const ArgumentPlace& at, std::optional<DType> wanted) {
  Flattened flat;
  flatten(given, 0, flat, at);
  if (flat.has_floats || (wanted && is_float(*wanted))) {
    std::vector<float> numbers;
    for (const nb::object& number : flat.numbers) numbers.push_back(static_cast<float>(to_double(number, at)));
    return own(DType::F32, flat.dims, std::move(numbers));
  }
  if (!flat.has_integers && !flat.numbers.empty()) {
    std::vector<uint8_t> numbers;
    for (const nb::object& number : flat.numbers) numbers.push_back(is_true(number, at) ? 1 : 0);
    return own(DType::Bool, flat.dims, std::move(numbers));
  }
  if (wanted == DType::I64) {
    std::vector<int64_t> numbers;
    for (const nb::object& number : flat.numbers) numbers.push_back(to_int(number, at));
    return own(DType::I64, flat.dims, std::move(numbers));
  }
  std::vector<int32_t> numbers;
  for (const nb::object& number : flat.numbers) {
    const int64_t whole = to_int(number, at);
    if (whole != static_cast<int32_t>(whole)) return from_list(given, at, DType::I64);
    numbers.push_back(static_cast<int32_t>(whole));
  }
  return own(DType::I32, flat.dims, std::move(numbers));
}

template <class From, class To>
void convert(const void* from, void* into, int64_t count) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<To*>(into);
  for (int64_t i = 0; i < count; ++i) {
    From number;
    std::memcpy(&number, source + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    target[i] = static_cast<To>(number);
  }
}

}  // namespace

Bytes HostArray::element_bytes() const {
  switch (foreign) {
    case Foreign::None:
      return size_of(dtype);
    case Foreign::F64:
    case Foreign::U64:
      return 8;
    case Foreign::U32:
      return 4;
    case Foreign::I16:
    case Foreign::U16:
      return 2;
  }
  return 0;
}

void convert_foreign(Foreign foreign, const void* from, void* into, int64_t count) {
  switch (foreign) {
    case Foreign::None:
      return;
    case Foreign::F64:
      return convert<double, float>(from, into, count);
    case Foreign::I16:
      return convert<int16_t, int32_t>(from, into, count);
    case Foreign::U16:
      return convert<uint16_t, int32_t>(from, into, count);
    case Foreign::U32:
      return convert<uint32_t, int64_t>(from, into, count);
    case Foreign::U64:
      return convert<uint64_t, int64_t>(from, into, count);
  }
}

bool is_number(nb::handle given) {
  if (PyFloat_Check(given.ptr()) || PyLong_Check(given.ptr()) || PyBool_Check(given.ptr())) return true;
  if (PySequence_Check(given.ptr()) && !nb::hasattr(given, "dtype")) return false;
  // NumPy scalars, and arrays without dimensions.
  return nb::hasattr(given, "dtype") && nb::hasattr(given, "ndim") && !nb::hasattr(given, "__dlpack__") &&
         (PyIndex_Check(given.ptr()) || PyNumber_Check(given.ptr()));
}

HostArray array_of(nb::handle given, const ArgumentPlace& at, std::optional<DType> wanted) {
  if (PyFloat_Check(given.ptr()) || PyLong_Check(given.ptr()) || PyList_Check(given.ptr()) ||
      PyTuple_Check(given.ptr())) {
    // A list of arrays: each is a part.
    const bool holds_arrays = (PyList_Check(given.ptr()) || PyTuple_Check(given.ptr())) && nb::len(given) > 0 &&
                              nb::hasattr(given[0], "__array__") && !is_number(given[0]);
    if (!holds_arrays) return from_list(given, at, wanted);
    return array_of(nb::module_::import_("numpy").attr("stack")(given), at, wanted);
  }
  if (auto array = from_buffer(given, at)) return *array;
  if (auto array = from_dlpack(given, at)) return *array;
  if (nb::hasattr(given, "__array__")) {
    const nb::object array = nb::module_::import_("numpy").attr("asarray")(given);
    if (auto found = from_buffer(array, at)) return *found;
  }
  return from_list(given, at, wanted);
}

std::shared_ptr<const void> keep(nb::object object) {
  struct KeptObject {
    nb::object object;
    explicit KeptObject(nb::object of) : object(std::move(of)) {}
    KeptObject(const KeptObject&) = delete;
    KeptObject& operator=(const KeptObject&) = delete;
    ~KeptObject() {
      if (!nb::is_alive()) {
        object.release();
        return;
      }
      const nb::gil_scoped_acquire lock;
      object.reset();
    }
  };
  return std::make_shared<KeptObject>(std::move(object));
}

NumpyArray make_numpy(DType dtype, const Dims& dims) {
  const DType shown = dtype == DType::BF16 ? DType::F32 : dtype;
  const nb::object array =
      nb::module_::import_("numpy").attr("empty")(to_python(dims), nb::str(numpy_name(shown).data()));
  return {array, reinterpret_cast<void*>(nb::cast<size_t>(array.attr("ctypes").attr("data")))};
}

}  // namespace plimsoll::python

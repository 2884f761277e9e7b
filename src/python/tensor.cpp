#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/indexing.h"
#include "python/operands.h"
#include "python/place.h"
#include "python/types.h"

namespace plimsoll::python {
namespace {

// Numbers of a tensor, written into memory of the caller. Half floats are read as f32.
void copy_numbers(const Tensor& tensor, DType dtype, void* into, int64_t count) {
  const nb::gil_scoped_release release;
  const auto n = static_cast<size_t>(count);
  switch (dtype) {
    case DType::F32:
      return tensor.copy_to(std::span(static_cast<float*>(into), n));
    case DType::I32:
      return tensor.copy_to(std::span(static_cast<int32_t*>(into), n));
    case DType::I64:
      return tensor.copy_to(std::span(static_cast<int64_t*>(into), n));
    case DType::U8:
      return tensor.copy_to(std::span(static_cast<uint8_t*>(into), n));
    case DType::I8:
      return tensor.copy_to(std::span(static_cast<int8_t*>(into), n));
    case DType::Bool:
      return tensor.copy_to(std::span(static_cast<bool*>(into), n));
    case DType::F16:
    case DType::BF16:
      return cast(tensor, DType::F32).copy_to(std::span(static_cast<float*>(into), n));
  }
}

DType read_as(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

void expect_eager(const Tensor& tensor, std::string_view what) {
  if (tensor.is_eager()) return;
  throw Error(fmt::format("{}: {} is a tensor of a graph and has no numbers; use a Session, or eager code", what,
                          to_string(tensor)),
              ErrorKind::Usage);
}

nb::object to_numpy(const Tensor& tensor) {
  expect_eager(tensor, "numpy");
  const Dims dims = at_batch(tensor.shape(), 1);
  const NumpyArray made = make_numpy(read_as(tensor.dtype()), dims);
  copy_numbers(tensor, tensor.dtype(), made.data, element_count(dims));
  if (tensor.dtype() == DType::F16) return made.array.attr("astype")("float16");
  return made.array;
}

nb::object to_dlpack(const Tensor& tensor, nb::handle options) {
  expect_eager(tensor, "__dlpack__");
  if (tensor.dtype() == DType::F16 || tensor.dtype() == DType::BF16)
    throw Error("__dlpack__: a tensor of half floats is exported as float32: call cast(tensor, 'float32') first",
                ErrorKind::Usage);
  const Dims dims = at_batch(tensor.shape(), 1);
  const int64_t count = element_count(dims);
  auto* numbers = new std::byte[static_cast<size_t>(count * size_of(tensor.dtype()))];
  const nb::capsule owner(numbers, [](void* held) noexcept { delete[] static_cast<std::byte*>(held); });
  copy_numbers(tensor, tensor.dtype(), numbers, count);
  std::array<size_t, kMaxRank> shape{};
  for (int i = 0; i < dims.rank(); ++i) shape[static_cast<size_t>(i)] = static_cast<size_t>(dims[i]);
  using Code = nb::dlpack::dtype_code;
  const Code code = tensor.dtype() == DType::F32    ? Code::Float
                    : tensor.dtype() == DType::Bool ? Code::Bool
                    : tensor.dtype() == DType::U8   ? Code::UInt
                                                    : Code::Int;
  const nb::dlpack::dtype type{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * size_of(tensor.dtype())), 1};
  const nb::ndarray<nb::array_api> array(numbers, static_cast<size_t>(dims.rank()), shape.data(), owner, nullptr, type);
  return nb::cast(array).attr("__dlpack__")(**nb::borrow<nb::kwargs>(options));
}

// Lists within lists.
nb::object to_list(const void* numbers, DType dtype, const Dims& dims, int axis, int64_t& at) {
  if (axis == dims.rank()) {
    const int64_t i = at++;
    switch (dtype) {
      case DType::F32:
        return nb::float_(static_cast<double>(static_cast<const float*>(numbers)[i]));
      case DType::I32:
        return nb::int_(static_cast<const int32_t*>(numbers)[i]);
      case DType::I64:
        return nb::int_(static_cast<const int64_t*>(numbers)[i]);
      case DType::U8:
        return nb::int_(static_cast<const uint8_t*>(numbers)[i]);
      case DType::I8:
        return nb::int_(static_cast<const int8_t*>(numbers)[i]);
      default:
        return nb::bool_(static_cast<const bool*>(numbers)[i]);
    }
  }
  nb::list list;
  for (int64_t i = 0; i < dims[axis]; ++i) list.append(to_list(numbers, dtype, dims, axis + 1, at));
  return list;
}

nb::object to_list(const Tensor& tensor) {
  expect_eager(tensor, "tolist");
  const Dims dims = at_batch(tensor.shape(), 1);
  const int64_t count = element_count(dims);
  std::vector<std::byte> numbers(static_cast<size_t>(count * size_of(read_as(tensor.dtype()))));
  copy_numbers(tensor, tensor.dtype(), numbers.data(), count);
  int64_t at = 0;
  return to_list(numbers.data(), read_as(tensor.dtype()), dims, 0, at);
}

nb::object item(const Tensor& tensor) {
  expect_eager(tensor, "item");
  if (element_count(at_batch(tensor.shape(), 1)) != 1)
    throw Error(fmt::format("item: {} has more than one element", to_string(tensor.type())), ErrorKind::Usage);
  std::array<std::byte, 8> number{};
  copy_numbers(tensor, tensor.dtype(), number.data(), 1);
  int64_t at = 0;
  return to_list(number.data(), read_as(tensor.dtype()), {}, 0, at);
}

int64_t length(const Tensor& tensor) {
  if (tensor.rank() == 0) throw nb::type_error("len() of a tensor without dimensions");
  const Dim first = tensor.dim(0);
  if (first.is_batch()) throw nb::type_error("len() of a tensor whose first size is the batch");
  return first.count();
}

std::string shown(const Tensor& tensor) {
  if (!tensor.is_set()) return "<plimsoll.Tensor, unset>";
  const std::string text = [&] {
    const nb::gil_scoped_release release;
    return to_string(tensor);
  }();
  return fmt::format("<plimsoll.Tensor {}>", text);
}

// plimsoll.ops.NAME(a, b): so operands, places and functional models are handled in one place.
nb::object call_op(const char* name, nb::handle a, nb::handle b) {
  static const nb::object* const list = new nb::object(nb::module_::import_("plimsoll._plimsoll").attr("ops"));
  return list->attr(name)(a, b);
}
nb::object call_op(const char* name, nb::handle a) {
  static const nb::object* const list = new nb::object(nb::module_::import_("plimsoll._plimsoll").attr("ops"));
  return list->attr(name)(a);
}

bool can_be_operand(nb::handle other) {
  return nb::isinstance<Tensor>(other) || is_number(other) || nb::hasattr(other, "__array__") ||
         nb::hasattr(other, "__dlpack__") || PyList_Check(other.ptr()) || PyTuple_Check(other.ptr());
}

struct BinaryOperator {
  const char* method;
  const char* op;
  bool swaps;
};
constexpr BinaryOperator kBinary[] = {
    {"__add__", "add", false},       {"__radd__", "add", true},         {"__sub__", "sub", false},
    {"__rsub__", "sub", true},       {"__mul__", "mul", false},         {"__rmul__", "mul", true},
    {"__truediv__", "div", false},   {"__rtruediv__", "div", true},     {"__pow__", "pow", false},
    {"__rpow__", "pow", true},       {"__mod__", "mod", false},         {"__rmod__", "mod", true},
    {"__matmul__", "matmul", false}, {"__rmatmul__", "matmul", true},   {"__lt__", "less", false},
    {"__le__", "less_equal", false}, {"__gt__", "greater", false},      {"__ge__", "greater_equal", false},
    {"__eq__", "equal", false},      {"__ne__", "not_equal", false},    {"__and__", "logical_and", false},
    {"__or__", "logical_or", false}, {"__xor__", "logical_xor", false},
};

// x + 2 and the like as one operator, where the number changes no type. None: the other operand is another.
std::optional<Tensor> with_number(std::string_view op, const Tensor& x, nb::handle number, bool swaps) {
  const bool is_whole = PyLong_Check(number.ptr()) != 0;
  if (PyBool_Check(number.ptr()) || (!is_whole && !PyFloat_Check(number.ptr()))) return std::nullopt;
  if (!is_float(x.dtype()) && (!is_whole || op == "div")) return std::nullopt;
  const double n = PyFloat_AsDouble(number.ptr());
  if (n == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  const Operand operand(x, place());
  const nb::gil_scoped_release release;
  if (op == "add") return operand + n;
  if (op == "sub") return swaps ? n - operand : operand - n;
  if (op == "mul") return operand * n;
  if (op == "div") return swaps ? n / operand : operand / n;
  return std::nullopt;
}

// Integers divided by / are cast to f32 first, as in NumPy and TensorFlow.
nb::object true_divide(nb::handle a, nb::handle b) {
  const auto is_whole = [](nb::handle one) {
    return nb::isinstance<Tensor>(one) ? !is_float(nb::inst_ptr<Tensor>(one)->dtype())
                                       : PyLong_Check(one.ptr()) || PyBool_Check(one.ptr());
  };
  if (!is_whole(a) || !is_whole(b)) return call_op("div", a, b);
  const nb::object f32 = to_python(DType::F32);
  return call_op("div", nb::isinstance<Tensor>(a) ? call_op("cast", a, f32) : nb::borrow(a),
                 nb::isinstance<Tensor>(b) ? call_op("cast", b, f32) : nb::borrow(b));
}

void bind_operators(nb::class_<Tensor>& tensor) {
  for (const BinaryOperator& one : kBinary) {
    const bool divides = std::string_view(one.op) == "div";
    const bool compares_all = std::string_view(one.method) == "__eq__" || std::string_view(one.method) == "__ne__";
    tensor.def(
        one.method,
        [one, divides, compares_all](nb::handle self, nb::handle other) -> nb::object {
          if (!can_be_operand(other)) {
            if (compares_all) return nb::bool_(one.op[0] == 'n');
            return nb::borrow(Py_NotImplemented);
          }
          if (!nb::isinstance<Symbol>(self))
            if (const auto made = with_number(one.op, *nb::inst_ptr<Tensor>(self), other, one.swaps))
              return nb::cast(*made);
          const nb::handle a = one.swaps ? other : self, b = one.swaps ? self : other;
          return divides ? true_divide(a, b) : call_op(one.op, a, b);
        },
        nb::arg("other").none(),
        nb::sig(kept(
            fmt::format("def {}(self, other: {}, /) -> Tensor", one.method, compares_all ? "object" : "TensorLike"))));
  }
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor> tensor(
      module, "Tensor",
      "A value: of eager code, where it has numbers, or of a graph being built. Operators make others "
      "of it; it does not change.");
  bind_operators(tensor);
  bind_indexing(tensor);
  tensor
      .def(
          "__neg__", [](nb::handle x) { return call_op("neg", x); }, nb::sig("def __neg__(self) -> Tensor"))
      .def(
          "__pos__", [](nb::handle x) { return nb::borrow(x); }, nb::sig("def __pos__(self) -> Tensor"))
      .def(
          "__abs__", [](nb::handle x) { return call_op("abs", x); }, nb::sig("def __abs__(self) -> Tensor"))
      .def(
          "__invert__", [](nb::handle x) { return call_op("logical_not", x); },
          nb::sig("def __invert__(self) -> Tensor"))
      .def(
          "__floordiv__", [](nb::handle a, nb::handle b) { return call_op("floor", call_op("div", a, b)); },
          nb::sig("def __floordiv__(self, other: TensorLike, /) -> Tensor"))
      .def(
          "__rfloordiv__", [](nb::handle a, nb::handle b) { return call_op("floor", call_op("div", b, a)); },
          nb::sig("def __rfloordiv__(self, other: TensorLike, /) -> Tensor"))
      .def_prop_ro(
          "shape", [](const Tensor& x) { return to_python(x.shape()); }, nb::sig("def shape(self) -> tuple[int, ...]"),
          "Its sizes; None stands for the batch.")
      .def_prop_ro(
          "dtype", [](const Tensor& x) { return to_python(x.dtype()); }, nb::sig("def dtype(self) -> DType"),
          "The type of its elements.")
      .def_prop_ro("ndim", &Tensor::rank, "How many dimensions it has.")
      .def_prop_ro(
          "size",
          [](const Tensor& x) -> nb::object {
            const Dim all = element_count(x.shape());
            return all.is_batch() ? nb::none() : nb::object(nb::int_(all.count()));
          },
          nb::sig("def size(self) -> int"), "How many elements it has.")
      .def_prop_ro(
          "name", [](const Tensor& x) { return std::string(x.name()); }, "The name of what made it.")
      .def_prop_ro("is_eager", &Tensor::is_eager, "Whether it has numbers.")
      .def_prop_ro(
          "T",
          [](nb::handle x) {
            nb::list order;
            for (int i = nb::inst_ptr<Tensor>(x)->rank(); i-- > 0;) order.append(i);
            return call_op("transpose", x, order);
          },
          nb::sig("def T(self) -> Tensor"), "With its dimensions in the opposite order.")
      .def("numpy", to_numpy, nb::sig("def numpy(self) -> NDArray[Any]"),
           "Its numbers as a NumPy array of their own: what is still to be computed is computed now. bfloat16 gives "
           "float32.")
      .def(
          "__array__",
          [](const Tensor& x, nb::handle dtype, nb::handle) {
            const nb::object array = to_numpy(x);
            return dtype.is_none() ? array : array.attr("astype")(dtype);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[Any]"))
      .def(
          "__dlpack__", [](const Tensor& x, nb::kwargs options) { return to_dlpack(x, options); },
          nb::sig("def __dlpack__(self, **options: object) -> object"), "A copy of its numbers, for other libraries.")
      .def(
          "__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("item", item, nb::sig("def item(self) -> float"), "Its only element as a Python number.")
      .def(
          "tolist", [](const Tensor& x) { return to_list(x); }, nb::sig("def tolist(self) -> Any"),
          "Its elements as lists within lists.")
      .def(
          "astype", [](nb::handle x, nb::handle dtype) { return call_op("cast", x, dtype); }, nb::arg("dtype"),
          nb::sig("def astype(self, dtype: DTypeLike) -> Tensor"), "The same numbers as another element type.")
      .def(
          "reshape",
          [](nb::handle x, nb::args sizes) {
            const bool is_one = nb::len(sizes) == 1 && !PyLong_Check(nb::handle(sizes[0]).ptr());
            return call_op("reshape", x, is_one ? nb::object(sizes[0]) : nb::object(nb::list(sizes)));
          },
          nb::sig("def reshape(self, *shape: Any) -> Tensor"), "The same elements under another shape; -1: all others.")
      .def(
          "assign",
          [](const Tensor& x, nb::handle value) {
            x.assign(tensor_of(value, {"assign", "value"}, x.dtype()));
          },
          nb::arg("value"), nb::sig("def assign(self, value: TensorLike) -> None"),
          "An eager variable takes a value of its shape, or one number for all elements.")
      .def(
          "assign_add",
          [](const Tensor& x, nb::handle value) {
            x.assign_add(tensor_of(value, {"assign_add", "value"}, x.dtype()));
          },
          nb::arg("value"), nb::sig("def assign_add(self, value: TensorLike) -> None"), "Adds to an eager variable.")
      .def(
          "assign_sub",
          [](const Tensor& x, nb::handle value) {
            x.assign_sub(tensor_of(value, {"assign_sub", "value"}, x.dtype()));
          },
          nb::arg("value"), nb::sig("def assign_sub(self, value: TensorLike) -> None"),
          "Subtracts from an eager variable.")
      .def(
          "is_same", [](const Tensor& a, const Tensor& b) { return a == b; }, nb::arg("other"),
          "Whether both are handles of one value. == compares element by element.")
      .def(
          "__float__", [](const Tensor& x) { return nb::float_(item(x)); }, nb::sig("def __float__(self) -> float"))
      .def(
          "__int__", [](const Tensor& x) { return nb::int_(item(x)); }, nb::sig("def __int__(self) -> int"))
      .def("__bool__", [](const Tensor& x) { return nb::cast<bool>(nb::bool_(item(x))); })
      .def(
          "__index__",
          [](const Tensor& x) {
            if (is_float(x.dtype())) throw nb::type_error("a tensor of floats is no index");
            return nb::int_(item(x));
          },
          nb::sig("def __index__(self) -> int"))
      .def("__len__", length)
      .def(
          "__iter__",
          [](nb::handle x) {
            nb::list rows;
            const int64_t count = length(*nb::inst_ptr<Tensor>(x));
            for (int64_t i = 0; i < count; ++i) rows.append(x[nb::int_(i)]);
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> Iterator[Tensor]"))
      .def("__hash__", [](nb::handle x) { return reinterpret_cast<size_t>(x.ptr()) >> 4; })
      .def("__repr__", shown)
      .def(
          "__reduce__",
          [](const Tensor& x) {
            return nb::make_tuple(nb::module_::import_("plimsoll.structure").attr("remake_tensor"),
                                  nb::make_tuple(to_numpy(x), nb::str(numpy_name(x.dtype()).data())));
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"))
      .def(
          "__copy__", [](nb::handle x) { return nb::borrow(x); }, nb::sig("def __copy__(self) -> Tensor"))
      .def(
          "__deepcopy__", [](nb::handle x, nb::handle) { return nb::borrow(x); }, nb::arg("memo"),
          nb::sig("def __deepcopy__(self, memo: object) -> Tensor"));
  tensor.attr("__array_priority__") = 1000;  // array + tensor is a tensor
  tensor.attr("__array_ufunc__") = nb::none();

  nb::class_<Symbol, Tensor> symbol(module, "Symbol",
                                    "A tensor of a functional model: it stands for one of every batch.");
  symbol.def_prop_ro(
      "label", [](const Symbol& of) { return of.label; }, "The name that Input was given.");
}

}  // namespace plimsoll::python

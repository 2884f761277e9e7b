#include "python/types.h"

#include <deque>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <plimsoll/error.h>
#include "python/bind.h"

namespace plimsoll::python {
namespace {

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kNames[] = {{DType::F32, "float32"}, {DType::F16, "float16"}, {DType::BF16, "bfloat16"},
                               {DType::I32, "int32"},   {DType::I64, "int64"},   {DType::U8, "uint8"},
                               {DType::I8, "int8"},     {DType::Bool, "bool"}};

// Of the module: bool would hide Python's.
const char* attribute_of(DType dtype) { return dtype == DType::Bool ? "bool_" : numpy_name(dtype).data(); }

template <class T, class Read>
T list_of(nb::handle given, const ArgumentPlace& at, std::string_view wanted, const Read& read) {
  T list;
  if (PyLong_Check(given.ptr()) || PyIndex_Check(given.ptr()) || given.is_none()) {
    list.push_back(read(given));
    return list;
  }
  if (PyUnicode_Check(given.ptr()) || !PySequence_Check(given.ptr())) refuse_argument(at, wanted, given);
  for (nb::handle item : given) list.push_back(read(item));
  return list;
}

std::string class_of(nb::handle given) { return nb::cast<std::string>(nb::str(given.type().attr("__name__"))); }

}  // namespace

const char* kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}

std::string_view numpy_name(DType dtype) {
  for (const TypeName& named : kNames)
    if (named.dtype == dtype) return named.name;
  return "";
}

std::optional<DType> find_dtype(std::string_view name) {
  for (const TypeName& named : kNames)
    if (named.name == name || name_of(named.dtype) == name) return named.dtype;
  if (name == "float64" || name == "double" || name == "float") return DType::F32;  // there are no doubles
  if (name == "half") return DType::F16;
  if (name == "int") return DType::I64;
  return std::nullopt;
}

nb::object to_python(DType dtype) { return nb::module_::import_("plimsoll._plimsoll").attr(attribute_of(dtype)); }

nb::tuple to_python(const Dims& dims) {
  nb::list list;
  for (const int64_t size : dims) list.append(size);
  return nb::tuple(list);
}

nb::tuple to_python(const Shape& shape) {
  nb::list list;
  for (const Dim size : shape) {
    if (!size.is_batch())
      list.append(size.count());
    else if (size.count() == 1)
      list.append(nb::none());
    else
      list.append(nb::cast(size));
  }
  return nb::tuple(list);
}

void refuse_argument(const ArgumentPlace& at, std::string_view wanted, nb::handle given) {
  throw nb::type_error(fmt::format("{}: {} must be {}, not {} ({})", at.function, at.argument, wanted,
                                   nb::cast<std::string>(nb::repr(given)).substr(0, 80), class_of(given))
                           .c_str());
}

bool is_true(nb::handle given, const ArgumentPlace& at) {
  const int truth = PyObject_IsTrue(given.ptr());
  if (truth < 0) {
    PyErr_Clear();
    refuse_argument(at, "True or False", given);
  }
  return truth == 1;
}

int64_t to_int(nb::handle given, const ArgumentPlace& at) {
  const nb::object index = nb::steal(PyNumber_Index(given.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    refuse_argument(at, "a whole number", given);
  }
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) refuse_argument(at, "a number of 64 bits", given);
  return number;
}

double to_double(nb::handle given, const ArgumentPlace& at) {
  const double number = PyFloat_AsDouble(given.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse_argument(at, "a number", given);
  }
  return number;
}

std::string to_text(nb::handle given, const ArgumentPlace& at) {
  if (PyUnicode_Check(given.ptr())) return nb::cast<std::string>(given);
  if (nb::hasattr(given, "__fspath__")) return nb::cast<std::string>(nb::str(given.attr("__fspath__")()));
  refuse_argument(at, "a string", given);
}

DType to_dtype(nb::handle given, const ArgumentPlace& at) {
  if (nb::isinstance<PyDType>(given)) return nb::cast<PyDType>(given).value;
  std::string name;
  if (PyUnicode_Check(given.ptr()))
    name = nb::cast<std::string>(given);
  else if (nb::hasattr(given, "name"))  // numpy.dtype
    name = nb::cast<std::string>(nb::str(given.attr("name")));
  else if (nb::hasattr(given, "__name__"))  // numpy.float32, float
    name = nb::cast<std::string>(nb::str(given.attr("__name__")));
  else  // torch.float32
    name = nb::cast<std::string>(nb::str(given));
  if (const size_t dot = name.rfind('.'); dot != std::string::npos) name = name.substr(dot + 1);
  if (const auto dtype = find_dtype(name)) return *dtype;
  refuse_argument(at, "an element type: float32, float16, bfloat16, int32, int64, uint8, int8 or bool", given);
}

Dims to_dims(nb::handle given, const ArgumentPlace& at) {
  constexpr std::string_view kWanted = "whole numbers, such as 3 or (2, 3)";
  return list_of<Dims>(given, at, kWanted, [&](nb::handle item) {
    if (!PyIndex_Check(item.ptr())) refuse_argument(at, kWanted, given);
    return to_int(item, at);
  });
}

Shape to_shape(nb::handle given, const ArgumentPlace& at) {
  constexpr std::string_view kWanted = "sizes, such as (2, 3), with None for the batch";
  return list_of<Shape>(given, at, kWanted, [&](nb::handle item) {
    if (item.is_none()) return Dim::batch();
    if (nb::isinstance<Dim>(item)) return nb::cast<Dim>(item);
    if (!PyIndex_Check(item.ptr())) refuse_argument(at, kWanted, given);
    return Dim(to_int(item, at));
  });
}

Size2d to_size(nb::handle given, const ArgumentPlace& at) {
  const Dims sizes = to_dims(given, at);
  if (sizes.rank() == 1) return {sizes[0], sizes[0]};
  if (sizes.rank() == 2) return {sizes[0], sizes[1]};
  refuse_argument(at, "one number, or two: (height, width)", given);
}

Window to_window(nb::handle given, const ArgumentPlace& at) {
  if (nb::isinstance<Window>(given)) return nb::cast<Window>(given);
  refuse_argument(at, "a plimsoll.Window", given);
}

layers::Padding to_padding(nb::handle given, const ArgumentPlace& at) {
  if (PyUnicode_Check(given.ptr())) {
    const std::string kind = nb::cast<std::string>(given);
    if (kind == "same" || kind == "SAME") return layers::Padding("same");
    if (kind == "valid" || kind == "VALID") return layers::Padding("valid");
  } else if (PyIndex_Check(given.ptr()) || PySequence_Check(given.ptr())) {
    const Dims pads = to_dims(given, at);
    if (pads.rank() == 1) return {pads[0]};
    if (pads.rank() == 2) return {pads[0], pads[1], pads[0], pads[1]};
    if (pads.rank() == 4) return {pads[0], pads[1], pads[2], pads[3]};
  }
  refuse_argument(at, "\"same\", \"valid\", a number, or (top, left, bottom, right)", given);
}

Init to_init(nb::handle given, const ArgumentPlace& at) {
  if (nb::isinstance<Init>(given)) return nb::cast<Init>(given);
  if (PyUnicode_Check(given.ptr())) {
    const std::string name = nb::cast<std::string>(given);
    if (name == "zeros") return Init::zeros();
    if (name == "ones") return Init::ones();
    if (name == "random_normal" || name == "normal") return Init::normal(0, 0.05);
    if (name == "random_uniform" || name == "uniform") return Init::uniform(-0.05, 0.05);
    if (name == "truncated_normal") return Init::truncated_normal(0, 0.05);
  }
  refuse_argument(at,
                  "an initializer: plimsoll.initializers.RandomNormal(), \"zeros\", \"ones\", \"random_normal\", "
                  "\"random_uniform\" or \"truncated_normal\"",
                  given);
}

Bytes to_bytes(nb::handle given, const ArgumentPlace& at) {
  if (PyUnicode_Check(given.ptr())) return parse_bytes(nb::cast<std::string>(given));
  return to_int(given, at);
}

void bind_types(nb::module_& module) {
  nb::class_<PyDType> dtype(module, "DType", "An element type of tensors: plimsoll.float32 and so on.");
  dtype
      .def(
          "__init__",
          [](PyDType* made, nb::handle given) {
            new (made) PyDType{to_dtype(given, {"DType", "name"})};
          },
          nb::arg("name"), nb::sig("def __init__(self, name: object) -> None"))
      .def_prop_ro(
          "name", [](const PyDType& type) { return std::string(numpy_name(type.value)); }, "NumPy's name of it.")
      .def_prop_ro(
          "itemsize", [](const PyDType& type) { return size_of(type.value); }, "Bytes of an element.")
      .def_prop_ro(
          "is_floating", [](const PyDType& type) { return is_float(type.value); }, "Whether it is a float.")
      .def("__repr__", [](const PyDType& type) { return "plimsoll." + std::string(numpy_name(type.value)); })
      .def("__str__", [](const PyDType& type) { return std::string(numpy_name(type.value)); })
      .def("__hash__", [](const PyDType& type) { return static_cast<int>(type.value); })
      .def("__reduce__",
           [](nb::handle self) { return nb::make_tuple(self.type(), nb::make_tuple(nb::str(self.attr("name")))); })
      .def(
          "__eq__",
          [](const PyDType& type, nb::handle other) {
            if (nb::isinstance<PyDType>(other)) return nb::cast<PyDType>(other).value == type.value;
            if (PyUnicode_Check(other.ptr())) return find_dtype(nb::cast<std::string>(other)) == type.value;
            return nb::hasattr(other, "name") &&
                   nb::cast<std::string>(nb::str(other.attr("name"))) == numpy_name(type.value);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  for (const TypeName& named : kNames) module.attr(attribute_of(named.dtype)) = PyDType{named.dtype};

  nb::class_<Dim>(module, "Dim", "A size that is a multiple of the batch.")
      .def("__repr__", [](Dim dim) { return to_string(dim); })
      .def(
          "__eq__", [](Dim a, Dim b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](Dim a) { return a.count(); });

  nb::class_<Window>(module, "Window", "How a window moves over an image.")
      .def(
          "__init__",
          [](Window* made, nb::handle strides, nb::handle pads, nb::handle dilations, int64_t groups) {
            const Dims sides = to_dims(pads, {"Window", "pads"});
            Window window;
            window.strides = to_size(strides, {"Window", "strides"});
            window.dilations = to_size(dilations, {"Window", "dilations"});
            window.groups = groups;
            if (sides.rank() == 1)
              window.pads = {sides[0], sides[0], sides[0], sides[0]};
            else if (sides.rank() == 2)
              window.pads = {sides[0], sides[1], sides[0], sides[1]};
            else if (sides.rank() == 4)
              window.pads = {sides[0], sides[1], sides[2], sides[3]};
            else
              refuse_argument({"Window", "pads"}, "one number, two, or (top, left, bottom, right)", pads);
            window.check();
            new (made) Window(window);
          },
          nb::arg("strides") = 1, nb::arg("pads") = 0, nb::arg("dilations") = 1, nb::arg("groups") = 1,
          nb::sig("def __init__(self, strides: int | tuple[int, int] = 1, pads: int | tuple[int, ...] = 0, dilations: "
                  "int | tuple[int, int] = 1, groups: int = 1) -> None"))
      .def("__repr__", [](const Window& w) {
        return fmt::format("Window(strides=({}, {}), pads=({}, {}, {}, {}), dilations=({}, {}), groups={})",
                           w.strides[0], w.strides[1], w.pads[0], w.pads[1], w.pads[2], w.pads[3], w.dilations[0],
                           w.dilations[1], w.groups);
      });

  nb::class_<Init>(module, "Init", "How a variable starts: a description.")
      .def_static("constant", &Init::constant, nb::arg("value") = 0.0, "Every element is this number.")
      .def_static("uniform", &Init::uniform, nb::arg("low") = -0.05, nb::arg("high") = 0.05, "Evenly distributed.")
      .def_static("normal", &Init::normal, nb::arg("mean") = 0.0, nb::arg("deviation") = 0.05, "Normally distributed.")
      .def_static("truncated_normal", &Init::truncated_normal, nb::arg("mean") = 0.0, nb::arg("deviation") = 0.05,
                  "Normally distributed; values beyond two deviations are drawn again.")
      .def_static(
          "named", [](const std::string& name) { return Init::named(name); }, nb::arg("name"),
          "By a name of Keras: he_normal, glorot_uniform, identity ...")
      .def_static("identity", &Init::identity, nb::arg("value") = 1.0, "The identity matrix.")
      .def_static("glorot_uniform", nb::overload_cast<int64_t, int64_t>(&Init::glorot_uniform), nb::arg("fan_in"),
                  nb::arg("fan_out"), "Glorot's uniform.")
      .def_static("he_normal", nb::overload_cast<int64_t>(&Init::he_normal), nb::arg("fan_in"), "He's normal.")
      .def_static("lecun_normal", nb::overload_cast<int64_t>(&Init::lecun_normal), nb::arg("fan_in"), "LeCun's normal.")
      .def(
          "__eq__", [](const Init& a, const Init& b) { return a == b; }, nb::is_operator())
      .def("__repr__", [](const Init& init) { return to_string(init); });
}

}  // namespace plimsoll::python

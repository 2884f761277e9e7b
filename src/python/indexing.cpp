#include "python/indexing.h"

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "python/types.h"

namespace plimsoll::python {
namespace {

template <class... Arguments>
nb::object call_op(const char* name, Arguments&&... arguments) {
  static const nb::object* const list = new nb::object(nb::module_::import_("plimsoll._plimsoll").attr("ops"));
  return list->attr(name)(std::forward<Arguments>(arguments)...);
}

int64_t size_at(nb::handle x, int axis) {
  const Dim size = nb::inst_ptr<Tensor>(x)->dim(axis);
  if (size.is_batch()) throw nb::index_error("the batch can't be cut by numbers: its size is not known here");
  return size.count();
}

nb::object at_number(const nb::object& x, int axis, int64_t number) {
  const int64_t size = size_at(x, axis);
  const int64_t from_start = number < 0 ? number + size : number;
  if (from_start < 0 || from_start >= size)
    throw nb::index_error(fmt::format("index {} is outside of axis {} with size {}", number, axis, size).c_str());
  return call_op("squeeze", call_op("slice", x, axis, from_start, 1), axis);
}

nb::object at_slice(const nb::object& x, int axis, nb::handle slice) {
  const bool is_all = slice.attr("start").is_none() && slice.attr("stop").is_none() && slice.attr("step").is_none();
  if (is_all) return x;
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(slice.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
  const int64_t size = size_at(x, axis);
  const int64_t count = PySlice_AdjustIndices(size, &start, &stop, step);
  if (count < 1)
    throw nb::index_error(
        fmt::format("the slice of axis {} is empty; a tensor has at least one element", axis).c_str());
  if (step > 0) return call_op("slice", x, axis, start, count, step);
  const nb::object forward = call_op("slice", x, axis, start + (count - 1) * step, count, -step);
  return call_op("flip", forward, axis);
}

bool is_mask(nb::handle index) {
  if (nb::isinstance<Tensor>(index)) return nb::inst_ptr<Tensor>(index)->dtype() == DType::Bool;
  if (PyBool_Check(index.ptr())) return true;
  return nb::hasattr(index, "dtype") && nb::cast<std::string>(nb::str(index.attr("dtype"))) == "bool";
}

int consumed(nb::handle index) { return index.is_none() ? 0 : 1; }

nb::object get(nb::handle self, nb::handle key) {
  const nb::tuple indices = PyTuple_Check(key.ptr()) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(nb::borrow(key));
  const int rank = nb::inst_ptr<Tensor>(self)->rank();
  int given = 0;
  bool has_ellipsis = false;
  for (nb::handle index : indices) {
    if (index.ptr() == Py_Ellipsis) {
      if (has_ellipsis) throw nb::index_error("an index has one '...' at most");
      has_ellipsis = true;
    } else {
      given += consumed(index);
    }
  }
  if (given > rank) throw nb::index_error(fmt::format("{} indices for a tensor of {} dimensions", given, rank).c_str());
  nb::object x = nb::borrow(self);
  int axis = 0;
  bool has_list = false;
  for (nb::handle index : indices) {
    if (index.ptr() == Py_Ellipsis) {
      axis += rank - given;
    } else if (index.is_none()) {
      x = call_op("expand_dims", x, axis++);
    } else if (is_mask(index)) {
      throw nb::index_error(
          "a mask would give a tensor whose size depends on its numbers; use where(mask, x, 0), or NumPy");
    } else if (PySlice_Check(index.ptr())) {
      x = at_slice(x, axis++, index);
    } else if (PyIndex_Check(index.ptr()) && !nb::isinstance<Tensor>(index) && !nb::hasattr(index, "shape")) {
      x = at_number(x, axis, to_int(index, {"tensor[...]", "the index"}));
    } else {
      if (has_list) throw nb::index_error("one list of indices at most; use gather_nd for several");
      has_list = true;
      const int before = nb::inst_ptr<Tensor>(x)->rank();
      x = call_op("gather", x, index, axis);
      axis += nb::inst_ptr<Tensor>(x)->rank() - before + 1;
    }
  }
  return x;
}

}  // namespace

void bind_indexing(nb::class_<Tensor>& tensor) {
  tensor.def("__getitem__", get, nb::arg("index"), nb::sig("def __getitem__(self, index: Any, /) -> Tensor"));
  tensor.def(
      "__setitem__",
      [](const Tensor&, nb::handle, nb::handle) {
        throw nb::type_error("a tensor does not change; use scatter(x, rows, values), or assign a variable as a whole");
      },
      nb::arg("index"), nb::arg("value").none(), nb::sig("def __setitem__(self, index: Any, value: Any, /) -> None"));
}

}  // namespace plimsoll::python

#include "python/elements.h"

#include <cstring>

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/line.h"
#include "python/operands.h"
#include "python/place.h"

namespace plimsoll::python {
namespace {

Dims open_dims(nb::handle given) {
  Dims dims;
  for (nb::handle size : given) dims.push_back(size.is_none() ? -1 : to_int(size, {"a dataset", "shape"}));
  return dims;
}

nb::tuple shown(const Dims& dims) {
  nb::list list;
  for (const int64_t size : dims) {
    if (size < 0)
      list.append(nb::none());
    else
      list.append(size);
  }
  return nb::tuple(list);
}

// An iteration of a dataset, for one consumer at a time.
struct PyIteration {
  Line line;
  Iteration iteration;

  PyIteration(Line on, Iteration started) : line(std::move(on)), iteration(std::move(started)) {}
  PyIteration(PyIteration&&) = default;
  PyIteration& operator=(PyIteration&&) = delete;
  // Its threads may wait for the interpreter, which whoever lets go of it holds.
  ~PyIteration() {
    if (PyGILState_Check() == 0) return;
    const nb::gil_scoped_release release;
    const Iteration ending = std::move(iteration);
  }
};

}  // namespace

ElementSpec spec_of(nb::handle given) {
  ElementSpec spec;
  for (nb::handle one : given) {
    const nb::tuple component = nb::cast<nb::tuple>(one);
    spec.push_back({nb::cast<std::string>(component[0]), to_dtype(component[1], {"a dataset", "dtype"}),
                    open_dims(component[2]), open_dims(component[3])});
  }
  return spec;
}

nb::object to_python(const ElementSpec& spec) {
  nb::list list;
  for (const Component& component : spec)
    list.append(
        nb::make_tuple(component.name, to_python(component.dtype), shown(component.shape), shown(component.most)));
  return list;
}

nb::object to_python(const std::vector<StageReport>& stages) {
  nb::list list;
  for (const StageReport& stage : stages) {
    nb::dict values;
    values["name"] = stage.name;
    values["bytes"] = stage.bytes;
    values["threads"] = stage.threads;
    values["elements"] = stage.elements;
    values["busy_ns"] = stage.busy_ns;
    values["waiting_ns"] = stage.waiting_ns;
    values["skipped"] = stage.skipped;
    values["last_skipped"] = stage.last_skipped;
    list.append(values);
  }
  return list;
}

nb::list arrays_of(const ElementView& element) {
  nb::list list;
  for (size_t i = 0; i < element.size(); ++i) {
    const NumpyArray made = make_numpy(element.spec()[i].dtype, element.dims(i));
    if (element.spec()[i].dtype == DType::BF16)
      throw Error("bfloat16 has no NumPy type; cast it to float32 in the dataset", ErrorKind::Usage);
    std::memcpy(made.data, element.data(i), static_cast<size_t>(element.bytes(i)));
    list.append(made.array);
  }
  return list;
}

void write_element(nb::handle arrays, const ElementSlot& to, const char* stage) {
  if (nb::len(arrays) != to.size())
    throw Error(fmt::format("{}: the function gave {} values, not {}", stage, nb::len(arrays), to.size()),
                ErrorKind::BadData);
  for (size_t i = 0; i < to.size(); ++i) {
    const Component& component = to.spec()[i];
    HostArray array = array_of(arrays[i], {stage, component.name.c_str()}, component.dtype);
    if (array.dtype != component.dtype) {
      const nb::object numpy = nb::module_::import_("numpy").attr("asarray")(arrays[i]);
      array = array_of(numpy.attr("astype")(numpy_name(component.dtype).data()), {stage, component.name.c_str()});
    }
    bool fits = array.dims.rank() == component.shape.rank();
    for (int axis = 0; fits && axis < array.dims.rank(); ++axis)
      fits = component.shape[axis] == array.dims[axis] ||
             (component.shape[axis] < 0 && (component.most.empty() || array.dims[axis] <= component.most[axis]));
    if (!fits)
      throw Error(fmt::format("{}: '{}' must have shape {} but has {}", stage, component.name,
                              to_string(component.shape), to_string(array.dims)),
                  ErrorKind::BadData);
    if (!component.is_fixed()) to.set_dims(i, array.dims);
    if (array.foreign == Foreign::None)
      std::memcpy(to.data(i), array.data, static_cast<size_t>(array.bytes));
    else
      convert_foreign(array.foreign, array.data, to.data(i), array.count());
  }
}

void bind_iteration(nb::module_& module) {
  nb::class_<PyIteration>(module, "Iteration", "A dataset under way.")
      .def(
          "next",
          [](PyIteration& of, bool as_tensors) -> nb::object {
            const ElementView* element = nullptr;
            {
              const nb::gil_scoped_release release;
              element = of.iteration.next();
            }
            if (element == nullptr) return nb::none();
            if (as_tensors) return to_python(tensors(*element, place()), nullptr);
            return arrays_of(*element);
          },
          nb::arg("as_tensors"))
      .def_prop_ro("state",
                   [](const PyIteration& of) {
                     const DatasetState state = of.iteration.state();
                     return nb::make_tuple(state.dataset, state.epoch, state.position);
                   })
      .def(
          "seek",
          [](PyIteration& of, uint64_t dataset, uint64_t epoch, int64_t position) {
            const nb::gil_scoped_release release;
            of.iteration.seek({dataset, epoch, position});
          },
          nb::arg("dataset"), nb::arg("epoch"), nb::arg("position"))
      .def(
          "start_epoch",
          [](PyIteration& of, uint64_t epoch) {
            const nb::gil_scoped_release release;
            of.iteration.start_epoch(epoch);
          },
          nb::arg("epoch"))
      .def_prop_ro("stages", [](const PyIteration& of) { return to_python(of.iteration.stages()); })
      .def_prop_ro("bytes", [](const PyIteration& of) { return of.iteration.bytes(); });
  module.def(
      "start",
      [](const Dataset& dataset, const Line& line) {
        nb::gil_scoped_release release;
        MemoryLine under = line.line;
        auto started = std::make_unique<PyIteration>(line, dataset.on(under));
        return started;
      },
      nb::arg("dataset"), nb::arg("line"));
  // In the Eager that is open here, under its line.
}

}  // namespace plimsoll::python

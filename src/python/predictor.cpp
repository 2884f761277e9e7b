// Inference from a stored model, planned once.
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/error.h>
#include <plimsoll/predictor.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/given.h"
#include "python/line.h"

namespace plimsoll::python {
namespace {

nb::object predict(Predictor& predictor, nb::handle inputs) {
  std::vector<nb::handle> given;
  if (PyDict_Check(inputs.ptr())) {
    for (const std::string& name : predictor.inputs()) given.push_back(nb::handle(inputs)[name.c_str()]);
  } else if (predictor.inputs().size() > 1) {
    for (nb::handle one : inputs) given.push_back(one);
  } else {
    given.push_back(inputs);
  }
  if (given.size() != predictor.inputs().size())
    throw Error(fmt::format("the model has {} inputs, not {}", predictor.inputs().size(), given.size()),
                ErrorKind::Usage);
  std::vector<Feed> feeds;
  std::vector<HostArray> arrays;
  std::vector<std::vector<std::byte>> converted(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const ArgumentPlace at{"predict", predictor.inputs()[i].c_str()};
    HostArray& array = arrays.emplace_back(array_of(given[i], at, predictor.input(i).dtype()));
    if (array.foreign != Foreign::None) {
      converted[i].resize(static_cast<size_t>(array.count() * size_of(array.dtype)));
      convert_foreign(array.foreign, array.data, converted[i].data(), array.count());
      feeds.emplace_back(predictor.input(i), array.dtype, converted[i].data(), static_cast<Bytes>(converted[i].size()));
    } else {
      feeds.emplace_back(predictor.input(i), array.dtype, array.data, array.bytes);
    }
  }
  const Results results = [&] {
    const nb::gil_scoped_release release;
    return predictor.predict(feeds);
  }();
  nb::list outputs;
  for (const View& view : results) {
    const NumpyArray made = make_numpy(view.dtype, view.dims);
    std::memcpy(made.data, view.data(), static_cast<size_t>(view.bytes));
    outputs.append(made.array);
  }
  if (nb::len(outputs) == 1) return outputs[0];
  nb::dict by_name;
  for (size_t i = 0; i < predictor.outputs().size(); ++i) by_name[predictor.outputs()[i].c_str()] = outputs[i];
  return by_name;
}

}  // namespace

void bind_predictor(nb::module_& module) {
  nb::class_<Predictor>(module, "Predictor", "Inference from a stored model under a line, planned once for a batch.")
      .def(
          "__init__",
          [](Predictor* made, Given<PathOf> path, const Line& line, int64_t batch, bool folds_norms) {
            const Reading reading("Predictor");
            const std::string from = path_in(path);
            const nb::gil_scoped_release release;
            new (made) Predictor(from, line.line, batch, {folds_norms});
          },
          nb::arg("path"), nb::arg("line"), nb::arg("batch") = 1, nb::arg("folds_norms") = true)
      .def("predict", &predict, nb::arg("inputs"), nb::sig("def predict(self, inputs: Any) -> Any"),
           "The outputs as NumPy arrays for an array, or a dict or list of them where there are several inputs.")
      .def("__call__", &predict, nb::arg("inputs"), nb::sig("def __call__(self, inputs: Any) -> Any"),
           "predict(inputs).")
      .def_prop_ro(
          "inputs", [](const Predictor& predictor) { return predictor.inputs(); }, "Names, in order.")
      .def_prop_ro(
          "outputs", [](const Predictor& predictor) { return predictor.outputs(); }, "Names, in order.")
      .def_prop_ro("batch", &Predictor::batch, "Samples at a time.");
}

}  // namespace plimsoll::python

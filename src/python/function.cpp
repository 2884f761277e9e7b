// Functions that are traced once for each signature.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <plimsoll/eager.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/operands.h"
#include "python/place.h"
#include "python/types.h"

namespace plimsoll::python {
namespace {

// The engine's traces; what a call is made of, beside its tensors, is told by a number for each signature.
struct PyTraces {
  eager::TracedCode code;
};

nb::object call(PyTraces& traces, nb::handle tensors, uint64_t signature, nb::handle body) {
  std::vector<Tensor> given;
  for (nb::handle tensor : tensors) given.push_back(*nb::inst_ptr<Tensor>(tensor));
  const uint64_t numbers[] = {signature};
  const std::source_location where = place();
  const eager::TracedCode::Body trace = [&](std::span<const Tensor> traced) {
    const nb::gil_scoped_acquire lock;
    nb::list arguments;
    for (const Tensor& tensor : traced) arguments.append(to_python(tensor));
    std::vector<Tensor> results;
    for (nb::handle result : body(arguments)) {
      if (!nb::isinstance<Tensor>(result)) refuse_argument({"function", "its result"}, "tensors", result);
      results.push_back(*nb::inst_ptr<Tensor>(result));
    }
    return results;
  };
  std::vector<Tensor> results;
  {
    const nb::gil_scoped_release release;
    results = traces.code.call(given, numbers, trace, where);
  }
  return to_python(results, nullptr);
}

}  // namespace

void bind_function(nb::module_& module) {
  nb::class_<PyTraces>(module, "Traces", "Traces of a function.")
      .def(
          "__init__",
          [](PyTraces* made, int64_t cache, nb::handle cache_bytes, bool open_batch) {
            new (made) PyTraces{
                eager::TracedCode(FunctionOptions{.cache = cache,
                                                  .cache_bytes = to_bytes(cache_bytes, {"function", "cache_bytes"}),
                                                  .open_batch = open_batch})};
          },
          nb::arg("cache"), nb::arg("cache_bytes"), nb::arg("open_batch"))
      .def("call", &call, nb::arg("tensors"), nb::arg("signature"), nb::arg("body"))
      .def_prop_ro("facts", [](const PyTraces& traces) {
        const FunctionFacts facts = traces.code.facts();
        nb::dict values;
        values["traces"] = facts.traces;
        values["kept"] = facts.kept;
        values["calls"] = facts.calls;
        values["warning"] = facts.warning;
        return values;
      });
}

}  // namespace plimsoll::python

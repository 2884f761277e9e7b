// Each topic of the Python module adds its part.
#pragma once

#include <nanobind/nanobind.h>

namespace plimsoll::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_types(nb::module_& module);
void bind_line(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_functional(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_eager(nb::module_& module);
void bind_function(nb::module_& module);
void bind_layers(nb::module_& module);
void bind_model(nb::module_& module);
void bind_objectives(nb::module_& module);
void bind_training(nb::module_& module);
void bind_callbacks(nb::module_& module);
void bind_dataset(nb::module_& module);
void bind_iteration(nb::module_& module);
void bind_images(nb::module_& module);
void bind_optimiser(nb::module_& module);
void bind_session(nb::module_& module);
void bind_shrink(nb::module_& module);
void bind_predictor(nb::module_& module);

}  // namespace plimsoll::python

#include <nanobind/nanobind.h>

#include <plimsoll/version.h>
#include "memory/process.h"
#include "python/bind.h"

NB_MODULE(_plimsoll, module) {
  using namespace plimsoll::python;
  module.doc() = "The engine of plimsoll. The package plimsoll is what programs import.";
  module.attr("__version__") = PLIMSOLL_VERSION_TEXT;
  bind_errors(module);
  bind_types(module);
  bind_line(module);
  bind_tensor(module);
  bind_ops(module);
  bind_eager(module);
  bind_function(module);
  bind_optimiser(module);
  bind_model(module);
  bind_layers(module);
  bind_objectives(module);
  bind_callbacks(module);
  bind_dataset(module);
  bind_training(module);
  bind_session(module);
  bind_shrink(module);
  bind_predictor(module);
  bind_images(module);
  plimsoll::memory::drop_code_pages();  // what linking and binding touched is not needed again
}

// Making a trained model smaller: pruning, stripping, int8, adapters.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/dataset.h>
#include <plimsoll/shrink.h>
#include "python/bind.h"
#include "python/given.h"
#include "python/line.h"

namespace plimsoll::python {
namespace {

Pruning pruning_of(std::optional<double> initial_sparsity, double final_sparsity, int64_t begin_step, int64_t end_step,
                   int64_t frequency, double power, std::pair<int64_t, int64_t> block_size,
                   const std::string& block_pooling, bool two_of_four, std::vector<std::string> layers) {
  Pruning pruning;
  pruning.from = initial_sparsity;
  pruning.to = final_sparsity;
  pruning.begin = begin_step;
  pruning.end = end_step;
  pruning.frequency = frequency;
  pruning.power = power;
  pruning.block_height = block_size.first;
  pruning.block_width = block_size.second;
  if (block_pooling != "AVG" && block_pooling != "MAX")
    refuse_argument({"Pruning", "block_pooling_type"}, "\"AVG\" or \"MAX\"", nb::str(block_pooling.c_str()));
  pruning.pool = block_pooling == "MAX" ? Pruning::Pool::Largest : Pruning::Pool::Mean;
  pruning.two_of_four = two_of_four;
  pruning.layers = std::move(layers);
  pruning.check();
  return pruning;
}

nb::tuple strip(const Model& model, Given<PathOf> scratch) {
  const StripOptions options{path_in(scratch, "scratch")};
  StripReport report;
  std::optional<Model> made;
  {
    const nb::gil_scoped_release release;
    made = model.strip(options, &report);
  }
  return nb::make_tuple(*made, report);
}

nb::tuple quantise(const Model& model, const Dataset& calibration, const Line& line, const std::string& method,
                   double percentile, int64_t bins, bool all, std::optional<bool> full_range) {
  QuantiseOptions options{.calibration = method,
                          .percentile = percentile,
                          .bins = bins,
                          .all = all,
                          .full_range = full_range,
                          .scratch = line.scratch};
  QuantiseReport report;
  std::optional<Model> made;
  {
    const nb::gil_scoped_release release;
    made = model.quantise(calibration, line.line, options, &report);
  }
  return nb::make_tuple(*made, report);
}

void bind_reports(nb::module_& module) {
  nb::class_<StrippedWeight>(module, "StrippedWeight", "What became of one weight.")
      .def_ro("name", &StrippedWeight::name)
      .def_ro("elements", &StrippedWeight::elements)
      .def_ro("zeros", &StrippedWeight::zeros)
      .def_ro("bytes_before", &StrippedWeight::bytes_before)
      .def_ro("bytes_after", &StrippedWeight::bytes_after);
  nb::class_<StripReport>(module, "StripReport", "What stripping saved.")
      .def_prop_ro("weights", [](const StripReport& report) { return report.weights; })
      .def_ro("before", &StripReport::before)
      .def_ro("after", &StripReport::after)
      .def("__str__", [](const StripReport& report) { return to_string(report); });
  nb::class_<QuantisedLayer>(module, "QuantizedLayer", "What became of one layer.")
      .def_ro("name", &QuantisedLayer::name)
      .def_ro("op", &QuantisedLayer::op)
      .def_ro("is_int8", &QuantisedLayer::is_int8);
  nb::class_<QuantiseReport>(module, "QuantizeReport", "What int8 saved.")
      .def_ro("file_bytes_before", &QuantiseReport::file_bytes_before)
      .def_ro("file_bytes_after", &QuantiseReport::file_bytes_after)
      .def_ro("memory_bytes_before", &QuantiseReport::memory_bytes_before)
      .def_ro("memory_bytes_after", &QuantiseReport::memory_bytes_after)
      .def_ro("samples", &QuantiseReport::samples)
      .def_prop_ro("layers", [](const QuantiseReport& report) { return report.layers; });
}

}  // namespace

void bind_shrink(nb::module_& module) {
  bind_reports(module);
  nb::class_<Pruning>(module, "Pruning",
                      "Weights of small magnitude become zero while a model trains, by the schedules of tfmot: "
                      "final_sparsity from begin_step on, or rising to it from initial_sparsity until end_step.")
      .def(nb::new_(&pruning_of), nb::arg("initial_sparsity") = nb::none(), nb::arg("final_sparsity") = 0.5,
           nb::arg("begin_step") = 0, nb::arg("end_step") = -1, nb::arg("frequency") = 100, nb::arg("power") = 3.0,
           nb::arg("block_size") = nb::make_tuple(1, 1), nb::arg("block_pooling_type") = "AVG",
           nb::arg("two_of_four") = false, nb::arg("layers") = std::vector<std::string>())
      .def_static(
          "parse", [](const std::string& text) { return Pruning::parse(text); }, nb::arg("text"),
          "\"from=0.5,to=0.8,begin=1000,end=10000\" or \"two-of-four\".");
  auto model = nb::borrow<nb::class_<Model>>(module.attr("Model"));
  model.def("prune", &Model::prune, nb::arg("pruning"))
      .def("strip", &strip, nb::arg("scratch"))
      .def("quantise", &quantise, nb::arg("calibration"), nb::arg("line"), nb::arg("method"), nb::arg("percentile"),
           nb::arg("bins"), nb::arg("all"), nb::arg("full_range").none())
      .def(
          "adapt",
          [](const Model& of, int64_t rank, double alpha, double dropout, const std::vector<std::string>& targets) {
            return of.adapt({rank, alpha, dropout, targets});
          },
          nb::arg("rank"), nb::arg("alpha"), nb::arg("dropout"), nb::arg("targets"))
      .def(
          "save_adapter",
          [](const Model& of, Given<PathOf> folder) {
            const std::string to = path_in(folder, "folder");
            const nb::gil_scoped_release release;
            save_adapter(of, to);
          },
          nb::arg("folder"))
      .def(
          "load_adapter",
          [](const Model& of, Given<PathOf> folder) {
            const std::string from = path_in(folder, "folder");
            const nb::gil_scoped_release release;
            return load_adapter(of, from);
          },
          nb::arg("folder"));
  module.def(
      "adapter_freeze", [](Given<DTypeOf> dtype) { return adapter_freeze(dtype_in(dtype)); },
      nb::arg("dtype") = "float32", "Freezes all weights but those of adapters.");
}

}  // namespace plimsoll::python

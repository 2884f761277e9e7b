// The engine's model: made of layers, of a function of Python, or of the calls of a functional model.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include <plimsoll/shrink.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/given.h"
#include "python/layer.h"
#include "python/operands.h"

namespace plimsoll::python {
namespace {

Model from_function(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs,
                    nb::object function) {
  const auto held = keep(function);
  PyObject* const called = function.ptr();  // kept by `held`
  return {std::move(name), std::move(inputs), outputs,
          [held, called, outputs](const NamedTensors& given, bool training) {
            const nb::gil_scoped_acquire lock;
            const TrainingCall call(training);
            nb::dict by_name;
            for (const auto& [input, tensor] : given) by_name[input.c_str()] = to_python(tensor);
            const nb::object made = nb::handle(called)(by_name, training);
            NamedTensors named;
            size_t i = 0;
            for (nb::handle tensor : made) {
              if (!nb::isinstance<Tensor>(tensor) || i >= outputs.size())
                throw nb::type_error("call() of a model must return tensors, as many each time");
              named.add(outputs[i++], *nb::inst_ptr<Tensor>(tensor));
            }
            return named;
          }};
}

Model sequence(nb::handle layers, std::string name) {
  std::vector<Layer> calls;
  for (nb::handle one : layers) {
    const Model model = model_of(one);
    calls.emplace_back([model](const Tensor& x, bool training) { return model(x, training); });
  }
  return sequential(std::move(calls), std::move(name));
}

const Symbol& symbol_of(nb::handle given, const char* argument) {
  if (!nb::isinstance<Symbol>(given))
    refuse_argument({"Model", argument}, "tensors that begin with plimsoll.Input", given);
  return *nb::inst_ptr<Symbol>(given);
}

// The calls that the outputs need, in order.
std::vector<Functional::Call> needed_calls(const Functional& functional, const std::vector<ValueId>& inputs,
                                           const std::vector<ValueId>& outputs) {
  const std::unordered_set<ValueId> given(inputs.begin(), inputs.end());
  std::unordered_set<ValueId> needed(outputs.begin(), outputs.end());
  std::vector<Functional::Call> calls;
  for (size_t i = functional.calls.size(); i-- > 0;) {
    const Functional::Call& call = functional.calls[i];
    if (std::ranges::none_of(call.to, [&](ValueId id) { return needed.contains(id) && !given.contains(id); })) continue;
    needed.insert(call.from.begin(), call.from.end());
    calls.push_back(call);
  }
  std::ranges::reverse(calls);
  return calls;
}

Model from_symbols(std::string name, const std::vector<std::string>& input_names, nb::handle inputs,
                   const std::vector<std::string>& output_names, nb::handle outputs) {
  std::vector<ValueId> from, to;
  std::shared_ptr<Functional> functional;
  for (nb::handle one : inputs) {
    functional = symbol_of(one, "inputs").functional;
    from.push_back(symbol_of(one, "inputs").id());
  }
  for (nb::handle one : outputs) {
    if (symbol_of(one, "outputs").functional != functional)
      throw Error("the outputs of a functional model do not depend on its inputs", ErrorKind::Usage);
    to.push_back(symbol_of(one, "outputs").id());
  }
  const auto calls = std::make_shared<const std::vector<Functional::Call>>(needed_calls(*functional, from, to));
  return {std::move(name), input_names, output_names, [=](const NamedTensors& given, bool training) {
            Substitution instead(training);
            for (size_t i = 0; i < from.size(); ++i) instead.set(from[i], given[input_names[i]]);
            for (const Functional::Call& call : *calls) {
              const std::vector<Tensor> made = call.again(instead);
              for (size_t i = 0; i < made.size(); ++i) instead.set(call.to[i], made[i]);
            }
            NamedTensors named;
            for (size_t i = 0; i < to.size(); ++i) named.add(output_names[i], instead.at(to[i]));
            return named;
          }};
}

// Inputs made while tensors of others are still in use can be used together.
nb::object make_input(nb::handle shape, nb::handle dtype, const std::string& name) {
  static std::weak_ptr<Functional> latest;
  std::shared_ptr<Functional> functional = latest.lock();
  if (functional == nullptr) latest = functional = std::make_shared<Functional>();
  Shape full = to_shape(shape, {"Input", "shape"});
  full.insert(0, Dim::batch());
  const Tensor made = functional->graph.placeholder(fmt::format("{}_{}", name, functional->inputs++),
                                                    to_dtype(dtype, {"Input", "dtype"}), full);
  return nb::cast(Symbol(made, functional, name));
}

// How many tensors a function gives: it is called once in a graph that is then forgotten.
size_t count_outputs(const std::vector<std::string>& names, nb::handle given, nb::handle function) {
  Graph graph;
  nb::dict by_name;
  size_t i = 0;
  for (nb::handle one : given) {
    TensorType type;
    if (nb::isinstance<Tensor>(one)) {
      type = nb::inst_ptr<Tensor>(one)->type();
    } else {
      const HostArray array = array_of(one, {"a layer", "inputs"});
      type.dtype = array.dtype;
      for (const int64_t size : array.dims) type.shape.push_back(size);
    }
    by_name[names[i].c_str()] = to_python(graph.placeholder(names[i], type.dtype, type.shape));
    ++i;
  }
  const TrainingCall call(false);
  return nb::len(function(by_name, false));
}

Tensor variable_beside(const Tensor& like, const std::string& name, nb::handle shape, nb::handle init, bool trainable) {
  return like.graph().variable(name, DType::F32, to_shape(shape, {"add_weight", "shape"}),
                               to_init(init, {"add_weight", "initializer"}),
                               trainable ? VariableRole::Weight : VariableRole::Statistic);
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<ModelBytes>(module, "ModelBytes", "What the weights of a model take.")
      .def_ro("memory", &ModelBytes::memory, "While it predicts.")
      .def_ro("file", &ModelBytes::file, "As a weights file.");
  nb::class_<Model>(module, "Model", "The engine's model.", nb::is_weak_referenceable())
      .def(nb::new_(&from_function), nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("function"))
      .def_static("sequential", &sequence, nb::arg("layers"), nb::arg("name"))
      .def_static("functional", &from_symbols, nb::arg("name"), nb::arg("input_names"), nb::arg("inputs"),
                  nb::arg("output_names"), nb::arg("outputs"))
      .def_prop_ro("name", &Model::name)
      .def_prop_ro("inputs", &Model::inputs)
      .def_prop_ro("outputs", &Model::outputs)
      .def_prop_ro("weights", [](const Model& model) { return to_python(model.weights(), nullptr); })
      .def(
          "weight", [](const Model& model, const std::string& name) { return to_python(model.weight(name)); },
          nb::arg("name"))
      .def("release", &Model::release, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "save_weights",
          [](const Model& model, Given<PathOf> path) {
            const std::string to = path_in(path);
            const nb::gil_scoped_release release;
            model.save_weights(to);
          },
          nb::arg("path"))
      .def(
          "load_weights",
          [](Model& model, Given<PathOf> path) {
            const std::string from = path_in(path);
            const nb::gil_scoped_release release;
            model.load_weights(from);
          },
          nb::arg("path"))
      .def(
          "save",
          [](const Model& model, Given<PathOf> path) {
            const std::string to = path_in(path);
            const nb::gil_scoped_release release;
            model.save(to);
          },
          nb::arg("path"))
      .def_static(
          "load",
          [](Given<PathOf> path) {
            const std::string from = path_in(path);
            const nb::gil_scoped_release release;
            return Model::load(from);
          },
          nb::arg("path"))
      .def_prop_ro("bytes", &Model::bytes);
  module.def("probe", &count_outputs, nb::arg("names"), nb::arg("given"), nb::arg("function"));
  module.def("variable", &variable_beside, nb::arg("like"), nb::arg("name"), nb::arg("shape"), nb::arg("initializer"),
             nb::arg("trainable"));
  module.def(
      "Input", &make_input, nb::arg("shape"), nb::arg("dtype") = "float32", nb::arg("name") = "input",
      nb::sig(
          "def Input(shape: int | Sequence[int | None], dtype: DTypeLike = 'float32', name: str = 'input') -> Symbol"),
      "The start of a functional model: sizes without the batch.");
}

}  // namespace plimsoll::python

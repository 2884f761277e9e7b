// compile, plan, fit, evaluate, predict and summary of the engine's model, and what they give.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/error.h>
#include <plimsoll/forecast.h>
#include <plimsoll/train.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/callbacks.h"
#include "python/given.h"
#include "python/layer.h"
#include "python/line.h"
#include "python/objectives.h"
#include "python/operands.h"
#include "python/optimiser.h"

namespace plimsoll::python {
namespace {

using Numbers = nb::typed<nb::dict, nb::str, double>;

Levers levers_of(nb::handle given) {
  Levers levers;
  if (given.is_none()) return levers;
  const std::pair<const char*, bool Levers::*> known[] = {
      {"order", &Levers::order},         {"in_place", &Levers::in_place},       {"variants", &Levers::variants},
      {"recompute", &Levers::recompute}, {"micro_batch", &Levers::micro_batch}, {"spill", &Levers::spill}};
  for (const auto& [name, value] : nb::cast<nb::dict>(given)) {
    const std::string lever = nb::cast<std::string>(name);
    bool is_known = false;
    for (const auto& [text, member] : known)
      if (lever == text) {
        levers.*member = nb::cast<bool>(value);
        is_known = true;
      }
    if (!is_known)
      refuse_argument({"compile", "levers"}, "of order, in_place, variants, recompute, micro_batch, spill", name);
  }
  return levers;
}

// A function of dicts by name: outputs, targets.
std::function<Tensor(const NamedTensors&, const NamedTensors&)> objective_of(nb::handle function) {
  const auto held = keep(nb::borrow(function));
  PyObject* const kept = function.ptr();
  return [held, kept](const NamedTensors& outputs, const NamedTensors& targets) {
    const nb::gil_scoped_acquire lock;
    nb::dict made, wanted;
    for (const auto& [name, tensor] : outputs) made[name.c_str()] = to_python(tensor);
    for (const auto& [name, tensor] : targets) wanted[name.c_str()] = to_python(tensor);
    const nb::object loss = nb::handle(kept)(wanted, made);
    if (!nb::isinstance<Tensor>(loss))
      refuse_argument({"compile", "objective"}, "a function that returns a tensor", loss);
    return Tensor(*nb::inst_ptr<Tensor>(loss));
  };
}

void compile(Model& model, const PyOptimiser& optimizer, nb::handle loss, nb::handle objective, nb::handle loss_weights,
             nb::handle metrics, const std::optional<Pruning>& pruning, uint64_t seed, nb::handle levers,
             const std::string& policy, const std::optional<Freeze>& freeze, int64_t accumulate) {
  CompileOptions options;
  options.optimiser = optimizer.optimiser;
  options.schedule = optimizer.schedule;
  if (PyDict_Check(loss.ptr())) {
    for (const auto& [output, one] : nb::borrow<nb::dict>(loss))
      options.losses.emplace_back(nb::cast<std::string>(output), loss_of(one, {"compile", "loss"}));
  } else if (!loss.is_none()) {
    options.loss = loss_of(loss, {"compile", "loss"});
  }
  if (!objective.is_none()) options.objective = objective_of(objective);
  if (!loss_weights.is_none())
    for (const auto& [output, weight] : nb::cast<nb::dict>(loss_weights))
      options.loss_weights.emplace_back(nb::cast<std::string>(output), nb::cast<double>(weight));
  for (nb::handle metric : metrics) options.metrics.push_back(metric_of(metric, {"compile", "metrics"}));
  options.pruning = pruning;
  options.seed = seed;
  options.levers = levers_of(levers);
  options.policy = Policy::named(policy);
  if (freeze) options.freeze = *freeze;
  options.accumulate = accumulate;
  model.compile(options);
}

// What plan and fit take, in the order of their arguments.
struct FitArguments {
  int64_t epochs, initial_epoch;
  std::optional<Dataset> validation_data;
  int64_t validation_freq, validation_steps, steps_per_epoch;
  std::map<int64_t, double> class_weight;
  std::string sample_weight;
  int64_t batch_size;
  bool shuffle;
  double validation_split;
  int workers;
  Strategy strategy;
  Given<PathOf> scratch;
  uint64_t seed;
};

FitOptions options_of(const Line& line, const nb::kwargs& given) {
  FitOptions options;
  options.scratch = line.scratch;
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    const ArgumentPlace at{"fit", name.c_str()};
    if (name == "epochs")
      options.epochs = to_int(value, at);
    else if (name == "initial_epoch")
      options.initial_epoch = to_int(value, at);
    else if (name == "validation_data")
      options.validation = nb::cast<Dataset>(value);
    else if (name == "validation_freq")
      options.validation_frequency = to_int(value, at);
    else if (name == "validation_steps")
      options.validation_steps = to_int(value, at);
    else if (name == "steps_per_epoch")
      options.steps_per_epoch = to_int(value, at);
    else if (name == "class_weight")
      options.class_weight = nb::cast<std::map<int64_t, double>>(value);
    else if (name == "sample_weight")
      options.sample_weight = to_text(value, at);
    else if (name == "batch_size")
      options.batch = to_int(value, at);
    else if (name == "shuffle")
      options.shuffle = is_true(value, at);
    else if (name == "validation_split")
      options.validation_split = to_double(value, at);
    else if (name == "workers")
      options.workers = static_cast<int>(to_int(value, at));
    else if (name == "strategy")
      options.strategy = nb::cast<Strategy>(value);
    else if (name == "scratch")
      options.scratch = to_text(value, at);
    else if (name == "seed")
      options.seed = static_cast<uint64_t>(to_int(value, at));
    else if (name == "callbacks")
      options.callbacks = callbacks_of(value);
    else
      throw nb::type_error(("fit: there is no argument '" + name + "'").c_str());
  }
  return options;
}

Forecast plan(const Model& model, const Dataset& dataset, const Line& line, const nb::kwargs& given) {
  const FitOptions options = options_of(line, given);
  const nb::gil_scoped_release release;
  return model.plan(dataset, line.line, options);
}

History fit(Model& model, const Dataset& dataset, const Line& line, const nb::kwargs& given) {
  FitOptions options = options_of(line, given);
  const auto interruption = std::make_shared<Interruption>();
  options.callbacks.push_back(interruption);
  History history = [&] {
    const nb::gil_scoped_release release;
    return model.fit(dataset, line.line, options);
  }();
  interruption->rethrow();
  return history;
}

Evaluation evaluate(Model& model, const Dataset& dataset, const Line& line) {
  const nb::gil_scoped_release release;
  return model.evaluate(dataset, line.line);
}

// All outputs of all samples: a NumPy array for each output.
nb::object predict(Model& model, const Dataset& dataset, const Line& line) {
  std::vector<nb::list> parts(model.outputs().size());
  PredictOptions options;
  options.sink = [&](const Results& outputs, int64_t) {
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const View& view = outputs[i];
      const NumpyArray made = make_numpy(view.dtype, view.dims);
      std::memcpy(made.data, view.data(), static_cast<size_t>(view.bytes));
      parts[i].append(made.array);
    }
  };
  {
    const nb::gil_scoped_release release;
    model.predict(dataset, line.line, options);
  }
  nb::list outputs;
  const nb::object numpy = nb::module_::import_("numpy");
  for (const nb::list& part : parts)
    outputs.append(nb::len(part) == 1 ? nb::object(part[0]) : numpy.attr("concatenate")(part));
  return outputs;
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<Remedy>(module, "Remedy", "One way to make a step fit that does not.")
      .def_prop_ro("text", &Remedy::text, "What to change.")
      .def_prop_ro("slowdown", &Remedy::slowdown, "Predicted, in percent.")
      .def_prop_ro("changes_results", &Remedy::changes_results, "Whether results are others, beyond rounding.")
      .def("__repr__", [](const Remedy& remedy) { return "Remedy('" + remedy.text() + "')"; });
  nb::class_<Forecast>(module, "Forecast", "What a step will take before it runs.")
      .def_prop_ro("fits", &Forecast::fits)
      .def_prop_ro("line", &Forecast::line)
      .def_prop_ro("peak", &Forecast::peak)
      .def_prop_ro("smallest_line", &Forecast::smallest_line)
      .def_prop_ro("slowdown", &Forecast::slowdown)
      .def_prop_ro("is_bit_identical", &Forecast::is_bit_identical)
      .def_prop_ro("micro_batches", &Forecast::micro_batches)
      .def_prop_ro("remedies", [](const Forecast& forecast) { return forecast.remedies(); })
      .def_prop_ro("text", &Forecast::text)
      .def_prop_ro("json", &Forecast::json);
  nb::class_<EpochLog>(module, "EpochLog", "The numbers of one epoch.")
      .def_ro("epoch", &EpochLog::epoch)
      .def_ro("steps", &EpochLog::steps)
      .def_prop_ro("logs", [](const EpochLog& epoch) -> Numbers {
        nb::dict logs;
        for (const LogValue& log : epoch.logs) logs[log.name.c_str()] = log.value;
        return nb::borrow<Numbers>(logs);
      });
  nb::class_<History>(module, "History", "What a training leaves.")
      .def_prop_ro("epochs", [](const History& history) { return history.epochs; })
      .def_ro("stop_reason", &History::stop_reason)
      .def_ro("last_loss", &History::last_loss)
      .def_ro("skipped", &History::skipped)
      .def_ro("last_skipped", &History::last_skipped)
      .def_ro("validation_samples", &History::validation_samples);
  nb::class_<Evaluation>(module, "Evaluation", "What evaluate measured.")
      .def_ro("samples", &Evaluation::samples)
      .def_prop_ro("values", [](const Evaluation& evaluation) -> Numbers {
        nb::dict values;
        for (const LogValue& value : evaluation.values) values[value.name.c_str()] = value.value;
        return nb::borrow<Numbers>(values);
      });
  nb::class_<Strategy>(module, "Strategy", "How several train a model together.")
      .def(nb::init<>())
      .def_static(
          "ranks",
          [](int64_t shards, double timeout) {
            return Strategy::ranks({shards, timeout});
          },
          nb::arg("shards") = 0, nb::arg("timeout") = 300.0,
          "This process is one of several that mpirun or srun started.")
      .def_static(
          "mirrored",
          [](int replicas, int64_t shards, double timeout) {
            return Strategy::mirrored(replicas, {shards, timeout});
          },
          nb::arg("replicas"), nb::arg("shards") = 0, nb::arg("timeout") = 300.0,
          "So many replicas as threads of this process, under one line.")
      .def_static("pipeline", &Strategy::pipeline, nb::arg("first_layers"), nb::arg("micro_batches") = 0,
                  "Layers on ranks: each of these begins the stage of the next rank.");
  nb::class_<Freeze>(module, "Freeze", "Which weights training leaves alone.")
      .def(
          "__init__",
          [](Freeze* made, std::vector<std::string> patterns, std::vector<std::string> all_but, Given<DTypeOf> dtype) {
            new (made) Freeze{std::move(patterns), std::move(all_but), dtype_in(dtype)};
          },
          nb::arg("patterns") = std::vector<std::string>(), nb::arg("all_but") = std::vector<std::string>(),
          nb::arg("dtype") = "float32")
      .def(
          "freezes", [](const Freeze& freeze, const std::string& name) { return freeze.freezes(name); },
          nb::arg("name"));

  auto model = nb::borrow<nb::class_<Model>>(module.attr("Model"));
  model
      .def("compile", &compile, nb::arg("optimizer"), nb::arg("loss") = nb::none(), nb::arg("objective") = nb::none(),
           nb::arg("loss_weights") = nb::none(), nb::arg("metrics") = nb::make_tuple(), nb::arg("pruning") = nb::none(),
           nb::arg("seed") = 1, nb::arg("levers") = nb::none(), nb::arg("policy") = "float32",
           nb::arg("freeze") = nb::none(), nb::arg("accumulate") = 1)
      .def("plan", &plan, nb::arg("dataset"), nb::arg("line"), nb::arg("options"))
      .def("fit", &fit, nb::arg("dataset"), nb::arg("line"), nb::arg("options"))
      .def("evaluate", &evaluate, nb::arg("dataset"), nb::arg("line"))
      .def("predict", &predict, nb::arg("dataset"), nb::arg("line"))
      .def(
          "predict_to",
          [](Model& predicting, const Dataset& dataset, const Line& line, Given<PathOf> npy,
             const std::string& output) {
            const PredictOptions options{.npy = path_in(npy, "npy"), .output = output};
            const nb::gil_scoped_release release;
            predicting.predict(dataset, line.line, options);
          },
          nb::arg("dataset"), nb::arg("line"), nb::arg("npy"), nb::arg("output") = "")
      .def(
          "summary",
          [](const Model& of, int64_t batch) {
            const nb::gil_scoped_release release;
            return of.summary(batch);
          },
          nb::arg("batch") = 0)
      .def(
          "summary_on",
          [](const Model& of, const Dataset& dataset, const Line& line) {
            const nb::gil_scoped_release release;
            return of.summary(dataset, line.line);
          },
          nb::arg("dataset"), nb::arg("line"));
}

}  // namespace plimsoll::python

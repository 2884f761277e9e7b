// Graphs, sessions and their steps.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/session.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/given.h"
#include "python/line.h"
#include "python/operands.h"
#include "python/optimiser.h"

namespace plimsoll::python {
namespace {

// A scope of names between __enter__ and __exit__.
struct PyScope {
  std::shared_ptr<VariableStore> store;
  std::string name;
  bool reuses;
  std::unique_ptr<Scope> open = nullptr;
};

std::vector<Tensor> tensors_in(nb::handle given, const ArgumentPlace& at) {
  std::vector<Tensor> tensors;
  if (given.is_none()) return tensors;
  if (nb::isinstance<Tensor>(given)) return {*nb::inst_ptr<Tensor>(given)};
  for (nb::handle one : given) {
    if (!nb::isinstance<Tensor>(one)) refuse_argument(at, "tensors", one);
    tensors.push_back(*nb::inst_ptr<Tensor>(one));
  }
  return tensors;
}

// Arrays as placeholders take them; conversions are kept until the run is over.
struct Feeds {
  std::vector<Feed> feeds;
  std::vector<HostArray> arrays;
  std::vector<std::vector<std::byte>> converted;

  explicit Feeds(const nb::dict& given) {
    for (const auto& [key, value] : given) {
      if (!nb::isinstance<Tensor>(key)) refuse_argument({"a step", "feeds"}, "a dict of arrays by placeholder", key);
      add(*nb::inst_ptr<Tensor>(key), value);
    }
  }

 private:
  void add(const Tensor& placeholder, nb::handle value) {
    const std::string name(placeholder.name());
    const ArgumentPlace at{"a step", name.c_str()};
    HostArray array =
        nb::isinstance<Tensor>(value) ? array_of(value.attr("numpy")(), at) : array_of(value, at, placeholder.dtype());
    const void* data = array.data;
    Bytes bytes = array.bytes;
    if (array.foreign != Foreign::None) {
      std::vector<std::byte>& made = converted.emplace_back(static_cast<size_t>(array.count() * size_of(array.dtype)));
      convert_foreign(array.foreign, array.data, made.data(), array.count());
      data = made.data();
      bytes = static_cast<Bytes>(made.size());
    }
    if (array.dtype != placeholder.dtype())
      throw Error(fmt::format("placeholder '{}' is {} but the array is {}", name, numpy_name(placeholder.dtype()),
                              numpy_name(array.dtype)),
                  ErrorKind::Usage);
    feeds.emplace_back(placeholder, array.dtype, data, bytes);
    arrays.push_back(std::move(array));
  }
};

nb::object run_step(Step& step, const nb::dict& given) {
  const Feeds feeds(given);
  std::optional<Results> results;
  {
    const nb::gil_scoped_release release;
    results = step(feeds.feeds);
  }
  nb::list fetched;
  for (const View& view : *results) {
    const NumpyArray made = make_numpy(view.dtype, view.dims);
    if (view.dtype == DType::BF16)
      throw Error("bfloat16 has no NumPy type; fetch cast(x, 'float32')", ErrorKind::Usage);
    std::memcpy(made.data, view.data(), static_cast<size_t>(view.bytes));
    fetched.append(made.array);
  }
  return fetched;
}

template <class Use>
void with_numbers(DType dtype, void* data, size_t count, const Use& use) {
  switch (dtype) {
    case DType::F32:
      return use(std::span(static_cast<float*>(data), count));
    case DType::I32:
      return use(std::span(static_cast<int32_t*>(data), count));
    case DType::I64:
      return use(std::span(static_cast<int64_t*>(data), count));
    case DType::U8:
      return use(std::span(static_cast<uint8_t*>(data), count));
    case DType::I8:
      return use(std::span(static_cast<int8_t*>(data), count));
    case DType::Bool:
      return use(std::span(static_cast<bool*>(data), count));
    default:
      throw Error("variables of half floats can't be read as arrays", ErrorKind::Usage);
  }
}

nb::object get_variable(Session& session, const Tensor& variable) {
  const Dims dims = at_batch(variable.shape(), 1);
  const NumpyArray made = make_numpy(variable.dtype(), dims);
  const nb::gil_scoped_release release;
  with_numbers(variable.dtype(), made.data, static_cast<size_t>(element_count(dims)),
               [&](auto numbers) { session.get(variable, numbers); });
  return made.array;
}

void set_variable(Session& session, const Tensor& variable, nb::handle value) {
  HostArray array = array_of(value, {"set", "value"}, variable.dtype());
  std::vector<std::byte> converted;
  const void* data = array.data;
  if (array.foreign != Foreign::None) {
    converted.resize(static_cast<size_t>(array.count() * size_of(array.dtype)));
    convert_foreign(array.foreign, array.data, converted.data(), array.count());
    data = converted.data();
  }
  const nb::gil_scoped_release release;
  with_numbers(array.dtype, const_cast<void*>(data), static_cast<size_t>(array.count()),
               [&](auto numbers) { session.set(variable, numbers); });
}

void bind_graph(nb::module_& module) {
  nb::class_<PyScope>(module, "Scope", "Names made in its with statement start with its name.")
      .def(
          "__enter__",
          [](nb::handle self) {
            PyScope& scope = *nb::inst_ptr<PyScope>(self);
            scope.open = std::make_unique<Scope>(*scope.store, scope.name,
                                                 scope.reuses ? Scope::Mode::Reuse : Scope::Mode::Inherit);
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Scope"))
      .def(
          "__exit__", [](PyScope& scope, nb::args) { scope.open.reset(); },
          nb::sig("def __exit__(self, *raised: object) -> None"));
  nb::class_<Graph>(module, "Graph", "A graph being built: placeholders, variables, constants; operators add to it.",
                    nb::is_weak_referenceable())
      .def(nb::init<>())
      .def(
          "placeholder",
          [](Graph& graph, const std::string& name, Given<ShapeOf> shape, Given<DTypeOf> dtype) {
            return graph.placeholder(name, dtype_in(dtype), to_shape(shape.value, {"placeholder", "shape"}));
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "float32",
          "A value that is given with each step; None: the batch.")
      .def(
          "variable",
          [](Graph& graph, const std::string& name, Given<ShapeOf> shape, Given<InitOf> initializer,
             Given<DTypeOf> dtype, bool trainable) {
            return graph.variable(name, dtype_in(dtype), to_shape(shape.value, {"variable", "shape"}),
                                  to_init(initializer.value, {"variable", "initializer"}),
                                  trainable ? VariableRole::Weight : VariableRole::Statistic);
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("initializer") = "zeros", nb::arg("dtype") = "float32",
          nb::arg("trainable") = true, "What steps may change; in a scope that reuses, the one that is there.")
      .def(
          "constant",
          [](Graph& graph, nb::handle numbers, Given<DTypeOf> dtype) {
            const Tensor like = graph.scalar(0);
            const std::optional<DType> type = dtype.is_none() ? std::nullopt : std::optional<DType>(dtype_in(dtype));
            return tensor_of(numbers, {"constant", "numbers"}, type, like);
          },
          nb::arg("numbers"), nb::arg("dtype") = nb::none(), "Numbers that stay as they are.",
          nb::sig("def constant(self, numbers: TensorLike, dtype: DTypeLike | None = None) -> Tensor"))
      .def(
          "scope",
          [](Graph& graph, const std::string& name, bool reuse) {
            return PyScope{graph.store(), name, reuse};
          },
          nb::arg("name"), nb::arg("reuse") = false, "Names made in its with statement start with name/.")
      .def(
          "find", [](Graph& graph, const std::string& name) { return graph.find(name); }, nb::arg("name"),
          "The value of that full name.")
      .def(
          "allow_split", [](Graph& graph, const std::string& op) { graph.allow_split(op); }, nb::arg("op"),
          "Operators of that name may take each micro-batch for a batch of its own.")
      .def("finalize", &Graph::finalize, "After this the graph can't grow.")
      .def_prop_ro("is_finalized", &Graph::is_finalized, "Whether it can't grow any more.")
      .def("__str__", [](const Graph& graph) { return to_string(graph); });
}

void bind_updates(nb::module_& module) {
  nb::class_<Updates>(module, "Updates", "All that a training step changes.")
      .def_prop_ro(
          "learning_rate", [](const Updates& updates) { return to_python(updates.learning_rate); },
          nb::sig("def learning_rate(self) -> Tensor | None"), "The variable with the rate.")
      .def_prop_ro(
          "step", [](const Updates& updates) { return to_python(updates.step); },
          nb::sig("def step(self) -> Tensor | None"), "The variable that counts updates.")
      .def(
          "__add__",
          [](const Updates& a, const Updates& b) {
            Updates both = a;
            both.nodes.insert(both.nodes.end(), b.nodes.begin(), b.nodes.end());
            if (!both.learning_rate.is_set()) both.learning_rate = b.learning_rate;
            if (!both.step.is_set()) both.step = b.step;
            return both;
          },
          nb::arg("other"));
  nb::class_<Accumulation>(module, "Accumulation", "Training over several batches for each update.")
      .def_prop_ro(
          "add", [](const Accumulation& a) { return a.add; }, "Adds the gradients of a batch.")
      .def_prop_ro(
          "apply", [](const Accumulation& a) { return a.apply; }, "Updates the weights from the mean.")
      .def_prop_ro(
          "samples", [](const Accumulation& a) { return to_python(a.samples); }, nb::sig("def samples(self) -> Tensor"),
          "A variable: samples since the last update.")
      .def_prop_ro(
          "batches", [](const Accumulation& a) { return to_python(a.batches); }, nb::sig("def batches(self) -> Tensor"),
          "A variable: batches since the last update.");
  module.def(
      "minimize",
      [](const Tensor& loss, const PyOptimiser& optimizer, nb::handle weights) {
        return minimize(loss, optimizer.optimiser, tensors_in(weights, {"minimize", "weights"}));
      },
      nb::arg("loss"), nb::arg("optimizer"), nb::arg("weights") = nb::none(),
      nb::sig("def minimize(loss: Tensor, optimizer: Optimizer, weights: Sequence[Tensor] | None = None) -> Updates"),
      "Adds to the graph of a loss all that one training step needs.");
  module.def(
      "accumulate",
      [](const Tensor& loss, const PyOptimiser& optimizer, nb::handle weights) {
        return accumulate(loss, optimizer.optimiser, tensors_in(weights, {"accumulate", "weights"}));
      },
      nb::arg("loss"), nb::arg("optimizer"), nb::arg("weights") = nb::none(),
      nb::sig("def accumulate(loss: Tensor, optimizer: Optimizer, weights: Sequence[Tensor] | None = None) -> "
              "Accumulation"),
      "The same in two steps: gradients of several batches are added up for each update.");
  module.def(
      "gradients",
      [](const Tensor& loss, nb::handle wrt, nb::handle seed) {
        const Tensor weighs = seed.is_none() ? Tensor() : *nb::inst_ptr<Tensor>(seed);
        nb::list list;
        for (const Gradient& gradient : gradients(loss, tensors_in(wrt, {"gradients", "wrt"}), weighs))
          list.append(gradient.is_sparse() ? nb::cast(gradient) : to_python(gradient.value));
        return list;
      },
      nb::arg("loss"), nb::arg("wrt"), nb::arg("seed") = nb::none(),
      nb::sig("def gradients(loss: Tensor, wrt: Sequence[Tensor], seed: Tensor | None = None) -> list[Tensor | "
              "SparseGradient | None]"),
      "In a graph: the gradient of a scalar loss for each of wrt, None where none flows.");
  module.def(
      "apply_gradients",
      [](const PyOptimiser& optimizer, nb::handle given, nb::handle weights) {
        std::vector<Gradient> all;
        for (nb::handle one : given) {
          if (one.is_none())
            all.emplace_back();
          else if (nb::isinstance<Gradient>(one))
            all.push_back(*nb::inst_ptr<Gradient>(one));
          else
            all.push_back({nb::cast<Tensor>(one), {}});
        }
        return apply_gradients(optimizer.optimiser, all, tensors_in(weights, {"apply_gradients", "weights"}));
      },
      nb::arg("optimizer"), nb::arg("gradients"), nb::arg("weights"),
      nb::sig("def apply_gradients(optimizer: Optimizer, gradients: Sequence[Tensor | SparseGradient | None], weights: "
              "Sequence[Tensor]) -> Updates"),
      "The second half of minimize, for gradients of one's own.");
  module.def(
      "assign",
      [](const Tensor& variable, nb::handle value) {
        const NodeId node = assign(variable, tensor_of(value, {"assign", "value"}, variable.dtype(), variable));
        Updates updates;
        updates.nodes.push_back(node);
        return updates;
      },
      nb::arg("variable"), nb::arg("value"), nb::sig("def assign(variable: Tensor, value: TensorLike) -> Updates"),
      "In a graph: an update by which the variable takes a value.");
}

}  // namespace

void bind_session(nb::module_& module) {
  bind_graph(module);
  bind_updates(module);
  nb::class_<Step>(module, "Step", "A planned step of a session.")
      .def("__call__", &run_step, nb::arg("feeds") = nb::dict(),
           nb::sig("def __call__(self, feeds: Mapping[Tensor, Any] = {}) -> list[NDArray[Any]]"),
           "Runs it with an array for each placeholder; gives what it fetches.")
      .def_prop_ro("batch", &Step::batch, "As planned; others are planned when they first come.")
      .def_prop_ro(
          "forecast",
          [](const Step& step) { return nb::module_::import_("plimsoll.reports").attr("Forecast")(step.forecast()); },
          nb::sig("def forecast(self) -> plimsoll.reports.Forecast"),
          "Its peak, predicted time, and what was done to fit.");
  nb::class_<Session>(module, "Session",
                      "A graph made ready to run under a line: steps are planned before memory is taken.")
      .def(
          "__init__",
          [](Session* made, Graph& graph, const Line& line, nb::handle scratch, Given<BytesOf> disk_limit,
             uint64_t seed, const std::string& policy, bool finds_bad_numbers) {
            const Reading reading("Session");
            SessionOptions options;
            options.scratch_folder = scratch.is_none() ? line.scratch : to_text(scratch, {"Session", "scratch"});
            options.disk_limit = bytes_in(disk_limit, "disk_limit");
            options.seed = seed;
            options.policy = Policy::named(policy);
            options.finds_bad_numbers = finds_bad_numbers;
            new (made) Session(graph, line.line, options);
          },
          nb::arg("graph"), nb::arg("line"), nb::arg("scratch") = nb::none(), nb::arg("disk_limit") = nb::none(),
          nb::arg("seed") = 0, nb::arg("policy") = "float32", nb::arg("finds_bad_numbers") = false,
          nb::keep_alive<1, 2>(),
          nb::sig("def __init__(self, graph: Graph, line: Line, scratch: str | None = None, disk_limit: int | str | "
                  "None = None, seed: int = 0, policy: str = 'float32', finds_bad_numbers: bool = False) -> None"))
      .def(
          "step",
          [](Session& session, nb::handle fetch, const std::optional<Updates>& update, int64_t batch) {
            StepSpec spec{tensors_in(fetch, {"step", "fetch"}), update.value_or(Updates{}), batch};
            const nb::gil_scoped_release release;
            return session.step(spec);
          },
          nb::arg("fetch") = nb::none(), nb::arg("update") = nb::none(), nb::arg("batch") = 1,
          nb::sig("def step(self, fetch: Tensor | Sequence[Tensor] | None = None, update: Updates | None = None, "
                  "batch: int = 1) -> Step"),
          "Plans one more step: values to hand out, and what to change.")
      .def(
          "forecast",
          [](Session& session, nb::handle fetch, const std::optional<Updates>& update, int64_t batch) {
            StepSpec spec{tensors_in(fetch, {"forecast", "fetch"}), update.value_or(Updates{}), batch};
            const Forecast forecast = [&] {
              const nb::gil_scoped_release release;
              return session.forecast(spec);
            }();
            return nb::module_::import_("plimsoll.reports").attr("Forecast")(forecast);
          },
          nb::arg("fetch") = nb::none(), nb::arg("update") = nb::none(), nb::arg("batch") = 1,
          nb::sig("def forecast(self, fetch: Tensor | Sequence[Tensor] | None = None, update: Updates | None = None, "
                  "batch: int = 1) -> plimsoll.reports.Forecast"),
          "What such a step would take, without adding it: not fitting is an answer.")
      .def("open", &Session::open, nb::call_guard<nb::gil_scoped_release>(),
           "Takes the memory and gives every variable its initial value; the first run does it when needed.")
      .def("close", &Session::close, nb::call_guard<nb::gil_scoped_release>(), "Gives every byte back; twice is fine.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Session"))
      .def(
          "__exit__", [](Session& session, nb::args) { session.close(); },
          nb::sig("def __exit__(self, *raised: object) -> None"))
      .def_prop_ro("is_open", &Session::is_open, "Whether it holds memory.")
      .def("get", &get_variable, nb::arg("variable"), nb::sig("def get(self, variable: Tensor) -> NDArray[Any]"),
           "The numbers of a variable.")
      .def("set", &set_variable, nb::arg("variable"), nb::arg("value"),
           nb::sig("def set(self, variable: Tensor, value: Any) -> None"), "Gives a variable its numbers.")
      .def(
          "save",
          [](Session& session, Given<PathOf> path) {
            const std::string to = path_in(path);
            const nb::gil_scoped_release release;
            session.save(to);
          },
          nb::arg("path"), "All variables and the number of steps as a safetensors file.")
      .def(
          "load",
          [](Session& session, Given<PathOf> path) {
            const std::string from = path_in(path);
            const nb::gil_scoped_release release;
            session.load(from);
          },
          nb::arg("path"), "Goes on from such a file.")
      .def_prop_ro("step_count", &Session::step_count, "Training steps so far.")
      .def_prop_ro("arena_bytes", &Session::arena_bytes, "What open takes.")
      .def_prop_ro("peak_bytes", &Session::peak_bytes, "Of arena, input buffers, runtime and planning.")
      .def_prop_ro("file_bytes", &Session::file_bytes, "Of the scratch file.");
}

}  // namespace plimsoll::python

// Eager code and tapes.
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/line.h"
#include "python/operands.h"
#include "python/place.h"
#include "python/types.h"

namespace plimsoll::python {
namespace {

// An Eager that is open between __enter__ and __exit__.
struct PyEager {
  Line line;
  EagerOptions options;
  std::unique_ptr<Eager> open = nullptr;
  PyEager(const Line& under, const EagerOptions& with) : line(under), options(with) {}
  ~PyEager();

  Eager& opened() const {
    if (open == nullptr) throw Error("the Eager is not open: use it in a with statement", ErrorKind::Usage);
    return *open;
  }
};

// Of this thread, the innermost last.
thread_local std::vector<PyEager*> open_eagers;

void open(PyEager& eager) {
  if (eager.open != nullptr) return;
  eager.open = std::make_unique<Eager>(eager.line.line, eager.options);
  open_eagers.push_back(&eager);
}
void close(PyEager& eager) {
  std::erase(open_eagers, &eager);
  eager.open.reset();
}

PyEager::~PyEager() { std::erase(open_eagers, this); }

struct PyTape {
  TapeOptions options;
  std::unique_ptr<Tape> open;
  bool is_recording = false;

  Tape& opened() const {
    if (open == nullptr)
      throw Error("the tape has not recorded anything: use it in a with statement", ErrorKind::Usage);
    return *open;
  }
};

std::vector<Tensor> tensors_of(nb::handle given, const ArgumentPlace& at) {
  std::vector<Tensor> tensors;
  for (nb::handle item : given) {
    if (!nb::isinstance<Tensor>(item)) refuse_argument(at, "tensors", item);
    tensors.push_back(*nb::inst_ptr<Tensor>(item));
  }
  return tensors;
}

nb::object gradient_of(const PyTape& tape, nb::handle target, nb::handle sources, nb::handle seed) {
  const ArgumentPlace at{"gradient", "sources"};
  if (!nb::isinstance<Tensor>(target)) refuse_argument({"gradient", "target"}, "a tensor", target);
  const Tensor& of = *nb::inst_ptr<Tensor>(target);
  const Tensor weighs = seed.is_none() ? Tensor() : tensor_of(seed, {"gradient", "output_gradients"}, of.dtype());
  const std::source_location where = place();
  if (nb::isinstance<Tensor>(sources)) {
    const Tensor& source = *nb::inst_ptr<Tensor>(sources);
    const nb::gil_scoped_release release;
    const Tensor gradient = tape.opened().gradient(of, source, weighs, where);
    const nb::gil_scoped_acquire lock;
    return to_python(gradient);
  }
  const std::vector<Tensor> all = tensors_of(sources, at);
  std::vector<Gradient> gradients;
  {
    const nb::gil_scoped_release release;
    gradients = tape.opened().gradient(of, all, weighs, where);
  }
  nb::list list;
  for (const Gradient& gradient : gradients) {
    if (gradient.is_sparse())
      list.append(nb::cast(gradient));
    else
      list.append(to_python(gradient.value));
  }
  return list;
}

Dims dims_of(nb::handle shape, const char* function) { return to_dims(shape, {function, "shape"}); }

void bind_makers(nb::module_& module) {
  module.def(
      "tensor",
      [](nb::handle numbers, nb::handle dtype) {
        const std::optional<DType> type =
            dtype.is_none() ? std::nullopt : std::optional<DType>(to_dtype(dtype, {"tensor", "dtype"}));
        return to_python(tensor_of(numbers, {"tensor", "numbers"}, type));
      },
      nb::arg("numbers"), nb::arg("dtype") = nb::none(),
      nb::sig("def tensor(numbers: TensorLike, dtype: DTypeLike | None = None) -> Tensor"),
      "A tensor of these numbers, which are copied: an array, lists, a number. float64 becomes float32.");
  module.def(
      "zeros",
      [](nb::handle shape, nb::handle dtype) {
        return to_python(zeros(dims_of(shape, "zeros"), to_dtype(dtype, {"zeros", "dtype"}), place()));
      },
      nb::arg("shape"), nb::arg("dtype") = "float32",
      nb::sig("def zeros(shape: int | Sequence[int], dtype: DTypeLike = 'float32') -> Tensor"), "A tensor of zeros.");
  module.def(
      "ones",
      [](nb::handle shape, nb::handle dtype) {
        return to_python(ones(dims_of(shape, "ones"), to_dtype(dtype, {"ones", "dtype"}), place()));
      },
      nb::arg("shape"), nb::arg("dtype") = "float32",
      nb::sig("def ones(shape: int | Sequence[int], dtype: DTypeLike = 'float32') -> Tensor"), "A tensor of ones.");
  module.def(
      "full",
      [](nb::handle shape, double value, nb::handle dtype) {
        return to_python(full(dims_of(shape, "full"), value, to_dtype(dtype, {"full", "dtype"}), place()));
      },
      nb::arg("shape"), nb::arg("value"), nb::arg("dtype") = "float32",
      nb::sig("def full(shape: int | Sequence[int], value: float, dtype: DTypeLike = 'float32') -> Tensor"),
      "A tensor of one number.");
  module.def(
      "normal",
      [](nb::handle shape, double mean, double deviation) {
        return to_python(normal(dims_of(shape, "normal"), mean, deviation, place()));
      },
      nb::arg("shape"), nb::arg("mean") = 0.0, nb::arg("deviation") = 1.0,
      nb::sig("def normal(shape: int | Sequence[int], mean: float = 0.0, deviation: float = 1.0) -> Tensor"),
      "Normally distributed random numbers, others in each call; the same in every run with the same seed.");
  module.def(
      "uniform",
      [](nb::handle shape, double low, double high) {
        return to_python(uniform(dims_of(shape, "uniform"), low, high, place()));
      },
      nb::arg("shape"), nb::arg("low") = 0.0, nb::arg("high") = 1.0,
      nb::sig("def uniform(shape: int | Sequence[int], low: float = 0.0, high: float = 1.0) -> Tensor"),
      "Evenly distributed random numbers from low up to, but not including, high.");
  module.def(
      "arange",
      [](double begin, std::optional<double> end, double step, nb::handle dtype) {
        const DType type = to_dtype(dtype, {"arange", "dtype"});
        return to_python(end ? arange(begin, *end, step, type, place()) : arange(0, begin, step, type, place()));
      },
      nb::arg("begin"), nb::arg("end") = nb::none(), nb::arg("step") = 1.0, nb::arg("dtype") = "float32",
      nb::sig("def arange(begin: float, end: float | None = None, step: float = 1.0, dtype: DTypeLike = 'float32') -> "
              "Tensor"),
      "Numbers from begin (0 where end is not given) up to, but not including, end.");
  module.def(
      "linspace", [](double low, double high, int64_t count) { return to_python(linspace(low, high, count, place())); },
      nb::arg("low"), nb::arg("high"), nb::arg("count"),
      nb::sig("def linspace(low: float, high: float, count: int) -> Tensor"),
      "So many numbers at equal distances, both ends included.");
  module.def(
      "eye",
      [](int64_t rows, int64_t columns, nb::handle dtype) {
        return to_python(eye(rows, columns, to_dtype(dtype, {"eye", "dtype"}), place()));
      },
      nb::arg("rows"), nb::arg("columns") = 0, nb::arg("dtype") = "float32",
      nb::sig("def eye(rows: int, columns: int = 0, dtype: DTypeLike = 'float32') -> Tensor"),
      "Ones on the diagonal, else zeros.");
}

}  // namespace

void bind_eager(nb::module_& module) {
  nb::class_<EagerFacts>(module, "EagerFacts", "Counts since an Eager was opened.")
      .def_ro("plans", &EagerFacts::plans, "Pieces of code that were planned.")
      .def_ro("planning_ms", &EagerFacts::planning_ms, "What planning took.")
      .def_ro("cached_plans", &EagerFacts::cached_plans, "Plans that are kept now.")
      .def_ro("dropped", &EagerFacts::dropped, "Values that were dropped to make room.")
      .def_ro("spilled", &EagerFacts::spilled, "Values that were written to the scratch file.")
      .def_ro("recomputed", &EagerFacts::recomputed, "Dropped values that were computed again.")
      .def_ro("values", &EagerFacts::values, "Values that exist now.")
      .def_ro("pending", &EagerFacts::pending, "Operators that are recorded and did not run yet.");

  nb::class_<PyEager>(
      module, "Eager",
      "Eager code under a line: in its with statement operators run on numbers. For one thread: that which "
      "opened it.")
      .def(
          "__init__",
          [](PyEager* made, const Line& line, uint64_t seed, const std::optional<std::string>& scratch,
             nb::handle disk_limit, nb::handle plan_cache) {
            EagerOptions options{.seed = seed, .scratch_folder = scratch.value_or(line.scratch)};
            if (!disk_limit.is_none()) options.disk_limit = to_bytes(disk_limit, {"Eager", "disk_limit"});
            if (!plan_cache.is_none()) options.plan_cache_bytes = to_bytes(plan_cache, {"Eager", "plan_cache"});
            new (made) PyEager(line, options);
          },
          nb::arg("line"), nb::arg("seed") = 1, nb::arg("scratch") = nb::none(), nb::arg("disk_limit") = nb::none(),
          nb::arg("plan_cache") = nb::none(),
          nb::sig("def __init__(self, line: Line, seed: int = 1, scratch: str | None = None, disk_limit: int | str | "
                  "None = None, plan_cache: int | str | None = None) -> None"))
      .def("open", &open, "As entering its with statement.")
      .def("close", &close, "As leaving its with statement: its tensors have no numbers any more.")
      .def(
          "__enter__",
          [](nb::handle self) {
            self.attr("open")();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Eager"))
      .def(
          "__exit__", [](PyEager& eager, nb::args) { close(eager); },
          nb::sig("def __exit__(self, *raised: object) -> None"))
      .def(
          "run",
          [](PyEager& eager) {
            const nb::gil_scoped_release release;
            eager.opened().run();
          },
          "Runs all that is recorded.")
      .def(
          "variable",
          [](PyEager& eager, const std::string& name, nb::handle shape, nb::handle init, bool trainable) {
            return to_python(eager.opened().variable(
                name, to_shape(shape, {"variable", "shape"}), to_init(init, {"variable", "initializer"}),
                trainable ? VariableRole::Weight : VariableRole::Statistic, place()));
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("initializer") = "zeros", nb::arg("trainable") = true,
          nb::sig("def variable(self, name: str, shape: int | Sequence[int], initializer: Init | str = 'zeros', "
                  "trainable: bool = True) -> Tensor"),
          "The variable of that name, made when there is none.")
      .def(
          "variables", [](const PyEager& eager) { return to_python(eager.opened().variables(), nullptr); },
          nb::sig("def variables(self) -> list[Tensor]"),
          "All trained variables, in the order in which they were made.")
      .def(
          "save",
          [](PyEager& eager, nb::handle path) {
            const std::string to = to_text(path, {"save", "path"});
            const nb::gil_scoped_release release;
            eager.opened().save(to);
          },
          nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "All variables, and where random numbers stand, as a safetensors file.")
      .def(
          "load",
          [](PyEager& eager, nb::handle path) {
            const std::string from = to_text(path, {"load", "path"});
            const nb::gil_scoped_release release;
            eager.opened().load(from);
          },
          nb::arg("path"), nb::sig("def load(self, path: str | os.PathLike[str]) -> None"), "Goes on from such a file.")
      .def_prop_ro(
          "facts", [](const PyEager& eager) { return eager.opened().facts(); }, "Counts since it was opened.")
      .def_prop_ro(
          "line", [](const PyEager& eager) { return eager.line; }, "The line that it runs under.")
      .def_prop_ro(
          "is_open", [](const PyEager& eager) { return eager.open != nullptr; }, "Whether it is open.");

  nb::class_<Gradient>(module, "SparseGradient", "Rows of the gradient of a table.")
      .def_prop_ro(
          "value", [](const Gradient& gradient) { return to_python(gradient.value); },
          nb::sig("def value(self) -> Tensor"), "The rows.")
      .def_prop_ro(
          "rows", [](const Gradient& gradient) { return to_python(gradient.rows); },
          nb::sig("def rows(self) -> Tensor"), "Their numbers, with repeats.");

  nb::class_<PyTape>(module, "Tape",
                     "Gradients of eager code: what is computed in its with statement can be differentiated.")
      .def(
          "__init__",
          [](PyTape* made, bool persistent, bool watch_accessed_variables) {
            new (made) PyTape{{persistent, watch_accessed_variables}, nullptr};
          },
          nb::arg("persistent") = false, nb::arg("watch_accessed_variables") = true)
      .def(
          "__enter__",
          [](nb::handle self) {
            PyTape& tape = *nb::inst_ptr<PyTape>(self);
            tape.open = std::make_unique<Tape>(tape.options);
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Tape"))
      .def(
          "__exit__", [](PyTape&, nb::args) {}, nb::sig("def __exit__(self, *raised: object) -> None"))
      .def(
          "watch",
          [](PyTape& tape, nb::handle tensors) {
            if (nb::isinstance<Tensor>(tensors)) return tape.opened().watch(*nb::inst_ptr<Tensor>(tensors));
            for (const Tensor& tensor : tensors_of(tensors, {"watch", "tensor"})) tape.opened().watch(tensor);
          },
          nb::arg("tensor"), nb::sig("def watch(self, tensor: Tensor | Sequence[Tensor]) -> None"),
          "From now on, what is computed from it can be differentiated with respect to it.")
      .def("gradient", gradient_of, nb::arg("target"), nb::arg("sources"), nb::arg("output_gradients") = nb::none(),
           nb::sig(
               "def gradient(self, target: Tensor, sources: Any, output_gradients: TensorLike | None = None) -> Any"),
           "The gradient of target, or of the sum of its elements, for each source: None where the two are not "
           "connected.")
      .def(
          "close", [](PyTape& tape) { tape.open.reset(); }, "Forgets what it recorded.");
  module.def(
      "current_eager", []() -> nb::object { return open_eagers.empty() ? nb::none() : nb::find(open_eagers.back()); },
      nb::sig("def current_eager() -> Eager | None"), "The innermost Eager that is open in this thread.");
  bind_makers(module);
}

}  // namespace plimsoll::python

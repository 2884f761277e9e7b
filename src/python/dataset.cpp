// Datasets: the engine's, below the class that plimsoll.data gives to programs.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/elements.h"
#include "python/given.h"
#include "python/operands.h"
#include "python/python_call.h"

namespace plimsoll::python {
namespace {

// Arrays whose type tensors do not have are read as bytes and converted element by element: no copy of the whole.
Dataset slices(const std::vector<std::string>& names, nb::handle arrays) {
  std::vector<NamedArray> named;
  ElementSpec spec;
  std::vector<Foreign> foreign;
  size_t i = 0;
  for (nb::handle given : arrays) {
    const std::string& name = names.at(i++);
    HostArray array = array_of(given, {"from_tensor_slices", name.c_str()});
    if (array.dims.empty())
      throw Error(
          fmt::format("from_tensor_slices: '{}' is a single number; its first dimension must count elements", name),
          ErrorKind::Usage);
    Dims element;
    for (int axis = 1; axis < array.dims.rank(); ++axis) element.push_back(array.dims[axis]);
    spec.push_back({name, array.dtype, element});
    foreign.push_back(array.foreign);
    const bool is_foreign = array.foreign != Foreign::None;
    Dims dims = array.dims;
    if (is_foreign) {
      if (dims.rank() == kMaxRank)
        throw Error(fmt::format("from_tensor_slices: '{}' has too many dimensions for its type", name),
                    ErrorKind::Usage);
      dims.push_back(array.element_bytes());
    }
    named.emplace_back(name, is_foreign ? DType::U8 : array.dtype, dims, array.data, array.bytes, array.owner);
  }
  const Dataset stored = Dataset::slices(std::move(named));
  if (std::ranges::all_of(foreign, [](Foreign one) { return one == Foreign::None; })) return stored;
  return stored.map(spec, [foreign](const ElementView& from, const ElementSlot& to) {
    for (size_t c = 0; c < foreign.size(); ++c) {
      const ElementView& into = to.view();
      if (foreign[c] == Foreign::None)
        std::memcpy(to.data(c), from.data(c), static_cast<size_t>(from.bytes(c)));
      else
        convert_foreign(foreign[c], from.data(c), to.data(c), into.bytes(c) / size_of(into.spec()[c].dtype));
    }
  });
}

Dataset map_traced(const Dataset& dataset, nb::handle function, std::vector<std::string> names, int threads) {
  const auto held = keep(nb::borrow(function));
  PyObject* const kept = function.ptr();
  return dataset.map(
      [held, kept, names](const Sample& sample) {
        const nb::gil_scoped_acquire lock;
        nb::list given;
        for (const Tensor& tensor : {sample.x, sample.y})
          if (tensor.is_set()) given.append(to_python(tensor));
        for (const Tensor& tensor : sample.more) given.append(to_python(tensor));
        const nb::object made = nb::handle(kept)(given);
        const nb::object tensors = made[nb::int_(0)];
        Sample result;
        size_t i = 0;
        for (nb::handle tensor : tensors) {
          if (!nb::isinstance<Tensor>(tensor)) refuse_argument({"map", "its result"}, "tensors", tensor);
          const Tensor& one = *nb::inst_ptr<Tensor>(tensor);
          if (i == 0)
            result.x = one;
          else if (i == 1)
            result.y = one;
          else
            result.more.push_back(one);
          ++i;
        }
        result.names = nb::cast<std::vector<std::string>>(made[nb::int_(1)]);
        return result;
      },
      threads);
}

Dataset map_python(const Dataset& dataset, nb::handle spec, nb::handle function, int threads) {
  const auto held = keep(nb::borrow(function));
  PyObject* const kept = function.ptr();
  return dataset.map(
      spec_of(spec),
      [held, kept](const ElementView& from, const ElementSlot& to) {
        call_python([&] {
          const nb::gil_scoped_acquire lock;
          write_element(nb::handle(kept)(arrays_of(from)), to, "map");
        });
      },
      threads);
}

Dataset filter(const Dataset& dataset, nb::handle function) {
  const auto held = keep(nb::borrow(function));
  PyObject* const kept = function.ptr();
  return dataset.filter([held, kept](const ElementView& element) {
    bool is_kept = false;
    call_python([&] {
      const nb::gil_scoped_acquire lock;
      is_kept = is_true(nb::handle(kept)(arrays_of(element)), {"filter", "the result"});
    });
    return is_kept;
  });
}

// An iterator of Python, begun when its first element is asked for.
class PythonIterator {
 public:
  explicit PythonIterator(PyObject* factory) : factory_(factory) {}
  PythonIterator(const PythonIterator&) = delete;
  PythonIterator& operator=(const PythonIterator&) = delete;
  ~PythonIterator() {
    if (!nb::is_alive()) {
      iterator_.release();
      return;
    }
    const nb::gil_scoped_acquire lock;
    iterator_.reset();
  }
  bool next(const ElementSlot& to) {
    if (!iterator_.is_valid()) iterator_ = nb::iter(nb::handle(factory_)());
    const nb::object element = nb::steal(PyIter_Next(iterator_.ptr()));
    if (element.is_valid()) {
      write_element(element, to, "from_generator");
      return true;
    }
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return false;
  }

 private:
  PyObject* const factory_;
  nb::object iterator_;
};

Dataset generator(nb::handle spec, nb::handle factory) {
  const auto held = keep(nb::borrow(factory));
  PyObject* const kept = factory.ptr();
  return Dataset::generator(spec_of(spec), [held, kept] {
    const auto iterator = std::make_shared<PythonIterator>(kept);
    return [held, iterator](const ElementSlot& to) {
      bool is_there = false;
      call_python([&] {
        const nb::gil_scoped_acquire lock;
        is_there = iterator->next(to);
      });
      return is_there;
    };
  });
}

Dataset interleave(const Dataset& dataset, nb::handle function, int64_t cycle, int64_t block, int threads,
                   const std::optional<Dataset>& like) {
  const auto held = keep(nb::borrow(function));
  PyObject* const kept = function.ptr();
  InterleaveOptions options{.cycle = cycle, .block = block, .threads = threads};
  if (like) options.like = &*like;
  return dataset.interleave(
      [held, kept](const ElementView& element) {
        std::optional<Dataset> made;
        call_python([&] {
          const nb::gil_scoped_acquire lock;
          made = nb::cast<Dataset>(nb::handle(kept)(arrays_of(element)));
        });
        return *made;
      },
      options);
}

PaddedBatchOptions padding_of(nb::handle shapes, nb::handle values, bool drop_remainder) {
  PaddedBatchOptions options;
  options.drop_remainder = drop_remainder;
  if (!shapes.is_none())
    for (nb::handle shape : shapes) {
      Dims dims;
      for (nb::handle size : shape)
        dims.push_back(size.is_none() ? -1 : to_int(size, {"padded_batch", "padded_shapes"}));
      options.shapes.push_back(dims);
    }
  if (!values.is_none()) options.values = nb::cast<std::vector<double>>(values);
  return options;
}

}  // namespace

void bind_dataset(nb::module_& module) {
  module.attr("AUTOTUNE") = AUTOTUNE;
  bind_iteration(module);
  auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Dataset>(module, "Dataset", "The engine's dataset.")
      .def_static("slices", &slices, nb::arg("names"), nb::arg("arrays"))
      .def_static("range", nb::overload_cast<int64_t, int64_t, int64_t>(&Dataset::range), nb::arg("start"),
                  nb::arg("stop"), nb::arg("step"))
      .def_static("generator", &generator, nb::arg("spec"), nb::arg("factory"))
      .def_static(
          "files",
          [](const std::vector<std::pair<std::string, std::string>>& paths, const std::string& scratch) {
            return Dataset::files(paths, scratch);
          },
          nb::arg("paths"), nb::arg("scratch") = "", released)
      .def_static("npz", &Dataset::npz, nb::arg("path"), released)
      .def_static("csv", &csv_of, nb::arg("path"), nb::arg("options"))
      .def_static("tfrecord", &tfrecord_of, nb::arg("paths"), nb::arg("features"), nb::arg("threads"))
      .def_static("images", &images_of, nb::arg("path"), nb::arg("is_list"), nb::arg("options"))
      .def("map_traced", &map_traced, nb::arg("function"), nb::arg("names"), nb::arg("threads"))
      .def("map_python", &map_python, nb::arg("spec"), nb::arg("function"), nb::arg("threads"))
      .def("filter", &filter, nb::arg("function"))
      .def("interleave", &interleave, nb::arg("function"), nb::arg("cycle"), nb::arg("block"), nb::arg("threads"),
           nb::arg("like") = nb::none())
      .def("augment", &augmented, nb::arg("options"))
      .def("resize", &resized, nb::arg("options"))
      .def(
          "shuffle",
          [](const Dataset& d, int64_t count, Bytes bytes, uint64_t seed, bool reshuffle) {
            return d.shuffle(ShuffleOptions{count, bytes, seed, reshuffle});
          },
          nb::arg("count"), nb::arg("bytes"), nb::arg("seed"), nb::arg("reshuffle"))
      .def("skip_corrupt", &Dataset::skip_corrupt, nb::arg("most"))
      .def("batch", &Dataset::batch, nb::arg("count"), nb::arg("drop_remainder"))
      .def(
          "padded_batch",
          [](const Dataset& d, int64_t count, nb::handle shapes, nb::handle values, bool drop_remainder) {
            return d.padded_batch(count, padding_of(shapes, values, drop_remainder));
          },
          nb::arg("count"), nb::arg("shapes").none(), nb::arg("values").none(), nb::arg("drop_remainder"))
      .def("unbatch", &Dataset::unbatch)
      .def(
          "window",
          [](const Dataset& d, int64_t count, int64_t shift, int64_t stride, bool drop_remainder) {
            return d.window(count, {shift, stride, drop_remainder});
          },
          nb::arg("count"), nb::arg("shift"), nb::arg("stride"), nb::arg("drop_remainder"))
      .def_static("zip", &Dataset::zip, nb::arg("datasets"))
      .def("concatenate", &Dataset::concatenate, nb::arg("other"))
      .def("enumerate", &Dataset::enumerate, nb::arg("start"))
      .def(
          "cache", [](const Dataset& d, const std::string& path) { return path.empty() ? d.cache() : d.cache(path); },
          nb::arg("path"))
      .def("repeat", &Dataset::repeat, nb::arg("times"))
      .def("take", &Dataset::take, nb::arg("count"))
      .def("skip", &Dataset::skip, nb::arg("count"))
      .def("shard", &Dataset::shard, nb::arg("shards"), nb::arg("index"))
      .def("prefetch", &Dataset::prefetch, nb::arg("count"))
      .def_prop_ro("element", [](const Dataset& d) { return to_python(d.element()); })
      .def_prop_ro("size", &Dataset::size)
      .def_prop_ro("class_names", &Dataset::class_names)
      .def_prop_ro("is_random_access", &Dataset::is_random_access)
      .def_prop_ro("bytes", &Dataset::bytes)
      .def("useful_bytes", &Dataset::useful_bytes, nb::arg("room"))
      .def_prop_ro("stages", [](const Dataset& d) { return to_python(d.stages()); })
      .def("__str__", [](const Dataset& d) { return to_string(d); });
}

}  // namespace plimsoll::python

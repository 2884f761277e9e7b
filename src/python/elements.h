// Elements of datasets as NumPy arrays, and back; the options of sources from dicts of Python.
#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include <plimsoll/dataset.h>

namespace plimsoll::python {

namespace nb = nanobind;

ElementSpec spec_of(nb::handle given);          // [(name, dtype, shape, most), ...]
nb::object to_python(const ElementSpec& spec);  // the same
nb::object to_python(const std::vector<StageReport>& stages);
nb::list arrays_of(const ElementView& element);  // copies
// From a list of arrays, one for each component.
void write_element(nb::handle arrays, const ElementSlot& to, const char* stage);

Dataset csv_of(const std::string& path, const nb::dict& options);
Dataset tfrecord_of(const std::vector<std::string>& paths, nb::handle features, int threads);
Dataset images_of(const std::string& path, bool is_list, const nb::dict& options);
Dataset augmented(const Dataset& dataset, const nb::dict& options);
Dataset resized(const Dataset& dataset, const nb::dict& options);

}  // namespace plimsoll::python

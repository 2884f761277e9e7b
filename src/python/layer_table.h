// The table of layers: an entry makes a class of Python.
#pragma once

#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <plimsoll/layers.h>
#include "python/given.h"
#include "python/layer.h"

namespace plimsoll::python {

constexpr const char* kHere = ".";  // the variables are in the scope that is open

// A class of Python for each kind of layer.
template <class Make>
struct LayerOf : PyLayer {};

template <class Make, class... Given, class... Arguments>
void bind_made(nb::module_& module, const char* kind, const char* scope, const char* text, Make make,
               layers::Layer (Make::*)(Given...) const, const Arguments&... arguments) {
  nb::class_<LayerOf<Make>, PyLayer>(module, kind, text)
      .def(
          "__init__",
          [=](LayerOf<Make>* made, Given... given, const std::string& name) {
            const Reading reading(kind);
            const std::string full = name.empty() ? scope : name;
            new (made) LayerOf<Make>{{Model(full, make(given...)), full}};
          },
          arguments..., nb::arg("name") = "");
}

// layer(module, "Dense", "dense", "what it does", [](int64_t units, ...) { return layers::dense(units, ..., kHere); },
//       nb::arg("units"), ...)
template <class Make, class... Arguments>
void layer(nb::module_& module, const char* kind, const char* scope, const char* text, Make make,
           const Arguments&... arguments) {
  bind_made(module, kind, scope, text, make, &Make::operator(), arguments...);
}

void bind_more_layers(nb::module_& list);

}  // namespace plimsoll::python

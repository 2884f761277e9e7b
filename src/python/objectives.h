// What compile takes as a loss or a metric.
#pragma once

#include <nanobind/nanobind.h>

#include <plimsoll/model.h>
#include "python/types.h"

namespace plimsoll::python {

Loss loss_of(nb::handle given, const ArgumentPlace& at);
Metric metric_of(nb::handle given, const ArgumentPlace& at);

}  // namespace plimsoll::python

// Callbacks of fit that are written in Python.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include <nanobind/nanobind.h>

#include <plimsoll/callback.h>

namespace plimsoll::python {

namespace nb = nanobind;

// One of the engine as it is; any other object with on_event(event, run) is called at each event.
Callbacks callbacks_of(nb::handle list);

// Looks for Ctrl-C after steps, at most twenty times a second: training then stops with the weights of the last step,
// and `rethrow` throws what the handler of the signal raised.
class Interruption : public Callback {
 public:
  std::string name() const override { return "interruption"; }
  void after_step(FitRun& run) override { look(run); }
  void after_validation_step(FitRun& run) override { look(run); }
  bool runs_last() const override { return true; }
  void rethrow() const {
    if (raised_) throw nb::python_error(*raised_);
  }

 private:
  void look(FitRun& run);
  std::optional<nb::python_error> raised_;
  std::chrono::steady_clock::time_point looked_ = {};
};

}  // namespace plimsoll::python

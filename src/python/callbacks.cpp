#include "python/callbacks.h"

#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/given.h"

namespace plimsoll::python {
namespace {

// The training under way; Python may keep it longer than that goes on.
struct PyRun {
  FitRun* run = nullptr;
  FitRun& now() const {
    if (run == nullptr) throw Error("the training is over", ErrorKind::Usage);
    return *run;
  }
};

nb::dict logs_of(std::span<const LogValue> logs) {
  nb::dict named;
  for (const LogValue& log : logs) named[log.name.c_str()] = log.value;
  return named;
}

class PythonCallback final : public Callback {
 public:
  explicit PythonCallback(nb::handle object) : held_(keep(nb::borrow(object))), object_(object.ptr()) {
    name_ = nb::cast<std::string>(nb::str(object.type().attr("__name__")));
    if (nb::hasattr(object, "watches"))
      for (nb::handle name : nb::object(object.attr("watches"))) watches_.push_back(nb::cast<std::string>(name));
    // Steps may be short, and the interpreter's lock far away.
    const nb::object seconds = nb::getattr(object, "step_interval", nb::float_(0));
    hears_steps_ = !seconds.is_none();
    if (hears_steps_) between_steps_ = std::chrono::duration<double>(nb::cast<double>(seconds));
  }

  std::string name() const override { return name_; }
  void before_training(FitRun& run) override { call("before_training", run); }
  void after_step(FitRun& run) override {
    if (is_time()) call("after_step", run);
  }
  void after_validation_step(FitRun& run) override {
    if (is_time()) call("after_validation_step", run);
  }
  void after_epoch(FitRun& run) override { call("after_epoch", run); }
  void after_training(FitRun& run) override { call("after_training", run); }
  void finish(FitRun& run) override {
    call("finish", run);
    run_->run = nullptr;
  }
  std::vector<std::string> watches() const override { return watches_; }
  ~PythonCallback() override { run_->run = nullptr; }

  std::string state() const override {
    const nb::gil_scoped_acquire lock;
    if (!nb::hasattr(nb::handle(object_), "get_state")) return {};
    return nb::cast<std::string>(nb::str(nb::handle(object_).attr("get_state")()));
  }
  void restore(const std::string& state) override {
    const nb::gil_scoped_acquire lock;
    if (nb::hasattr(nb::handle(object_), "set_state")) nb::handle(object_).attr("set_state")(state);
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_time() {
    if (!hears_steps_) return false;
    if (between_steps_.count() == 0) return true;
    const Clock::time_point now = Clock::now();
    if (now - last_ < between_steps_) return false;
    last_ = now;
    return true;
  }
  void call(const char* event, FitRun& run) {
    const nb::gil_scoped_acquire lock;
    run_->run = &run;
    nb::handle(object_).attr("on_event")(event, run_);
  }

  const std::shared_ptr<const void> held_;
  PyObject* const object_;
  std::string name_;
  std::vector<std::string> watches_;
  bool hears_steps_ = true;
  std::chrono::duration<double> between_steps_{0};
  Clock::time_point last_ = {};
  const std::shared_ptr<PyRun> run_ = std::make_shared<PyRun>();
};

}  // namespace

void Interruption::look(FitRun& run) {
  constexpr auto kOften = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  if (raised_ || now - looked_ < kOften) return;
  looked_ = now;
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() == 0) return;
  raised_.emplace();
  run.stop("interrupted");
}

Callbacks callbacks_of(nb::handle list) {
  Callbacks callbacks;
  for (nb::handle one : list) {
    if (nb::isinstance<Callback>(one))
      callbacks.push_back(nb::cast<std::shared_ptr<Callback>>(one));
    else if (nb::hasattr(one, "on_event"))
      callbacks.push_back(std::make_shared<PythonCallback>(one));
    else
      refuse_argument({"fit", "callbacks"}, "a list of plimsoll.callbacks", one);
  }
  return callbacks;
}

void bind_callbacks(nb::module_& module) {
  nb::class_<PyRun>(module, "FitRun", "A training under way.")
      .def_prop_ro(
          "epoch", [](const PyRun& run) { return run.now().epoch(); }, "From 1.")
      .def_prop_ro(
          "epochs", [](const PyRun& run) { return run.now().epochs(); }, "The number of the last one.")
      .def_prop_ro(
          "steps", [](const PyRun& run) { return run.now().steps(); }, "Training steps done in all.")
      .def_prop_ro(
          "epoch_steps", [](const PyRun& run) { return run.now().epoch_steps(); }, "Of this epoch.")
      .def_prop_ro(
          "steps_per_epoch", [](const PyRun& run) { return run.now().steps_per_epoch(); }, "0: not known.")
      .def_prop_ro(
          "step_samples", [](const PyRun& run) { return run.now().step_samples(); }, "Of the last step.")
      .def_prop_ro("is_epoch_over", [](const PyRun& run) { return run.now().is_epoch_over(); })
      .def_prop_ro("is_resumed", [](const PyRun& run) { return run.now().is_resumed(); })
      .def_prop_ro("is_stopping", [](const PyRun& run) { return run.now().is_stopping(); })
      .def_prop_ro(
          "logs", [](const PyRun& run) { return logs_of(run.now().logs()); }, "Means over the epoch so far.")
      .def_prop_rw(
          "learning_rate", [](const PyRun& run) { return run.now().learning_rate(); },
          [](PyRun& run, double rate) { run.now().set_learning_rate(rate); }, "Of the next step.")
      .def(
          "stop", [](PyRun& run, std::string why) { run.now().stop(std::move(why)); }, nb::arg("reason"),
          "Takes no further step.")
      .def(
          "save_weights",
          [](PyRun& run, Given<PathOf> path) {
            const std::string to = path_in(path);
            const nb::gil_scoped_release release;
            run.now().save_weights(to);
          },
          nb::arg("path"))
      .def(
          "load_weights",
          [](PyRun& run, Given<PathOf> path) {
            const std::string from = path_in(path);
            const nb::gil_scoped_release release;
            run.now().load_weights(from);
          },
          nb::arg("path"))
      .def_prop_ro("line", [](const PyRun& run) { return run.now().line(); })
      .def_prop_ro("planned_peak", [](const PyRun& run) { return run.now().planned_peak(); })
      .def_prop_ro("measured_peak", [](const PyRun& run) { return run.now().measured_peak(); });

  nb::class_<Callback>(module, "EngineCallback", "A callback of the engine.").def_prop_ro("name", &Callback::name);
  nb::module_ list =
      module.def_submodule("callbacks", "Callbacks of the engine, with the names and defaults of Keras.");
  list.def(
      "EarlyStopping",
      [](const std::string& monitor, double min_delta, int64_t patience, const std::string& mode,
         std::optional<double> baseline, bool restore_best_weights, int64_t start_from_epoch) {
        return early_stopping({monitor, min_delta, patience, mode, baseline, restore_best_weights, start_from_epoch});
      },
      nb::arg("monitor") = "val_loss", nb::arg("min_delta") = 0.0, nb::arg("patience") = 0, nb::arg("mode") = "auto",
      nb::arg("baseline") = nb::none(), nb::arg("restore_best_weights") = false, nb::arg("start_from_epoch") = 0,
      "Stops when a number has not improved for `patience` epochs.");
  list.def(
      "ReduceLROnPlateau",
      [](const std::string& monitor, double factor, int64_t patience, const std::string& mode, double min_delta,
         int64_t cooldown, double min_lr) {
        return reduce_on_plateau({monitor, factor, patience, min_delta, mode, cooldown, min_lr});
      },
      nb::arg("monitor") = "val_loss", nb::arg("factor") = 0.1, nb::arg("patience") = 10, nb::arg("mode") = "auto",
      nb::arg("min_delta") = 1e-4, nb::arg("cooldown") = 0, nb::arg("min_lr") = 0.0,
      "Lowers the learning rate when a number has not improved.");
  list.def(
      "LearningRateScheduler",
      [](std::function<double(int64_t, double)> schedule) { return learning_rate_schedule(std::move(schedule)); },
      nb::arg("schedule"), "The rate of each epoch, from its number (from 0) and the rate before.");
  list.def(
      "CSVLogger",
      [](Given<PathOf> filename, const std::string& separator, bool append) {
        return csv_log(path_in(filename, "filename"), {append, separator.empty() ? ',' : separator[0]});
      },
      nb::arg("filename"), nb::arg("separator") = ",", nb::arg("append") = false, "A row for each epoch.");
  list.def(
      "JSONLogger", [](Given<PathOf> filename, bool append) { return json_log(path_in(filename, "filename"), append); },
      nb::arg("filename"), nb::arg("append") = false, "One JSON object for each epoch.");
  list.def(
      "TensorBoard",
      [](Given<PathOf> log_dir, int64_t histogram_freq, double seconds_between) {
        return event_files(path_in(log_dir, "log_dir"), {seconds_between, histogram_freq});
      },
      nb::arg("log_dir") = "logs", nb::arg("histogram_freq") = 0, nb::arg("seconds_between") = 1.0,
      "Event files for TensorBoard.");
  list.def(
      "Checkpoint",
      [](Given<PathOf> folder, int64_t every_steps, int64_t every_epochs, double every_seconds, bool resume,
         int64_t keep_newest, bool save_best_only, const std::string& monitor) {
        CheckpointOptions options;
        options.every_steps = every_steps;
        options.every_epochs = every_epochs;
        options.every_seconds = every_seconds;
        options.resume = resume;
        options.keep = keep_newest;
        options.save_best_only = save_best_only;
        options.monitor = monitor;
        return checkpoint(path_in(folder, "folder"), options);
      },
      nb::arg("folder"), nb::arg("every_steps") = 0, nb::arg("every_epochs") = 0, nb::arg("every_seconds") = 0.0,
      nb::arg("resume") = false, nb::arg("keep") = 3, nb::arg("save_best_only") = false,
      nb::arg("monitor") = "val_loss", "Checkpoints that a crash, a signal or a full disk leaves to go on from.");
}

}  // namespace plimsoll::python

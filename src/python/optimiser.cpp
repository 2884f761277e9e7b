// Optimisers and learning-rate schedules with Keras' words.
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/callback.h>
#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "python/bind.h"
#include "python/given.h"
#include "python/operands.h"
#include "python/optimiser.h"
#include "python/types.h"

namespace plimsoll::python {
namespace {

using Rate = Given<RateOf>;

// What every optimiser takes beside its own numbers.
struct Common {
  double weight_decay, clipnorm, clipvalue, global_clipnorm;
  int state_bits;
};

PyOptimiser make(Optimiser base, Given<RateOf> given, const Common& common, const char* name) {
  const nb::handle rate = given.value;
  PyOptimiser made{base, {}, name};
  if (nb::isinstance<RateSchedule>(rate)) {
    made.schedule = nb::cast<RateSchedule>(rate);
    made.optimiser.learning_rate = (*made.schedule)(0);
  } else {
    made.optimiser.learning_rate = to_double(rate, {name, "learning_rate"});
  }
  made.optimiser.weight_decay = common.weight_decay;
  made.optimiser.clip_norm = common.clipnorm;
  made.optimiser.clip_value = common.clipvalue;
  made.optimiser.global_clip_norm = common.global_clipnorm;
  made.optimiser.state_bits = common.state_bits;
  return made;
}

std::vector<Gradient> gradients_of(nb::handle given) {
  std::vector<Gradient> gradients;
  for (nb::handle item : given) {
    if (item.is_none())
      gradients.emplace_back();
    else if (nb::isinstance<Gradient>(item))
      gradients.push_back(*nb::inst_ptr<Gradient>(item));
    else if (nb::isinstance<Tensor>(item))
      gradients.push_back({*nb::inst_ptr<Tensor>(item), {}});
    else
      refuse_argument({"apply", "gradients"}, "a tensor or None for each weight", item);
  }
  return gradients;
}

std::vector<Tensor> weights_of(nb::handle given) {
  std::vector<Tensor> weights;
  for (nb::handle item : given) {
    if (!nb::isinstance<Tensor>(item)) refuse_argument({"apply", "weights"}, "tensors", item);
    weights.push_back(*nb::inst_ptr<Tensor>(item));
  }
  return weights;
}

void apply(const PyOptimiser& optimiser, nb::handle gradients, nb::handle weights) {
  if (optimiser.schedule)
    throw Error("a schedule counts the steps of fit; give eager code an optimizer with a number as its rate",
                ErrorKind::Usage);
  const std::vector<Gradient> all = gradients_of(gradients);
  const std::vector<Tensor> to = weights_of(weights);
  const nb::gil_scoped_release release;
  optimiser.optimiser.apply(all, to);
}

template <class Make, class... Arguments>
void optimizer(nb::module_& module, const char* name, const char* text, Make made, const Arguments&... arguments) {
  module.def(name, made, arguments..., nb::arg("weight_decay") = 0.0, nb::arg("clipnorm") = 0.0,
             nb::arg("clipvalue") = 0.0, nb::arg("global_clipnorm") = 0.0, nb::arg("state_bits") = 32, text);
}

void bind_schedules(nb::module_& module) {
  nb::class_<RateSchedule>(module, "Schedule", "A learning rate as a function of the number of updates done.")
      .def(
          "__call__", [](const RateSchedule& schedule, int64_t step) { return schedule(step); }, nb::arg("step"),
          "The rate of the update after so many.");
  nb::module_ list = module.def_submodule("schedules", "Learning rates as functions of the number of updates done.");
  list.def(
      "CosineDecay",
      [](double rate, int64_t steps, double alpha, int64_t warmup_steps, double warmup_from) {
        return RateSchedule::cosine(rate, steps, {alpha, warmup_steps, warmup_from});
      },
      nb::arg("initial_learning_rate"), nb::arg("decay_steps"), nb::arg("alpha") = 0.0, nb::arg("warmup_steps") = 0,
      nb::arg("warmup_from") = 0.0, "From the rate to alpha times it along a cosine, after an even warm-up.");
  list.def(
      "CosineDecayRestarts",
      [](double rate, int64_t steps, double t_mul, double m_mul, double alpha) {
        return RateSchedule::cosine_restarts(rate, steps, {t_mul, m_mul, alpha});
      },
      nb::arg("initial_learning_rate"), nb::arg("first_decay_steps"), nb::arg("t_mul") = 2.0, nb::arg("m_mul") = 1.0,
      nb::arg("alpha") = 0.0, "Cosines one after another.");
  list.def("ExponentialDecay", &RateSchedule::exponential, nb::arg("initial_learning_rate"), nb::arg("decay_steps"),
           nb::arg("decay_rate"), nb::arg("staircase") = false, "rate x decay_rate^(update / decay_steps).");
  list.def("PiecewiseConstantDecay", &RateSchedule::piecewise, nb::arg("boundaries"), nb::arg("values"),
           "values[i] up to and including update boundaries[i], then the last one.");
  list.def("PolynomialDecay", &RateSchedule::polynomial, nb::arg("initial_learning_rate"), nb::arg("decay_steps"),
           nb::arg("end_learning_rate") = 1e-4, nb::arg("power") = 1.0, nb::arg("cycle") = false,
           "From the rate to end_learning_rate in decay_steps.");
  list.def(
      "Function", [](std::function<double(int64_t)> rate) { return RateSchedule(std::move(rate)); }, nb::arg("rate"),
      "Any function of the number of updates done.");
}

}  // namespace

void bind_optimiser(nb::module_& module) {
  bind_schedules(module);
  nb::class_<PyOptimiser>(module, "Optimizer", "How gradients change weights.")
      .def_prop_ro(
          "name", [](const PyOptimiser& o) { return o.name; }, "Its kind.")
      .def_prop_rw(
          "learning_rate", [](const PyOptimiser& o) { return o.optimiser.learning_rate; },
          [](PyOptimiser& o, double rate) {
            o.optimiser.learning_rate = rate;
            o.schedule.reset();
          },
          "Its rate, or that of a schedule at the start.")
      .def_prop_ro(
          "momentum",
          [](const PyOptimiser& o) { return o.optimiser.has("momentum") ? o.optimiser.get("momentum") : 0.0; },
          "Of sgd and rmsprop.")
      .def_prop_ro(
          "weight_decay", [](const PyOptimiser& o) { return o.optimiser.weight_decay; }, "Apart from the gradient.")
      .def_prop_ro(
          "state_bits", [](const PyOptimiser& o) { return o.optimiser.state_bits; }, "Of an element of its state.")
      .def("apply", apply, nb::arg("gradients"), nb::arg("weights"),
           nb::sig("def apply(self, gradients: Sequence[Tensor | SparseGradient | None], weights: Sequence[Tensor]) -> "
                   "None"),
           "Eager code: updates the weights, one gradient for each; a weight whose gradient is None is left alone.")
      .def("__repr__",
           [](const PyOptimiser& o) { return fmt::format("{}(learning_rate={})", o.name, o.optimiser.learning_rate); });
  nb::module_ list = module.def_submodule("optimizers", "Optimizers with the formulas and defaults of Keras.");
  optimizer(
      list, "SGD", "Steps against the gradient, with momentum where it is given.",
      [](Rate rate, double momentum, bool nesterov, double decay, double norm, double value, double global, int bits) {
        return make(Optimiser::sgd(0.01, momentum, nesterov), rate, {decay, norm, value, global, bits}, "SGD");
      },
      nb::arg("learning_rate") = 0.01, nb::arg("momentum") = 0.0, nb::arg("nesterov") = false);
  optimizer(
      list, "Adam", "Adam, with the place of epsilon as in Keras.",
      [](Rate rate, double beta_1, double beta_2, double epsilon, double decay, double norm, double value,
         double global, int bits) {
        return make(Optimiser::adam(1e-3, beta_1, beta_2, epsilon), rate, {decay, norm, value, global, bits}, "Adam");
      },
      nb::arg("learning_rate") = 0.001, nb::arg("beta_1") = 0.9, nb::arg("beta_2") = 0.999, nb::arg("epsilon") = 1e-7);
  list.def(
      "AdamW",
      [](Rate rate, double decay, double beta_1, double beta_2, double epsilon, double norm, double value,
         double global, int bits) {
        return make(Optimiser::adam(1e-3, beta_1, beta_2, epsilon), rate, {decay, norm, value, global, bits}, "AdamW");
      },
      nb::arg("learning_rate") = 0.001, nb::arg("weight_decay") = 0.004, nb::arg("beta_1") = 0.9,
      nb::arg("beta_2") = 0.999, nb::arg("epsilon") = 1e-7, nb::arg("clipnorm") = 0.0, nb::arg("clipvalue") = 0.0,
      nb::arg("global_clipnorm") = 0.0, nb::arg("state_bits") = 32, "Adam with weight decay apart from the gradient.");
  optimizer(
      list, "RMSprop", "Steps relative to the root of the mean square of the gradient.",
      [](Rate rate, double rho, double momentum, double epsilon, bool centered, double decay, double norm, double value,
         double global, int bits) {
        Optimiser base = Optimiser::rmsprop(1e-3, rho, momentum, centered);
        base.set("epsilon", epsilon);
        return make(base, rate, {decay, norm, value, global, bits}, "RMSprop");
      },
      nb::arg("learning_rate") = 0.001, nb::arg("rho") = 0.9, nb::arg("momentum") = 0.0, nb::arg("epsilon") = 1e-7,
      nb::arg("centered") = false);
  optimizer(
      list, "Lion", "Steps of one size, by the sign of the momentum.",
      [](Rate rate, double beta_1, double beta_2, double decay, double norm, double value, double global, int bits) {
        return make(Optimiser::lion(1e-3, beta_1, beta_2), rate, {decay, norm, value, global, bits}, "Lion");
      },
      nb::arg("learning_rate") = 0.001, nb::arg("beta_1") = 0.9, nb::arg("beta_2") = 0.99);
  optimizer(
      list, "Adafactor", "Keeps means of rows and columns instead of a state for each element.",
      [](Rate rate, double beta_2_decay, double epsilon_1, double epsilon_2, double clip_threshold, bool relative_step,
         double decay, double norm, double value, double global, int bits) {
        Optimiser base = Optimiser::adafactor();
        base.set("beta2_decay", beta_2_decay).set("epsilon1", epsilon_1).set("epsilon2", epsilon_2);
        base.set("clip_threshold", clip_threshold).set("relative_step", relative_step);
        return make(base, rate, {decay, norm, value, global, bits}, "Adafactor");
      },
      nb::arg("learning_rate") = 0.001, nb::arg("beta_2_decay") = -0.8, nb::arg("epsilon_1") = 1e-30,
      nb::arg("epsilon_2") = 1e-3, nb::arg("clip_threshold") = 1.0, nb::arg("relative_step") = true);
}

}  // namespace plimsoll::python

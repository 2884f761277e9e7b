"""What all optimisers share: the rate, counting steps, clipping, weight decay, slots beside the weights."""
import re

import numpy as np

from ... import _engine, _linear, _types
from ..._call import Mode
from ..._convert import IndexedSlices, convert
from ..._tensor import of_core, of_host
from ..._variable import Variable
from .._state import snake_case
from .schedules import LearningRateSchedule


class HostVariable(Variable):
    """A number that stays on the host: a rate, a count of steps."""

    @property
    def _is_engine(self):
        return False

    @property
    def value(self):
        return self._read()


class Optimizer:
    """Changes weights by their gradients, with the formulas of Keras 3."""

    slots = ()
    first_slot_value = 0.0

    def __init__(self, learning_rate=0.01, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None,
                 use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None,
                 gradient_accumulation_steps=None, name=None, **kwargs):
        if "lr" in kwargs:
            learning_rate = kwargs.pop("lr")
        kwargs.pop("jit_compile", None)
        kwargs.pop("is_legacy_optimizer", None)
        decay = kwargs.pop("decay", 0)
        if decay:
            raise ValueError("decay is deprecated in the new Keras optimizer, please use learning_rate schedules")
        if kwargs:
            raise ValueError(f"Argument(s) not recognized: {kwargs}")
        self.name = name or snake_case(type(self).__name__)
        given = [one for one in (clipnorm, clipvalue, global_clipnorm) if one is not None]
        if len(given) > 1:
            raise ValueError("Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set. Received: clipnorm="
                             f"{clipnorm}, clipvalue={clipvalue}, global_clipnorm={global_clipnorm}")
        self.weight_decay, self.clipnorm, self.clipvalue, self.global_clipnorm = (weight_decay, clipnorm, clipvalue,
                                                                                  global_clipnorm)
        if use_ema:
            raise NotImplementedError("plimsoll.tf keeps no moving averages of weights (use_ema); average them in a "
                                      "callback")
        self.loss_scale_factor = loss_scale_factor
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._accumulated = None
        graph, Mode.graph = Mode.graph, None
        self._iterations = HostVariable(np.int64(0), trainable=False, name="iterations")
        Mode.graph = graph
        self._set_rate(learning_rate)
        self._slots = {}
        self._variables = []
        self._undecayed, self._undecayed_names = set(), []

    # The rate.

    def _set_rate(self, rate):
        if isinstance(rate, LearningRateSchedule) or (callable(rate) and not hasattr(rate, "is_variable")):
            self._learning_rate = rate
        else:
            graph, Mode.graph = Mode.graph, None
            self._learning_rate = HostVariable(np.float32(rate), trainable=False, name="learning_rate")
            Mode.graph = graph

    @property
    def learning_rate(self):
        if isinstance(self._learning_rate, LearningRateSchedule):
            return self._learning_rate(self._iterations)
        return self._learning_rate() if not hasattr(self._learning_rate, "is_variable") else self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value):
        if isinstance(self._learning_rate, HostVariable) and not isinstance(value, LearningRateSchedule):
            self._learning_rate.assign(np.float32(np.asarray(value)))
        elif isinstance(value, LearningRateSchedule):
            self._learning_rate = value
        else:
            raise TypeError("This optimizer was created with a `LearningRateSchedule` object as its `learning_rate` "
                            "constructor argument, hence its learning rate is not settable.")

    lr = learning_rate

    def _rate(self):
        return float(np.asarray(self.learning_rate))

    @property
    def iterations(self):
        return self._iterations

    @property
    def variables(self):
        return [self._iterations] + ([self._learning_rate] if isinstance(self._learning_rate, HostVariable) else []) + [
            variable for weight in self._variables for variable in self._slots[id(weight)].values()]

    def get_weights(self):
        return [np.asarray(one.numpy()) for one in self.variables]

    def set_weights(self, weights):
        for variable, value in zip(self.variables, weights):
            variable.assign(np.asarray(value, variable.dtype.as_numpy_dtype))

    # Building and updating.

    def build(self, var_list):
        for variable in var_list:
            self._slots_of(variable)

    def _slots_of(self, variable):
        made = self._slots.get(id(variable))
        if made is None:
            graph, Mode.graph = Mode.graph, None
            made = {name: Variable(np.full(variable.shape.as_list(), self._first(name), np.float32), trainable=False,
                                   name=f"{variable.name.split(':')[0]}_{name}") for name in self._slot_names()}
            Mode.graph = graph
            self._slots[id(variable)] = made
            self._variables.append(variable)
        return made

    def _slot_names(self):
        return self.slots

    def _first(self, name):
        return self.first_slot_value

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        self._undecayed |= {id(one) for one in var_list or []}
        self._undecayed_names += list(var_names or [])

    def _decays(self, variable):
        path = getattr(variable, "path", variable.name)
        return id(variable) not in self._undecayed and not any(re.search(one, path) for one in self._undecayed_names)

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True,
                        skip_gradients_aggregation=False, **kwargs):
        pairs = list(grads_and_vars)
        if Mode.graph is not None:
            from ...compat.v1 import train
            return train._update_node(self, pairs)
        self.apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
        return self._iterations

    def apply(self, grads, trainable_variables=None):
        variables = list(trainable_variables) if trainable_variables is not None else list(self._variables)
        grads = list(grads)
        if len(grads) != len(variables):
            raise ValueError(f"The list of gradients has {len(grads)} entries and that of variables {len(variables)}")
        kept = [(gradient, variable) for gradient, variable in zip(grads, variables) if gradient is not None]
        if not kept:
            raise ValueError("No gradients provided for any variable.")
        if len(kept) < len(variables):
            missing = [variable.name for gradient, variable in zip(grads, variables) if gradient is None]
            _engine.note(("gradients", tuple(missing)), f"Gradients do not exist for variables {missing} when minimizing "
                                                        "the loss.")
        for _, variable in kept:
            self._slots_of(variable)
        grads = [one if isinstance(one, IndexedSlices) else convert(one) for one, _ in kept]
        variables = [variable for _, variable in kept]
        scale = self._scale_factor()
        if scale is not None:
            grads = [one * (1.0 / scale) for one in grads]
        if self.gradient_accumulation_steps:
            grads = self._accumulate(grads, variables)
            if grads is None:
                self._iterations.assign_add(1)
                return
        self._update_all(self._clipped(grads), variables)
        self._iterations.assign_add(1)

    def _scale_factor(self):
        return self.loss_scale_factor

    def scale_loss(self, loss):
        return loss if self._scale_factor() is None else loss * self._scale_factor()

    def _accumulate(self, grads, variables):
        if self._accumulated is None:
            self._accumulated = [Variable(np.zeros(one.shape.as_list(), np.float32), trainable=False) for one in variables]
        for total, gradient in zip(self._accumulated, grads):
            total.assign_add(convert(gradient))
        if (int(self._iterations) + 1) % self.gradient_accumulation_steps:
            return None
        made = [of_core(total.read_value().core / float(self.gradient_accumulation_steps)) for total in self._accumulated]
        for total in self._accumulated:
            total.assign(np.zeros(total.shape.as_list(), np.float32))
        return made

    def _clipped(self, grads):
        if self.clipvalue is not None and self.clipvalue > 0:
            from ..._elementwise import clip_by_value
            return [clip_by_value(convert(one), -float(self.clipvalue), float(self.clipvalue)) for one in grads]
        if self.clipnorm is not None and self.clipnorm > 0:
            return [_linear.clip_by_norm(convert(one), float(self.clipnorm)) for one in grads]
        if self.global_clipnorm is not None and self.global_clipnorm > 0:
            return _linear.clip_by_global_norm([convert(one) for one in grads], self.global_clipnorm)[0]
        return grads

    def _update_all(self, grads, variables):
        rate = self._rate()
        scalars = {name: _scalar(value) for name, value in self._numbers(rate, int(self._iterations) + 1).items()}
        decay = _scalar(rate * self.weight_decay) if self.weight_decay else None
        for gradient, variable in zip(grads, variables):
            if not hasattr(variable, "is_variable"):
                raise ValueError(f"an optimiser changes variables, not {variable!r}")
            if variable._core is None:
                raise ValueError(f"variable {variable.name} of {variable.dtype.name} can't be trained")
            core = variable._core
            if decay is not None and self._decays(variable):
                core.assign_sub(core * decay)
            slots = {name: slot._core for name, slot in self._slots[id(variable)].items()}
            if isinstance(gradient, IndexedSlices):
                if self._update_rows(gradient, core, slots, scalars):
                    continue
                gradient = gradient.to_dense()
            g = convert(gradient)
            if g.dtype.name != "float32":
                from ..._elementwise import cast
                g = cast(g, _types.float32)
            self._update(g.core, core, slots, scalars)
        for variable in variables:
            if getattr(variable, "constraint", None) is not None:
                variable.assign(variable.constraint(variable))

    def _numbers(self, rate, step):
        """Numbers that differ from step to step, so that operators are made for none of them."""
        return {"rate": rate}

    def _update_rows(self, gradient, core, slots, scalars):
        """An update of the rows that a sparse gradient has; False: it is made dense."""
        return False

    def _update(self, g, w, slots, n):
        raise NotImplementedError

    def minimize(self, loss, var_list=None, tape=None, **kwargs):
        if Mode.graph is not None:
            from ...compat.v1 import train
            return train._minimize(self, loss, var_list)
        from ..._tape import GradientTape
        if callable(loss) and not hasattr(loss, "dtype"):
            with GradientTape() as tape:
                loss = loss()
        if tape is None:
            raise ValueError("`tape` is required when a `Tensor` loss is passed.")
        variables = var_list() if callable(var_list) else var_list
        grads = tape.gradient(loss, variables)
        return self.apply_gradients(zip(grads, variables))

    def compute_gradients(self, loss, var_list, tape=None, **kwargs):
        from ..._tape import GradientTape
        if callable(loss):
            with GradientTape() as tape:
                loss = loss()
        return list(zip(tape.gradient(loss, var_list), var_list))

    def get_config(self):
        rate = self._learning_rate
        return {"name": self.name, "learning_rate": rate if isinstance(rate, LearningRateSchedule) else self._rate(),
                "weight_decay": self.weight_decay, "clipnorm": self.clipnorm, "clipvalue": self.clipvalue,
                "global_clipnorm": self.global_clipnorm, **self._own_config()}

    def _own_config(self):
        return {key: value for key, value in vars(self).items() if not key.startswith("_") and key not in (
            "name", "weight_decay", "clipnorm", "clipvalue", "global_clipnorm")}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


def _scalar(number):
    return of_host(np.float32(number)).core

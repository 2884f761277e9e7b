"""tf.keras.optimizers, with the formulas and defaults of Keras 3."""
import numpy as np

from ... import _engine
from ..._absent import absent
from ..._convert import convert
from . import schedules
from ._base import Optimizer, _scalar


def _op(name, *args):
    return _engine.op(name)(*args)


class SGD(Optimizer):
    def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        if not isinstance(momentum, (int, float)) or not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be a float between [0, 1].")
        self.momentum, self.nesterov = float(momentum), nesterov

    def _slot_names(self):
        return ("momentum",) if self.momentum else ()

    def _update_rows(self, gradient, core, slots, n):
        if self.momentum:
            return False
        moved = gradient.values.core * n["rate"]
        core.assign(_engine.op("scatter")(core, gradient.indices.core, -moved, axis=0, how="add"))
        return True

    def _update(self, g, w, slots, n):
        if not self.momentum:
            w.assign_sub(g * n["rate"])
            return
        velocity = slots["momentum"]
        moved = velocity * self.momentum - g * n["rate"]
        velocity.assign(moved)
        w.assign_add(moved * self.momentum - g * n["rate"] if self.nesterov else moved)


class Adam(Optimizer):
    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = float(beta_1), float(beta_2), float(epsilon), amsgrad

    def _slot_names(self):
        return ("momentum", "velocity") + (("velocity_hat",) if self.amsgrad else ())

    def _numbers(self, rate, step):
        return {"alpha": rate * np.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)}

    def _update(self, g, w, slots, n):
        m, v = slots["momentum"], slots["velocity"]
        mean = m * self.beta_1 + g * (1 - self.beta_1)
        square = v * self.beta_2 + _op("square", g) * (1 - self.beta_2)
        m.assign(mean)
        v.assign(square)
        if self.amsgrad:
            square = _op("maximum", slots["velocity_hat"], square)
            slots["velocity_hat"].assign(square)
        w.assign_sub(mean * n["alpha"] / (_op("sqrt", square) + self.epsilon))


class AdamW(Adam):
    def __init__(self, learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False,
                 **kwargs):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **kwargs)


class RMSprop(Optimizer):
    def __init__(self, learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.rho, self.momentum, self.epsilon, self.centered = float(rho), float(momentum), float(epsilon), centered

    def _slot_names(self):
        return ("velocity",) + (("momentum",) if self.momentum else ()) + (("average_gradient",) if self.centered else ())

    def _update(self, g, w, slots, n):
        square = slots["velocity"] * self.rho + _op("square", g) * (1 - self.rho)
        slots["velocity"].assign(square)
        if self.centered:
            mean = slots["average_gradient"] * self.rho + g * (1 - self.rho)
            slots["average_gradient"].assign(mean)
            square = square - _op("square", mean)
        moved = g * n["rate"] * _op("rsqrt", square + self.epsilon)
        if self.momentum:
            moved = slots["momentum"] * self.momentum + moved
            slots["momentum"].assign(moved)
        w.assign_sub(moved)


class Adagrad(Optimizer):
    slots = ("accumulator",)

    def __init__(self, learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, float(epsilon)

    def _first(self, name):
        return self.initial_accumulator_value

    def _update(self, g, w, slots, n):
        total = slots["accumulator"] + _op("square", g)
        slots["accumulator"].assign(total)
        w.assign_sub(g * n["rate"] * _op("rsqrt", total + self.epsilon))


class Adadelta(Optimizer):
    slots = ("accumulated_grad", "accumulated_delta_var")

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-7, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.rho, self.epsilon = float(rho), float(epsilon)

    def _update(self, g, w, slots, n):
        square = slots["accumulated_grad"] * self.rho + _op("square", g) * (1 - self.rho)
        slots["accumulated_grad"].assign(square)
        past = slots["accumulated_delta_var"]
        delta = _op("sqrt", past + self.epsilon) * g / _op("sqrt", square + self.epsilon)
        past.assign(past * self.rho + _op("square", delta) * (1 - self.rho))
        w.assign_sub(delta * n["rate"])


class Adamax(Optimizer):
    slots = ("momentum", "norm")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = float(beta_1), float(beta_2), float(epsilon)

    def _numbers(self, rate, step):
        return {"alpha": rate / (1 - self.beta_1**step)}

    def _update(self, g, w, slots, n):
        mean = slots["momentum"] * self.beta_1 + g * (1 - self.beta_1)
        most = _op("maximum", slots["norm"] * self.beta_2, _op("abs", g))
        slots["momentum"].assign(mean)
        slots["norm"].assign(most)
        w.assign_sub(mean * n["alpha"] / (most + self.epsilon))


class Nadam(Optimizer):
    slots = ("momentum", "velocity")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = float(beta_1), float(beta_2), float(epsilon)
        self._product, self._product_step = 1.0, 0

    def _numbers(self, rate, step):
        u, after = (self.beta_1 * (1 - 0.5 * 0.96**one) for one in (step, step + 1))
        if self._product_step != step:
            self._product = float(np.prod([self.beta_1 * (1 - 0.5 * 0.96**one) for one in range(1, step + 1)]))
            self._product_step = step
        following = self._product * after
        return {"of_mean": rate * after / (1 - following), "of_gradient": rate * (1 - u) / (1 - self._product),
                "of_square": 1 / (1 - self.beta_2**step)}

    def _update(self, g, w, slots, n):
        mean = slots["momentum"] * self.beta_1 + g * (1 - self.beta_1)
        square = slots["velocity"] * self.beta_2 + _op("square", g) * (1 - self.beta_2)
        slots["momentum"].assign(mean)
        slots["velocity"].assign(square)
        w.assign_sub((mean * n["of_mean"] + g * n["of_gradient"]) / (_op("sqrt", square * n["of_square"]) + self.epsilon))


class Lion(Optimizer):
    slots = ("momentum",)

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.99, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.beta_1, self.beta_2 = float(beta_1), float(beta_2)

    def _update(self, g, w, slots, n):
        m = slots["momentum"]
        w.assign_sub(_op("sign", m * self.beta_1 + g * (1 - self.beta_1)) * n["rate"])
        m.assign(m * self.beta_2 + g * (1 - self.beta_2))


class Ftrl(Optimizer):
    slots = ("accumulator", "linear")

    def __init__(self, learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0,
                 l2_shrinkage_regularization_strength=0.0, beta=0.0, *args, **kwargs):
        super().__init__(learning_rate, *args, **kwargs)
        self.learning_rate_power, self.initial_accumulator_value = learning_rate_power, initial_accumulator_value
        self.l1, self.l2 = l1_regularization_strength, l2_regularization_strength
        self.l2_shrinkage, self.beta = l2_shrinkage_regularization_strength, beta

    def _first(self, name):
        return self.initial_accumulator_value if name == "accumulator" else 0.0

    def _numbers(self, rate, step):
        return {"rate": rate, "one_by_rate": 1 / rate, "twice_l2": 2 * (self.l2 + self.beta / (2 * rate))}

    def _powered(self, x):
        return _op("sqrt", x) if self.learning_rate_power == -0.5 else _op("pow", x, _scalar(-self.learning_rate_power))

    def _update(self, g, w, slots, n):
        total, linear = slots["accumulator"], slots["linear"]
        shrunk = g + w * (2 * self.l2_shrinkage) if self.l2_shrinkage else g
        added = total + _op("square", g)
        after, before = self._powered(added), self._powered(total)
        moved = linear + shrunk - (after - before) * n["one_by_rate"] * w
        quadratic = after * n["one_by_rate"] + n["twice_l2"]
        clipped = _op("clip", moved, -self.l1, self.l1) if self.l1 else None
        w.assign(((clipped - moved) if clipped is not None else -moved) / quadratic)
        total.assign(added)
        linear.assign(moved)


class LossScaleOptimizer(Optimizer):
    """Another optimiser for losses that are scaled, so that small gradients survive 16 bits."""

    def __init__(self, inner_optimizer, initial_scale=2.0**15, dynamic_growth_steps=2000, dynamic=True, **kwargs):
        self.inner_optimizer = inner_optimizer
        self.initial_scale, self.dynamic_growth_steps, self.dynamic = initial_scale, dynamic_growth_steps, dynamic
        self._scale, self._good_steps = float(initial_scale), 0

    def __getattr__(self, name):
        return getattr(self.__dict__["inner_optimizer"], name)

    @property
    def learning_rate(self):
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value):
        self.inner_optimizer.learning_rate = value

    lr = learning_rate

    @property
    def iterations(self):
        return self.inner_optimizer.iterations

    @property
    def variables(self):
        return self.inner_optimizer.variables

    @property
    def dynamic_scale(self):
        return self._scale

    loss_scale = dynamic_scale

    def scale_loss(self, loss):
        return convert(loss) * convert(np.float32(self._scale))

    get_scaled_loss = scale_loss

    def get_unscaled_gradients(self, grads):
        by = convert(np.float32(1 / self._scale))
        return [None if one is None else convert(one) * by for one in grads]

    def build(self, var_list):
        self.inner_optimizer.build(var_list)

    def apply(self, grads, trainable_variables=None):
        from ..._reduce import reduce_sum
        grads = self.get_unscaled_gradients(grads)
        total = None
        for one in grads:
            if one is not None:
                part = reduce_sum(one * 0.0)  # 0 where every number is finite
                total = part if total is None else total + part
        if total is None or bool(np.isfinite(total.numpy())):
            self.inner_optimizer.apply(grads, trainable_variables)
            self._good_steps += 1
            if self.dynamic and self._good_steps >= self.dynamic_growth_steps:
                self._scale, self._good_steps = self._scale * 2, 0
        elif self.dynamic:
            self._scale, self._good_steps = max(self._scale / 2, 1.0), 0

    def apply_gradients(self, grads_and_vars, **kwargs):
        pairs = list(grads_and_vars)
        self.apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
        return self.iterations

    def get_config(self):
        return {"inner_optimizer": serialize(self.inner_optimizer), "initial_scale": self.initial_scale}


class _Legacy:
    """tf.keras.optimizers.legacy: the same optimisers."""

    def __getattr__(self, name):
        return globals()[name]


legacy = _Legacy()
_CLASSES = {one.__name__: one for one in (SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Nadam, Lion, Ftrl)}


def get(identifier):
    if isinstance(identifier, (Optimizer, LossScaleOptimizer)):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if isinstance(identifier, dict):
        return _CLASSES[identifier["class_name"]](**identifier.get("config", {}))
    for name, kind in _CLASSES.items():
        if isinstance(identifier, str) and identifier.lower() == name.lower():
            return kind()
    if hasattr(identifier, "_keras"):  # an optimiser of tf.compat.v1.train
        return identifier._keras
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")


def serialize(optimizer):
    config = {key: value for key, value in optimizer.get_config().items() if isinstance(
        value, (int, float, str, bool, type(None)))}
    return {"class_name": type(optimizer).__name__, "config": config}


deserialize = get
__getattr__ = absent("tf.keras.optimizers", globals(), {
    "Adafactor": "Adam, or plimsoll.Optimiser with adafactor in a model of plimsoll", "Lamb": "AdamW", "Muon": "AdamW"})

"""tf.compat.v1.train: optimisers whose step is a node of the graph, and Saver."""
import os

import numpy as np

from ..._absent import absent
from ..._call import Mode, Node, Symbolic
from ..._convert import convert
from ..._tensor import of_host
from ...keras import optimizers
from ._graphs import default_graph, gradients, trainable_variables


def _update_node(optimizer, pairs, global_step=None, name="train"):
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not pairs:
        raise ValueError("No gradients provided for any variable.")
    node = Node(_updated, (optimizer, [gradient for gradient, _ in pairs], [variable for _, variable in pairs], global_step),
                {}, kind="update", name=name)
    return node


def _updated(optimizer, grads, variables, global_step):
    pairs = [(gradient, variable) for gradient, variable in zip(grads, variables) if gradient is not None]
    optimizer.apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
    if global_step is not None:
        global_step._start(of_host(np.asarray(global_step.numpy() + 1)))


def _minimize(optimizer, loss, var_list=None, global_step=None):
    variables = var_list if var_list is not None else trainable_variables()
    return _update_node(optimizer, list(zip(gradients(loss, variables), variables)), global_step)


class _Late:
    """A rate that is a tensor of the graph, or a function."""

    def __init__(self, rate):
        self.rate = rate


class Optimizer:
    """An optimiser of TensorFlow 1 over one of Keras."""

    def __init__(self, keras):
        self._keras = keras

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=1, aggregation_method=None,
                 colocate_gradients_with_ops=False, name=None, grad_loss=None):
        if Mode.graph is None:
            from ..._tape import GradientTape
            if not callable(loss):
                raise RuntimeError("`loss` passed to Optimizer.compute_gradients should be a function when eager execution "
                                   "is enabled.")
            with GradientTape() as tape:
                value = loss()
            variables = var_list
            self._keras.apply(tape.gradient(value, variables), variables)
            if global_step is not None:
                global_step.assign_add(1)
            return None
        return self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

    def compute_gradients(self, loss, var_list=None, *args, **kwargs):
        variables = var_list if var_list is not None else trainable_variables()
        return list(zip(gradients(loss, variables), variables))

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        if Mode.graph is None:
            self._keras.apply_gradients(grads_and_vars)
            if global_step is not None:
                global_step.assign_add(1)
            return None
        rate = self._keras._learning_rate
        node = _update_node(self._keras, list(grads_and_vars), global_step)
        if isinstance(rate, _Late) and isinstance(rate.rate, Symbolic):
            node.function, node.args = _updated_at, (rate.rate, *node.args)
            node.inputs_cache = None
        return node

    def variables(self):
        return self._keras.variables


def _updated_at(rate, optimizer, grads, variables, global_step):
    before, optimizer._learning_rate = optimizer._learning_rate, lambda: rate
    _updated(optimizer, grads, variables, global_step)
    optimizer._learning_rate = before


def _with_rate(keras, rate):
    if isinstance(rate, Symbolic):
        keras._learning_rate = _Late(rate)
    return keras


def _number(rate):
    return 0.0 if isinstance(rate, Symbolic) else rate


class GradientDescentOptimizer(Optimizer):
    def __init__(self, learning_rate, use_locking=False, name="GradientDescent"):
        super().__init__(_with_rate(optimizers.SGD(_number(learning_rate)), learning_rate))


class MomentumOptimizer(Optimizer):
    def __init__(self, learning_rate, momentum, use_locking=False, name="Momentum", use_nesterov=False):
        super().__init__(_with_rate(_Momentum(_number(learning_rate), momentum, use_nesterov), learning_rate))


class _Momentum(optimizers.SGD):
    """As TensorFlow 1: the rate is outside of the momentum."""

    def _update(self, g, w, slots, n):
        moved = slots["momentum"] * self.momentum + g
        slots["momentum"].assign(moved)
        w.assign_sub((g + moved * self.momentum) * n["rate"] if self.nesterov else moved * n["rate"])


class AdamOptimizer(Optimizer):
    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(_with_rate(optimizers.Adam(_number(learning_rate), beta1, beta2, epsilon), learning_rate))


class AdagradOptimizer(Optimizer):
    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False, name="Adagrad"):
        super().__init__(_with_rate(optimizers.Adagrad(_number(learning_rate), initial_accumulator_value, 0.0),
                                    learning_rate))


class AdadeltaOptimizer(Optimizer):
    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-8, use_locking=False, name="Adadelta"):
        super().__init__(_with_rate(optimizers.Adadelta(_number(learning_rate), rho, epsilon), learning_rate))


class RMSPropOptimizer(Optimizer):
    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10, use_locking=False, centered=False,
                 name="RMSProp"):
        made = _RMSProp(_number(learning_rate), decay, momentum, epsilon, centered)
        super().__init__(_with_rate(made, learning_rate))


class _RMSProp(optimizers.RMSprop):
    def _first(self, name):
        return 1.0 if name == "velocity" else 0.0  # as TensorFlow 1 begins


def get_global_step(graph=None):
    graph = graph or default_graph()
    return graph.stored.get("global_step")


def get_or_create_global_step(graph=None):
    from ._scopes import get_variable
    from ...keras.initializers import Zeros
    from ..._types import int64
    found = get_global_step(graph)
    return found if found is not None else get_variable("global_step", (), int64, Zeros(), trainable=False)


create_global_step = get_or_create_global_step


class Saver:
    """Weights of the graph in a file."""

    def __init__(self, var_list=None, max_to_keep=5, **kwargs):
        self._given = var_list
        self.max_to_keep = max_to_keep
        self._written = []

    def _variables(self):
        given = self._given if self._given is not None else default_graph().variables
        return dict(given) if isinstance(given, dict) else {one.name: one for one in given}

    def save(self, sess, save_path, global_step=None, latest_filename=None, write_meta_graph=True, **kwargs):
        path = os.fspath(save_path) + (f"-{int(np.asarray(convert(global_step)))}" if global_step is not None else "")
        made = path + ".npz.part"
        with open(made, "wb") as file:
            np.savez(file, **{name: np.asarray(one.numpy()) for name, one in self._variables().items()})
        os.replace(made, path + ".npz")
        folder = os.path.dirname(os.path.abspath(path))
        with open(os.path.join(folder, "checkpoint"), "w") as file:
            file.write(f'model_checkpoint_path: "{path}"\n')
        self._written.append(path)
        while self.max_to_keep and len(self._written) > self.max_to_keep:
            old = self._written.pop(0) + ".npz"
            if os.path.exists(old):
                os.unlink(old)
        return path

    def restore(self, sess, save_path):
        path = os.fspath(save_path) + ".npz"
        if not os.path.exists(path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {save_path}")
        with np.load(path) as file:
            for name, one in self._variables().items():
                one._start(of_host(file[name]))


def latest_checkpoint(checkpoint_dir, latest_filename=None):
    path = os.path.join(checkpoint_dir, "checkpoint")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return file.readline().split('"')[1]


def exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    from ..._elementwise import cast, floor, multiply, pow
    from ..._types import float32
    share = cast(global_step, float32) / float(decay_steps)
    return multiply(float(learning_rate), pow(float(decay_rate), floor(share) if staircase else share))


__getattr__ = absent("tf.compat.v1.train", globals(), {"MonitoredTrainingSession": "tf.compat.v1.Session and a Saver",
                                                       "FtrlOptimizer": "tf.keras.optimizers.Ftrl"})

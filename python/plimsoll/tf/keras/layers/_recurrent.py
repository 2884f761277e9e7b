"""Recurrent layers, as Keras 3 computes them."""
from ... import _array, _elementwise, _linear, _nn, nest
from ..._convert import convert
from .. import activations
from ._base import Layer


class _Cell(Layer):
    gates = 1

    def __init__(self, units, activation="tanh", recurrent_activation="sigmoid", use_bias=True,
                 kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros",
                 unit_forget_bias=True, kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None,
                 dropout=0.0, recurrent_dropout=0.0, reset_after=True, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.units = int(units)
        self.activation, self.recurrent_activation = activations.get(activation), activations.get(recurrent_activation)
        self.use_bias, self.unit_forget_bias, self.reset_after = use_bias, unit_forget_bias, reset_after
        self.kernel_initializer, self.recurrent_initializer = kernel_initializer, recurrent_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer, self.recurrent_regularizer = kernel_regularizer, recurrent_regularizer
        self.bias_regularizer = bias_regularizer
        self.dropout, self.recurrent_dropout = dropout, recurrent_dropout
        self.bias = None

    @property
    def state_size(self):
        return self.units

    def build(self, input_shape):
        wide = self.units * self.gates
        self.kernel = self.add_weight((input_shape[-1], wide), self.kernel_initializer, name="kernel",
                                      regularizer=self.kernel_regularizer)
        self.recurrent_kernel = self.add_weight((self.units, wide), self.recurrent_initializer, name="recurrent_kernel",
                                                regularizer=self.recurrent_regularizer)
        if self.use_bias:
            self.bias = self.add_weight(self._bias_shape(wide), self._bias_initializer(), name="bias",
                                        regularizer=self.bias_regularizer)
        self.built = True

    def _bias_shape(self, wide):
        return (wide,)

    def _bias_initializer(self):
        return self.bias_initializer

    def get_initial_state(self, batch_size=None, inputs=None, dtype=None):
        return [_array.zeros((batch_size, self.units))]

    def _dropped(self, x, rate, training):
        return _nn.dropout(x, rate) if training and rate else x


class SimpleRNNCell(_Cell):
    def call(self, inputs, states, training=False):
        h = states[0] if isinstance(states, (list, tuple)) else states
        made = _linear.matmul(self._dropped(inputs, self.dropout, training), self.kernel)
        if self.bias is not None:
            made = made + self.bias
        made = made + _linear.matmul(self._dropped(h, self.recurrent_dropout, training), self.recurrent_kernel)
        made = self.activation(made)
        return made, [made]


class LSTMCell(_Cell):
    gates = 4

    @property
    def state_size(self):
        return [self.units, self.units]

    def _bias_initializer(self):
        if not self.unit_forget_bias:
            return self.bias_initializer
        import numpy as np
        from ..initializers import Constant
        first = np.zeros(4 * self.units, np.float32)
        first[self.units:2 * self.units] = 1
        return Constant(first)

    def get_initial_state(self, batch_size=None, inputs=None, dtype=None):
        return [_array.zeros((batch_size, self.units)), _array.zeros((batch_size, self.units))]

    def call(self, inputs, states, training=False):
        h, c = states
        z = _linear.matmul(self._dropped(inputs, self.dropout, training), self.kernel)
        z = z + _linear.matmul(self._dropped(h, self.recurrent_dropout, training), self.recurrent_kernel)
        if self.bias is not None:
            z = z + self.bias
        i, f, g, o = _array.split(z, 4, 1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]


class GRUCell(_Cell):
    gates = 3

    def _bias_shape(self, wide):
        return (2, wide) if self.reset_after else (wide,)

    def call(self, inputs, states, training=False):
        h = states[0] if isinstance(states, (list, tuple)) else states
        x = _linear.matmul(self._dropped(inputs, self.dropout, training), self.kernel)
        past = self._dropped(h, self.recurrent_dropout, training)
        if self.reset_after:
            recurrent = _linear.matmul(past, self.recurrent_kernel)
            if self.bias is not None:
                x, recurrent = x + self.bias[0], recurrent + self.bias[1]
            xz, xr, xh = _array.split(x, 3, 1)
            rz, rr, rh = _array.split(recurrent, 3, 1)
            z, r = self.recurrent_activation(xz + rz), self.recurrent_activation(xr + rr)
            candidate = self.activation(xh + r * rh)
        else:
            if self.bias is not None:
                x = x + self.bias
            xz, xr, xh = _array.split(x, 3, 1)
            kernel = convert(self.recurrent_kernel)
            both = _linear.matmul(past, kernel[:, :2 * self.units])
            rz, rr = _array.split(both, 2, 1)
            z, r = self.recurrent_activation(xz + rz), self.recurrent_activation(xr + rr)
            candidate = self.activation(xh + _linear.matmul(r * past, kernel[:, 2 * self.units:]))
        h = z * h + (1.0 - z) * candidate
        return h, [h]


class StackedRNNCells(Layer):
    def __init__(self, cells, **kwargs):
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self):
        return [one.state_size for one in self.cells]

    def get_initial_state(self, batch_size=None, inputs=None, dtype=None):
        return [one.get_initial_state(batch_size) for one in self.cells]

    def call(self, inputs, states, training=False):
        made, x = [], inputs
        for cell, state in zip(self.cells, states):
            x, state = cell(x, state, training=training)
            made.append(state)
        return x, made


class RNN(Layer):
    """A cell along the second dimension of a sequence."""

    supports_masking = True

    def __init__(self, cell, return_sequences=False, return_state=False, go_backwards=False, stateful=False, unroll=False,
                 zero_output_for_mask=False, time_major=False, **kwargs):
        super().__init__(**kwargs)
        self.cell = StackedRNNCells(cell) if isinstance(cell, (list, tuple)) else cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful = go_backwards, stateful
        self.states = None

    @property
    def units(self):
        return self.cell.units

    def build(self, input_shape):
        shape = input_shape[0] if isinstance(input_shape, list) and isinstance(input_shape[0], tuple) else input_shape
        if not self.cell.built and not isinstance(self.cell, StackedRNNCells):
            self.cell.build((shape[0], shape[-1]))
            self.cell.built = True
        self.built = True

    def reset_states(self, states=None):
        self.states = None

    reset_state = reset_states

    def call(self, sequences, initial_state=None, mask=None, training=False):
        if isinstance(sequences, (list, tuple)):
            sequences, initial_state = sequences[0], list(sequences[1:])
        x = convert(sequences)
        batch, steps = x.shape[0], x.shape[1]
        state = initial_state if initial_state is not None else self.states
        if state is None:
            state = self.cell.get_initial_state(batch_size=batch)
        state = list(state) if isinstance(state, (list, tuple)) else [state]
        parts = _array.unstack(x, axis=1)
        masks = _array.unstack(_elementwise.cast(mask, x.dtype), axis=1) if mask is not None else None
        order = range(steps - 1, -1, -1) if self.go_backwards else range(steps)
        outputs, last = [], None
        for step in order:
            made, following = self.cell(parts[step], state, training=training)
            following = list(following) if isinstance(following, (list, tuple)) else [following]
            if masks is not None:
                kept = _array.expand_dims(masks[step], -1)
                before = last if last is not None else _array.zeros_like(made)
                made = made * kept + before * (1.0 - kept)
                following = nest.map_structure(lambda a, b, kept=kept: a * kept + b * (1.0 - kept), following, state)
            state, last = following, made
            outputs.append(made)
        if self.stateful:
            self.states = state
        result = _array.stack(outputs, axis=1) if self.return_sequences else last
        return (result, *nest.flatten(state)) if self.return_state else result

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask if self.return_sequences and not self.return_state else None

    def __call__(self, sequences, *args, **kwargs):
        return super().__call__(sequences, *args, **kwargs)


def _layer_of(cell_kind, title):
    class Recurrent(RNN):
        def __init__(self, units, *args, return_sequences=False, return_state=False, go_backwards=False, stateful=False,
                     unroll=False, time_major=False, implementation=None, use_cudnn="auto", name=None, input_shape=None,
                     batch_input_shape=None, batch_shape=None, dtype=None, trainable=True, input_dim=None,
                     activity_regularizer=None, **kwargs):
            super().__init__(cell_kind(units, *args, **kwargs), return_sequences, return_state, go_backwards, stateful,
                             unroll, name=name, dtype=dtype, trainable=trainable,
                             **{key: value for key, value in (("input_shape", input_shape), ("batch_shape", batch_shape),
                                                              ("batch_input_shape", batch_input_shape))
                                if value is not None})
    Recurrent.__name__ = Recurrent.__qualname__ = title
    Recurrent.__module__ = __name__
    return Recurrent


SimpleRNN = _layer_of(SimpleRNNCell, "SimpleRNN")
LSTM = _layer_of(LSTMCell, "LSTM")
GRU = _layer_of(GRUCell, "GRU")


class Bidirectional(Layer):
    supports_masking = True

    def __init__(self, layer, merge_mode="concat", weights=None, backward_layer=None, **kwargs):
        super().__init__(**kwargs)
        self.forward_layer = layer
        if backward_layer is None:
            config = layer.get_config()
            config["name"] = "backward_" + layer.name
            config["go_backwards"] = not layer.go_backwards
            backward_layer = type(layer).from_config(config)
        self.backward_layer = backward_layer
        layer.name = "forward_" + layer.name
        self.merge_mode, self.return_sequences, self.return_state = merge_mode, layer.return_sequences, layer.return_state

    def call(self, inputs, initial_state=None, mask=None, training=False):
        options = {"training": training}
        if mask is not None:
            options["mask"] = mask
        y, back = self.forward_layer(inputs, **options), self.backward_layer(inputs, **options)
        states = []
        if self.return_state:
            states, y, back = [*y[1:], *back[1:]], y[0], back[0]
        if self.return_sequences:
            back = _array.reverse(back, [1])
        mode = self.merge_mode
        made = {"concat": lambda: _array.concat([y, back], -1), "sum": lambda: y + back, "mul": lambda: y * back,
                "ave": lambda: (y + back) / 2.0, None: lambda: [y, back]}[mode]()
        return (made, *states) if self.return_state else made

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask if self.return_sequences else None


class TimeDistributed(Layer):
    supports_masking = True

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer

    def call(self, inputs, training=None, mask=None):
        x = convert(inputs)
        sizes = x.shape.as_list()
        made = self.layer(_array.reshape(x, [sizes[0] * sizes[1]] + sizes[2:]), training=training)
        return _array.reshape(made, sizes[:2] + made.shape.as_list()[1:])

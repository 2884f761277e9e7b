"""Attention."""
import math

import numpy as np

from ... import _array, _elementwise, _engine, _linear, _nn, _types
from ..._convert import convert
from ..._tensor import of_core
from ._base import Layer


class MultiHeadAttention(Layer):
    supports_masking = True

    def __init__(self, num_heads, key_dim, value_dim=None, dropout=0.0, use_bias=True, output_shape=None,
                 attention_axes=None, flash_attention=None, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 kernel_regularizer=None, bias_regularizer=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.dropout_rate, self.use_bias, self.output_width = dropout, use_bias, output_shape
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer

    def build(self, query_shape, value_shape=None, key_shape=None):
        width = query_shape[-1]
        value_width = (value_shape or self._value_shape or query_shape)[-1]
        key_width = (key_shape or self._key_shape or value_shape or self._value_shape or query_shape)[-1]
        self._projections = {}
        for name, size, head in (("query", width, self.key_dim), ("key", key_width, self.key_dim),
                                 ("value", value_width, self.value_dim)):
            kernel = self.add_weight((size, self.num_heads, head), self.kernel_initializer, name="kernel")
            bias = self.add_weight((self.num_heads, head), self.bias_initializer, name="bias") if self.use_bias else None
            self._projections[name] = (kernel, bias)
        out = self.output_width or width
        self._out_kernel = self.add_weight((self.num_heads, self.value_dim, out), self.kernel_initializer, name="kernel")
        self._out_bias = self.add_weight((out,), self.bias_initializer, name="bias") if self.use_bias else None
        self.built = True

    _value_shape = _key_shape = None

    def _build_for(self, args, kwargs):
        value = args[1] if len(args) > 1 else kwargs.get("value")
        key = args[2] if len(args) > 2 else kwargs.get("key")
        self._value_shape = tuple(value.shape) if value is not None else None
        self._key_shape = tuple(key.shape) if key is not None else None
        super()._build_for(args, kwargs)

    def _heads(self, x, name):
        kernel, bias = self._projections[name]
        width, heads, size = kernel.shape.as_list()
        sizes = x.shape.as_list()
        made = _linear.matmul(_array.reshape(x, (-1, width)), _array.reshape(convert(kernel), (width, heads * size)))
        if bias is not None:
            made = made + _array.reshape(convert(bias), (heads * size,))
        return _array.transpose(_array.reshape(made, (sizes[0], sizes[1], heads, size)), (0, 2, 1, 3))

    def call(self, query, value, key=None, query_mask=None, value_mask=None, key_mask=None, attention_mask=None,
             return_attention_scores=False, training=None, use_causal_mask=False):
        query, value = convert(query), convert(value)
        key = value if key is None else convert(key)
        q, k, v = self._heads(query, "query"), self._heads(key, "key"), self._heads(value, "value")
        mask = self._mask(q, k, attention_mask, value_mask if value_mask is not None else getattr(
            value, "_keras_mask", None), use_causal_mask)
        scores = None
        if return_attention_scores or (training and self.dropout_rate):
            logits = _linear.matmul(q, k, transpose_b=True) * (1.0 / math.sqrt(self.key_dim))
            if mask is not None:
                logits = _array.where(mask, logits, _array.zeros_like(logits) - 3e38 / 3e29)
            scores = _nn.softmax(logits)
            kept = _nn.dropout(scores, self.dropout_rate) if training and self.dropout_rate else scores
            made = _linear.matmul(kept, v)
        else:
            options = {} if mask is None else {"mask": mask.core}
            made = of_core(_engine.op("attention")(q.core, k.core, v.core, scale=1.0 / math.sqrt(self.key_dim), **options))
        sizes = made.shape.as_list()
        flat = _array.reshape(_array.transpose(made, (0, 2, 1, 3)), (-1, sizes[1] * sizes[3]))
        out = self._out_kernel.shape.as_list()
        made = _linear.matmul(flat, _array.reshape(convert(self._out_kernel), (out[0] * out[1], out[2])))
        if self._out_bias is not None:
            made = made + self._out_bias
        made = _array.reshape(made, (sizes[0], sizes[2], out[2]))
        return (made, scores) if return_attention_scores else made

    def _mask(self, q, k, attention_mask, value_mask, causal):
        mask = None
        batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
        if attention_mask is not None:
            mask = _elementwise.cast(attention_mask, _types.bool_)
            mask = _array.expand_dims(mask, 1) if mask.ndim == 3 else mask
        if value_mask is not None:
            given = _array.reshape(_elementwise.cast(value_mask, _types.bool_), (batch, 1, 1, keys))
            mask = given if mask is None else _elementwise.logical_and(mask, given)
        if causal:
            given = convert(np.tril(np.ones((1, 1, queries, keys), bool)))
            mask = given if mask is None else _elementwise.logical_and(mask, given)
        return None if mask is None else _array.broadcast_to(mask, (batch, mask.shape[1], queries, keys))


class Attention(Layer):
    supports_masking = True

    def __init__(self, use_scale=False, score_mode="dot", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.use_scale, self.score_mode, self.dropout = use_scale, score_mode, dropout
        self.scale = None

    def build(self, input_shape):
        if self.use_scale:
            self.scale = self.add_weight((), "ones", name="scale")
        self.built = True

    def _scores(self, q, k):
        made = _linear.matmul(q, k, transpose_b=True)
        return made if self.scale is None else made * self.scale

    def call(self, inputs, mask=None, training=False, return_attention_scores=False, use_causal_mask=False):
        q, v = convert(inputs[0]), convert(inputs[1])
        k = convert(inputs[2]) if len(inputs) > 2 else v
        scores = self._scores(q, k)
        if mask is not None and mask[1] is not None:
            scores = scores - 1e9 * (1.0 - _array.expand_dims(_elementwise.cast(mask[1], scores.dtype), 1))
        if use_causal_mask:
            scores = scores - 1e9 * (1.0 - np.tril(np.ones(scores.shape.as_list()[1:], np.float32)))
        weights = _nn.softmax(scores)
        if training and self.dropout:
            weights = _nn.dropout(weights, self.dropout)
        made = _linear.matmul(weights, v)
        return (made, weights) if return_attention_scores else made

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask[0] if previous_mask else None


class AdditiveAttention(Attention):
    def __init__(self, use_scale=True, dropout=0.0, **kwargs):
        super().__init__(use_scale, dropout=dropout, **kwargs)

    def build(self, input_shape):
        if self.use_scale:
            self.scale = self.add_weight((input_shape[0][-1],), "glorot_uniform", name="scale")
        self.built = True

    def _scores(self, q, k):
        from ..._reduce import reduce_sum
        both = _elementwise.tanh(_array.expand_dims(q, 2) + _array.expand_dims(k, 1))
        return reduce_sum(both if self.scale is None else both * self.scale, -1)

#!/usr/bin/env python3
"""Writes the golden values of the op test: every sample, computed by PyTorch in double precision.

  make.py BUILD/tests/dump_samples [op ...]

Needs torch and numpy; neither the build nor the tests do. The values are a pure function of the samples.
"""
import json
import math
import pathlib
import re
import subprocess
import sys

import numpy
import torch
import torch.nn.functional as F

BATCH = 2
# Operators and samples without golden values; golden.cpp has the reasons.
GOLDEN_TEST = pathlib.Path(__file__).resolve().parent.parent / "golden.cpp"
SKIPPED = set(re.findall(r'^    {"([^"]+)",(?: "|$)', GOLDEN_TEST.read_text(), re.M))
MASK = (1 << 64) - 1
DTYPES = {"f32": torch.float64, "f16": torch.float64, "bf16": torch.float64, "i32": torch.int64, "i64": torch.int64,
          "u8": torch.int64, "i8": torch.int64, "bool": torch.int64}


# The same numbers as base/random.h and tests/ops/evaluate.cpp.
def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_text(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return mix(value)


def drawn(name, dtype, shape, low, high):
    key = mix(hash_text(name))
    values = [low + (high - low) * ((mix(key ^ i) >> 11) * 2.0**-53) for i in range(math.prod(shape))]
    if not dtype.startswith(("f", "bf")):
        return torch.tensor([math.floor(v) for v in values], dtype=torch.int64).reshape(shape)
    return torch.tensor(numpy.array(values, dtype=numpy.float32), dtype=torch.float64).reshape(shape)


# The text form of a graph.
def dim(text):
    return int(text[:-1] or 1) * BATCH if text.endswith("B") else int(text)


def dims(text):
    return [dim(t) for t in text.strip("[]").split(",") if t]


def typed(text):
    at = text.index("[")
    return text[:at], dims(text[at:])


def attribute(text):
    if text[0] == '"':
        return text[1:-1]
    if text[0] == "[":
        return dims(text)
    if text[0] == "(":
        return [float(t) for t in text[1:-1].split(",") if t]
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def attributes(text):
    return {key: attribute(value) for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', text)}


def constant(dtype, shape, text):
    kinds = {"f32": "<f4", "i32": "<i4", "i64": "<i8", "u8": "u1", "i8": "i1", "bool": "u1"}
    values = numpy.frombuffer(bytes.fromhex(text), dtype=kinds[dtype])
    return torch.tensor(values.astype(numpy.float64 if dtype == "f32" else numpy.int64)).reshape(shape)


def evaluate(text, given):
    values = dict(given)
    for line in text.splitlines()[1:]:
        word, rest = line.split(" ", 1)
        if word in ("placeholder", "variable"):
            assert rest.split(" ")[0] in values, line
            continue
        if word == "constant":
            name, kind, data = (rest.split(" ") + [""])[:3]
            values[name] = constant(*typed(kind), data)
            continue
        match = re.fullmatch(r"= (\w+)\(([^)]*)\)(.*)", rest)
        op, inputs, attrs = match.group(1), match.group(2), attributes(match.group(3))
        arguments = [values[name] for name in inputs.split(", ") if name]
        result = OPS[op](attrs, *arguments)
        results = result if isinstance(result, (tuple, list)) else [result]
        for i, value in enumerate(results):
            values[word if i == 0 else f"{word}:{i}"] = value
    return values


OPS = {}


def op(*names):
    def register(function):
        for name in names:
            OPS[name] = function
        return function
    return register


def activate(a, y):
    kind = a.get("activation", "")
    return {"": lambda: y, "relu": lambda: F.relu(y), "relu6": lambda: F.relu6(y), "sigmoid": lambda: torch.sigmoid(y),
            "tanh": lambda: torch.tanh(y), "gelu": lambda: F.gelu(y), "silu": lambda: F.silu(y)}[kind]()


# Linear algebra and images.
@op("matmul")
def _(a, x, y, bias=None):
    x = x.transpose(-1, -2) if a.get("transpose_a") else x
    y = y.transpose(-1, -2) if a.get("transpose_b") else y
    z = x @ y
    return activate(a, z if bias is None else z + bias)


def padded(a, x, value=0.0):
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    return F.pad(x, (left, right, top, bottom), value=value)


@op("conv2d")
def _(a, x, kernel, *more):
    more = list(more)
    residual = more.pop() if a.get("residual") else 0
    y = F.conv2d(padded(a, x), kernel, more[0] if more else None, a.get("strides", [1, 1]), 0,
                 a.get("dilations", [1, 1]), a.get("groups", 1))
    return activate(a, y + residual)


@op("conv2d_transpose")
def _(a, x, kernel, bias=None):
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    extra = a.get("output_pads", [0, 0])
    y = F.conv_transpose2d(x, kernel, None, a.get("strides", [1, 1]), 0, 0, a.get("groups", 1),
                           a.get("dilations", [1, 1]))
    # Whole, with room for what the output pads add; then the pads are cut off.
    y = F.pad(y, (0, extra[1], 0, extra[0]))
    y = y[:, :, top:y.shape[2] - bottom, left:y.shape[3] - right]
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


def windows(a, x, value):
    height, width = a["size"]
    down, across = a.get("strides", [1, 1])
    return padded(a, x, value).unfold(2, height, down).unfold(3, width, across).flatten(4)


@op("max_pool")
def _(a, x):
    y, place = windows(a, x, -math.inf).max(-1)
    return y, place


@op("average_pool")
def _(a, x):
    if a.get("count_pads"):
        return windows(a, x, 0.0).mean(-1)
    return windows(a, x, 0.0).sum(-1) / windows(a, torch.ones_like(x), 0.0).sum(-1)


def channels(x, like):
    return x.reshape([1, -1] + [1] * (like.dim() - 2))


@op("batch_norm")
def _(a, x, gamma, beta, *residual):
    axes = [i for i in range(x.dim()) if i != 1]
    mean = x.mean(axes)
    variance = x.var(axes, unbiased=False)
    inverse = (variance + a.get("epsilon", 1e-3)).rsqrt()
    y = (x - channels(mean, x)) * channels(gamma * inverse, x) + channels(beta, x)
    return activate(a, y + sum(residual)), mean, variance


@op("batch_norm_statistics")
def _(a, *x):
    return ()  # changes variables only


@op("batch_norm_grad")
def _(a, x, dy, mean, variance, gamma, *mask):
    x, gamma = x.detach().requires_grad_(), gamma.detach().requires_grad_()
    beta = torch.zeros_like(gamma)
    if mask and mask[0].dim() > 1:  # the result says where the gradient passes
        dy = dy * (mask[0] > 0) * (mask[0] < (6 if a["activation"] == "relu6" else math.inf))
        a = {key: value for key, value in a.items() if key != "activation"}
    elif mask:
        beta = mask[0].detach()
    beta = beta.requires_grad_()
    return torch.autograd.grad(OPS["batch_norm"](a, x, gamma, beta)[0], [x, gamma, beta], dy)


@op("batch_norm_inference")
def _(a, x, gamma, beta, mean, variance):
    inverse = (variance + a.get("epsilon", 1e-3)).rsqrt()
    return activate(a, (x - channels(mean, x)) * channels(gamma * inverse, x) + channels(beta, x))


@op("layer_norm")
def _(a, x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, a.get("epsilon", 1e-3))


@op("group_norm")
def _(a, x, gamma, beta):
    return activate(a, F.group_norm(x, a["groups"], gamma, beta, a.get("epsilon", 1e-3)))


@op("resize")
def _(a, x):
    if a.get("mode", "nearest") == "nearest":
        return F.interpolate(x, size=a["size"], mode="nearest-exact")
    return F.interpolate(x, size=a["size"], mode="bilinear", align_corners=False)


# Sequences.
@op("gather")
def _(a, table, rows):
    return table[rows]


@op("scatter_rows")
def _(a, values, rows):
    return torch.zeros(a["table"], dtype=values.dtype).index_add(0, rows, values)


@op("attention")
def _(a, q, k, v, *more):
    heads_last = a.get("layout") == "bthd"
    if heads_last:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    more = list(more)
    named = [name for name in ("bias", "sequences", "past") if a.get(name)]
    mask = more.pop(0) if len(more) > len(named) else None
    extra = dict(zip(named, more))
    scores = q @ k.transpose(-1, -2) * (a.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1]))
    if a.get("cap"):
        scores = a["cap"] * torch.tanh(scores / a["cap"])
    if "bias" in extra:
        scores = scores + extra["bias"]
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if mask is not None:
        hidden = hidden | (mask == 0)
    past = extra.get("past", torch.zeros(1, dtype=torch.int64)).reshape(-1, 1, 1, 1)
    at_q = torch.arange(q.shape[2]).reshape(1, 1, -1, 1) + past
    at_k = torch.arange(k.shape[2]).reshape(1, 1, 1, -1)
    if a.get("alibi"):
        scores = scores - alibi_slopes(q.shape[1]).reshape(1, -1, 1, 1) * (at_q - at_k).abs()
    if a.get("causal"):
        hidden = hidden | (at_k > at_q)
    if a.get("window"):
        hidden = hidden | ((at_q - at_k).abs() >= a["window"])
    if "sequences" in extra:
        of = extra["sequences"]
        hidden = hidden | (of[:, None, :, None] != of[:, None, None, :])
    scores = scores.masked_fill(hidden, -math.inf)
    # A query that may see nothing gives zeros.
    blind = hidden.all(-1, keepdim=True)
    shares = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    y = shares @ v
    return y.transpose(1, 2) if heads_last else y, torch.logsumexp(scores, -1)


# The published rule (Press et al., 2022): powers of 2^(-8/n), and for other n those of neighbouring powers of two.
def alibi_slopes(heads):
    def of_power(n):
        start = 2.0 ** (-(2.0 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    if math.log2(heads).is_integer():
        return torch.tensor(of_power(heads), dtype=torch.float64)
    whole = 2 ** math.floor(math.log2(heads))
    return torch.tensor(of_power(whole) + of_power(2 * whole)[0::2][:heads - whole], dtype=torch.float64)


# Recurrent: step by step, as PyTorch and Keras document them; gates by their letters in `order`.
def recurrent(a, x, weights, names, order, step, states):
    order = a.get("order", order)
    units = weights.shape[0]
    places = list(range(x.shape[1]))
    mask = names.pop("mask", None)
    sequences = [[None] * x.shape[1] for _ in range(2 + len(states) - 1)]
    for t in reversed(places) if a.get("reverse") else places:
        def gate(columns, letter):
            at = order.index(letter) * units
            return columns[:, at:at + units]
        gates, new = step(x[:, t], states, gate)
        if mask is not None:
            kept = (mask[:, t] == 0).unsqueeze(1)
            new = [torch.where(kept, old, one) for old, one in zip(states, new)]
        states = new
        named = dict(zip(order, [None] * len(order)))
        named.update(gates)
        sequences[0][t] = torch.cat([named[letter] for letter in order], 1)
        for i, state in enumerate(states):
            sequences[1 + i][t] = state
    return [torch.stack(parts, 1) for parts in sequences], states


def named_inputs(a, *settings):
    def split(given):
        names = [name for name in settings if a.get(name)]
        assert len(names) == len(given)
        return dict(zip(names, given))
    return split


def zeros_like_state(x, weights):
    return torch.zeros(x.shape[0], weights.shape[0], dtype=x.dtype)


@op("simple_rnn")
def _(a, x, weights, *more):
    more = named_inputs(a, "state", "mask")(more)
    act = torch.relu if a.get("activation") == "relu" else torch.tanh

    def step(x, states, gate):
        h = act(x + states[0] @ weights)
        return {"h": h}, [h]
    (_, y), (last,) = recurrent(a, x, weights, more, "h", step, [more.pop("state", zeros_like_state(x, weights))])
    return y, last


@op("lstm")
def _(a, x, weights, *more):
    more = named_inputs(a, "state", "cell", "mask")(more)

    def step(x, states, gate):
        h, c = states
        sums = x + h @ weights
        i, f, o = (torch.sigmoid(gate(sums, letter)) for letter in "ifo")
        g = torch.tanh(gate(sums, "g"))
        c = f * c + i * g
        return {"i": i, "f": f, "g": g, "o": o}, [o * torch.tanh(c), c]
    first = [more.pop(name, zeros_like_state(x, weights)) for name in ("state", "cell")]
    (gates, y, cells), (last, last_cell) = recurrent(a, x, weights, more, "ifgo", step, first)
    return gates, y, last, cells, last_cell


@op("gru")
def _(a, x, weights, *more):
    more = named_inputs(a, "bias", "state", "mask")(more)
    bias = more.pop("bias", torch.zeros(weights.shape[1], dtype=x.dtype))

    def step(x, states, gate):
        h = states[0]
        product = h @ weights + bias
        z, r = (torch.sigmoid(gate(x, letter) + gate(product, letter)) for letter in "zr")
        n = torch.tanh(gate(x, "n") + r * gate(product, "n"))
        return {"z": z, "r": r, "n": n}, [(1 - z) * n + z * h]
    (gates, y), (last,) = recurrent(a, x, weights, more, "zrn", step, [more.pop("state", zeros_like_state(x, weights))])
    return gates, y, last


@op("range")
def _(a):
    kind = torch.float64 if a.get("dtype", "f32") == "f32" else torch.int64
    return (torch.arange(a["count"], dtype=torch.float64) * a["step"] + a["first"]).to(kind)


# Element by element.
def each(name, function):
    OPS[name] = lambda a, *x: function(*x)


each("relu", F.relu)
each("sigmoid", torch.sigmoid)
each("tanh", torch.tanh)
each("gelu", F.gelu)
each("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
each("silu", F.silu)
each("add", torch.add)
each("sub", torch.sub)
each("mul", torch.mul)
each("div", lambda x, y: x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="floor"))
each("mod", torch.remainder)
each("pow", torch.pow)
each("minimum", torch.minimum)
each("maximum", torch.maximum)
each("exp", torch.exp)
each("log", torch.log)
each("sqrt", torch.sqrt)
each("rsqrt", torch.rsqrt)
each("neg", torch.neg)
each("abs", torch.abs)
each("erf", torch.erf)
for name in ("expm1", "log1p", "square", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
             "atanh", "floor", "ceil", "round", "sign"):
    each(name, getattr(torch, name))
for name in ("logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite"):
    each(name, lambda *x, of=getattr(torch, name): of(*x).long())
each("where", lambda condition, x, y: torch.where(condition != 0, x, y))
each("equal", lambda x, y: (x == y).long())
each("not_equal", lambda x, y: (x != y).long())
each("less", lambda x, y: (x < y).long())
each("less_equal", lambda x, y: (x <= y).long())
each("greater", lambda x, y: (x > y).long())
each("greater_equal", lambda x, y: (x >= y).long())


@op("clip")
def _(a, x):
    return torch.clamp(x, a["low"], a["high"])


@op("leaky_relu")
def _(a, x):
    return F.leaky_relu(x, a["slope"])


@op("scale")
def _(a, x):
    if x.is_floating_point():
        return x * a.get("factor", 1) + a.get("offset", 0)
    return (x * int(a.get("factor", 1)) + int(a.get("offset", 0))) // a.get("divisor", 1)


@op("reciprocal")
def _(a, x):
    return a["numerator"] / x


@op("cast")
def _(a, x):
    kind = a["dtype"]
    if kind in ("f16", "bf16"):
        # Rounding has no derivative; gradients pass as they are.
        half = x.to(torch.float32).to(torch.float16 if kind == "f16" else torch.bfloat16).to(torch.float64)
        return x + (half - x).detach() if x.is_floating_point() else half
    return x.to(torch.float64) if kind == "f32" else (x != 0).long() if kind == "bool" else x.to(torch.int64)


# Reductions and shapes.
@op("softmax")
def _(a, x):
    return torch.softmax(x, a["axis"])


@op("log_softmax")
def _(a, x):
    return torch.log_softmax(x, a["axis"])


def reduction(name, function):
    OPS[name] = lambda a, x: function(x, a["axes"], keepdim=bool(a.get("keep", 0))) if a["axes"] else x


reduction("reduce_sum", torch.sum)
reduction("reduce_mean", torch.mean)
reduction("reduce_max", torch.amax)
reduction("reduce_min", torch.amin)


@op("reduce_prod")
def _(a, x):
    for axis in a["axes"]:
        x = x.prod(axis, keepdim=True)
    return x if a.get("keep", 0) else x.reshape([n for i, n in enumerate(x.shape) if i not in a["axes"]])


@op("argmax")
def _(a, x):
    # The first of equal ones, which torch does not promise.
    largest = x == x.amax(a["axis"], keepdim=True)
    return (largest.cumsum(a["axis"]) == 0).sum(a["axis"])


@op("argmin")
def _(a, x):
    return OPS["argmax"](a, -x)


@op("stop_gradient")
def _(a, x):
    return x.detach()


@op("reshape")
def _(a, x):
    return x.reshape(a["shape"])


@op("broadcast_to")
def _(a, x):
    return x.broadcast_to(a["shape"])


@op("transpose")
def _(a, x):
    return x.permute(a["order"])


@op("concat")
def _(a, *parts):
    return torch.cat(parts, a["axis"])


@op("split")
def _(a, x):
    return torch.split(x, a["sizes"], a["axis"])


@op("slice")
def _(a, x):
    step = a.get("step", 1)
    index = torch.arange(a["first"], a["first"] + a["count"] * step, step)
    return x.index_select(a["axis"], index)


@op("pad")
def _(a, x):
    pads = []
    for before, after in zip(reversed(a["before"]), reversed(a["after"])):
        pads += [before, after]
    value = a.get("value", 0.0)
    return F.pad(x, pads, value=value if x.is_floating_point() else int(value))


@op("tile")
def _(a, x):
    return x.repeat(a["times"])


@op("one_hot")
def _(a, labels):
    return (labels.unsqueeze(-1) == torch.arange(a["classes"])).to(torch.float64)


def scan(name, function):
    def run(a, x):
        axis = a["axis"]
        return function(x.flip(axis), axis).flip(axis) if a.get("reverse") else function(x, axis)
    OPS[name] = run


scan("cumsum", torch.cumsum)
scan("cumprod", torch.cumprod)


def rearranged(a, n):
    how, p, q, r = a["how"], a["a"], a["b"], a["c"]
    if how == "windows":
        count = (n - (p - 1) * r - 1) // q + 1
        return torch.tensor([w * q + i * r for w in range(count) for i in range(p)])
    rows = numpy.arange(n)
    if how in ("flip", "roll", "repeat"):
        rows = {"flip": lambda: rows[::-1], "roll": lambda: numpy.roll(rows, p), "repeat": lambda: rows.repeat(p)}[how]()
    else:
        rows = numpy.pad(rows, (p, q), mode="wrap" if how == "circular" else how)
    return torch.tensor(rows.copy())


@op("rearrange")
def _(a, x):
    return x.index_select(a["axis"], rearranged(a, x.shape[a["axis"]]))


@op("rearrange_back")
def _(a, x):
    shape = list(x.shape)
    shape[a["axis"]] = a.get("size", shape[a["axis"]])
    return torch.zeros(shape, dtype=x.dtype).index_add(a["axis"], rearranged(a, shape[a["axis"]]), x)


@op("triangle")
def _(a, x):
    return (torch.triu if a["upper"] else torch.tril)(x, max(-1000, min(1000, a["diagonal"])))


@op("elu")
def _(a, x):
    inner = a.get("inner", 1)
    return a.get("scale", 1) * torch.where(x > 0, x, a["alpha"] * torch.expm1(torch.clamp(x, max=0) * inner))


each("softplus", F.softplus)
each("log_sigmoid", F.logsigmoid)
each("mish", F.mish)
each("hard_swish", F.hardswish)
each("softsign", F.softsign)
each("tanh_shrink", F.tanhshrink)
each("sparse_plus", lambda x: torch.where(x >= 1, x, torch.where(x <= -1, 0 * x, (x + 1) ** 2 / 4)))


@op("shrink")
def _(a, x):
    return torch.where(x.abs() <= a["limit"], 0 * x, x - a["shift"] * torch.sign(x))


@op("squareplus")
def _(a, x):
    return (x + torch.sqrt(x * x + a["b"])) / 2


@op("gather_along")
def _(a, table, rows):
    axis, shared = a["axis"], a["shared"]
    if shared == 0:
        return table.index_select(axis, rows.flatten()).reshape(table.shape[:axis] + rows.shape + table.shape[axis + 1:])
    inner = [OPS["gather_along"]({"axis": axis - 1, "shared": shared - 1}, t, r) for t, r in zip(table, rows)]
    return torch.stack(inner)


@op("take_along_axis")
def _(a, x, numbers):
    return torch.gather(x, a["axis"], numbers)


@op("scatter", "scatter_join")
def _(a, x, rows, values):
    how, axis = a["how"], a["axis"]
    slices = list(x.unbind(axis))
    join = {"set": lambda old, new: new, "add": torch.add, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum}
    for row, value in zip(rows.tolist(), values.unbind(axis)):
        slices[row] = join[how](slices[row], value)
    return torch.stack(slices, axis)


@op("bincount")
def _(a, numbers):
    return torch.bincount(numbers.flatten(), minlength=a["bins"])


@op("sort")
def _(a, x):
    values, places = torch.sort(x, dim=-1, descending=bool(a["descending"]), stable=True)
    count = a["count"] or x.shape[-1]
    return values[..., :count], places[..., :count]


@op("rope")
def _(a, x, positions=None):
    axis, turned = x.dim() - (3 if a["positions_first"] else 2), a["turned"]
    if positions is None:
        positions = torch.arange(x.shape[axis])
    angles = (positions.double() + a["offset"]).unsqueeze(-1) * a["base"] ** (-torch.arange(0, turned, 2) / turned)
    shape = [1] * x.dim()
    shape[axis], shape[-1] = x.shape[axis], turned // 2
    if positions.dim() == 2:
        shape[0] = x.shape[0]
    c, s = angles.cos().reshape(shape), angles.sin().reshape(shape)
    part, rest = x[..., :turned], x[..., turned:]
    if a["interleaved"]:
        u, v = part[..., 0::2], part[..., 1::2]
        y = torch.stack((u * c - v * s, v * c + u * s), -1).flatten(-2)
    else:
        u, v = part.chunk(2, -1)
        y = torch.cat((u * c - v * s, v * c + u * s), -1)
    return torch.cat((y, rest), -1)


# As ONNX defines it, with the weights of each element as a row of a matrix.
@op("resample")
def _(a, x):
    size, to, mode, kind = x.shape[a["axis"]], a["size"], a["mode"], a["coordinates"]
    matrix = torch.zeros(to, size, dtype=torch.float64)
    for j in range(to):
        if kind == "asymmetric":
            place = j * size / to
        elif kind == "tf_half_pixel_for_nn":
            place = (j + 0.5) * size / to
        elif kind == "align_corners":
            place = 0.0 if to == 1 else j * (size - 1) / (to - 1)
        else:
            place = 0.0 if kind == "pytorch_half_pixel" and to == 1 else (j + 0.5) * size / to - 0.5
        if mode == "nearest":
            rounding = {"floor": math.floor, "ceil": math.ceil, "round_prefer_floor": lambda v: math.ceil(v - 0.5),
                        "round_prefer_ceil": lambda v: math.floor(v + 0.5)}
            taps = [(rounding[a["nearest"]](place), 1.0)]
        elif mode == "linear":
            place = min(max(place, 0.0), size - 1.0)
            low = math.floor(place)
            taps = [(low, 1 - (place - low)), (low + 1, place - low)]
        else:
            low = math.floor(place)
            taps = []
            for k in range(low - 1, low + 3):
                d, c = abs(place - k), a["cubic"]
                taps.append((k, (c + 2) * d**3 - (c + 3) * d**2 + 1 if d <= 1 else c * (d**3 - 5 * d**2 + 8 * d - 4)))
        for k, weight in taps:
            matrix[j, min(max(k, 0), size - 1)] += weight
    return torch.movedim(torch.movedim(x, a["axis"], -1) @ matrix.T, -1, a["axis"])


# Losses.
@op("sparse_cross_entropy")
def _(a, logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


@op("cross_entropy")
def _(a, logits, targets):
    return -(targets * torch.log_softmax(logits, -1)).sum(-1).mean()


@op("linear_cross_entropy")
def _(a, x, kernel, labels):
    logits = x @ (kernel.T if a.get("transposed") else kernel)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


each("binary_cross_entropy", F.binary_cross_entropy_with_logits)
each("mean_squared_error", F.mse_loss)
each("mean_absolute_error", F.l1_loss)


@op("huber")
def _(a, prediction, target):
    return F.huber_loss(prediction, target, delta=a.get("delta", 1.0))


@op("sum_squares")
def _(a, x, rows=None):
    if rows is not None:
        x = torch.zeros(a["table"], dtype=x.dtype).index_add(0, rows, x)
    return (x * x).sum()


# Functions that are composed of operators: what PyTorch itself makes of the inputs of their samples, in order.
def lrn(x, size, alpha, beta, offset):
    squares = F.pad(x * x, (0, 0) * (x.dim() - 2) + ((size - 1) // 2, size // 2))
    mean = sum(squares[:, i:i + x.shape[1]] for i in range(size)) / size
    return x * (offset + alpha * mean) ** -beta


def segments(reduce, start):
    def run(count):
        def of(values, numbers):
            rows = []
            for s in range(count):
                chosen = values[numbers == s]
                rows.append(reduce(chosen) if len(chosen) else torch.full(values.shape[1:], start, dtype=values.dtype))
            return torch.stack(rows)
        return of
    return run



def variance(axes, keep, correction=0):
    return lambda x: torch.var(x, axes, correction=correction, keepdim=keep)


def norm(order, scale=None):
    return lambda axes, keep: lambda x: torch.linalg.vector_norm(x if scale is None else x * scale + 1, order, axes, keep)


def sparsemax(x, axis):
    # By bisection: the limit at which what is left sums up to 1.
    low, high = x.amax(axis, keepdim=True) - 1, x.amax(axis, keepdim=True)
    for _ in range(100):
        middle = (low + high) / 2
        above = F.relu(x - middle).sum(axis, keepdim=True) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return F.relu(x - low)


def all_of(name, function):
    for sample in ("positive", "negative", "large", "wide"):
        COMPOSED[f"{name}/{sample}"] = function


COMPOSED = {
    "einsum/product": lambda x, y: torch.einsum("ij,jk->ik", x, y),
    "einsum/heads": lambda x, y: torch.einsum("bqhd,bkhd->bhqk", x, y),
    "einsum/dense over dots": lambda x, y: torch.einsum("...x,xyz->...yz", x, y),
    "einsum/outer": lambda x, y: torch.einsum("bi,bj->bij", x, y),
    "einsum/sums": lambda x: torch.einsum("bij->b", x),
    "einsum/transpose": lambda x: torch.einsum("bij->bji", x),
    "einsum/over the batch": lambda x, y: torch.einsum("bi,bj->ij", x, y),
    "einsum/three": lambda x, y, z: torch.einsum("bi,ij,j->b", x, y, z),
    "einsum/implied": lambda x, y: torch.einsum("cb,ba", x, y),
    "einsum/own sums": lambda x, y: torch.einsum("bik,jk->bj", x, y),
    "conv1d/bias": lambda x, k, b: F.conv1d(x, k, b, padding=1),
    "conv1d/causal, in groups": lambda x, k: F.conv1d(F.pad(x, (4, 0)), k, stride=2, dilation=2, groups=4),
    "conv1d_transpose/strided": lambda x, k, b: F.conv_transpose1d(x, k, b, 2, 1, 1),
    "pool1d/strided": lambda x: F.max_pool1d(x, 3, 2, 1),
    "pool1d/mean": lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
    "conv3d/plain": lambda x, k, b: F.conv3d(x, k, b),
    "conv3d/strides, pads, groups": lambda x, k: F.conv3d(x, k, None, (2, 1, 2), (1, 1, 0), (2, 1, 1), 2),
    "conv3d_transpose/strides": lambda x, k, b: F.conv_transpose3d(x, k, b, (2, 1, 2), (1, 0, 0), (1, 0, 1)),
    "pool3d/largest": lambda x: F.max_pool3d(x, (2, 3, 2), (2, 2, 1), (1, 1, 0)),
    "pool3d/mean": lambda x: tuple(F.avg_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 1), count_include_pad=all_pads)
                                   for all_pads in (False, True)),
    "rms_norm/rows": lambda x, g: F.rms_norm(x, x.shape[-1:], g, 1e-6),
    "rms_norm/large epsilon": lambda x, g: F.rms_norm(x, x.shape[-1:], g, 0.5),
    "instance_norm/images": lambda x, g, b: F.instance_norm(x, None, None, g, b, eps=1e-2),
    "local_response_norm/odd": lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1),
    "local_response_norm/even": lambda x: lrn(x, 4, 0.3, 0.5, 2),
    "stack/middle": lambda x, y: torch.stack((x, y), 1),
    "stack/last": lambda x, y: torch.stack((x, y), -1),
    "unstack/middle": lambda x: x.unbind(1),
    "unstack/many": lambda x: x.unbind(-1),
    # As ONNX's mode DCR; by columns is PyTorch's pixel shuffle.
    "depth_to_space/depth first": lambda x: F.pixel_shuffle(x.unflatten(1, (4, -1)).transpose(1, 2).flatten(1, 2), 2),
    "depth_to_space/by columns": lambda x: F.pixel_shuffle(x, 2),
    "space_to_depth/depth first": lambda x: F.pixel_unshuffle(x, 2).unflatten(1, (-1, 4)).transpose(1, 2).flatten(1, 2),
    "space_to_depth/by columns": lambda x: F.pixel_unshuffle(x, 2),
    "segment_sum/rows": segments(lambda v: v.sum(0), 0.0)(4),
    "segment_sum/one number each": segments(lambda v: v.sum(0), 0.0)(3),
    "segment_mean/rows": segments(lambda v: v.mean(0), 0.0)(4),
    "segment_mean/one number each": segments(lambda v: v.mean(0), 0.0)(3),
    "segment_max/rows": segments(lambda v: v.amax(0), -99.0)(4),
    "segment_max/one number each": segments(lambda v: v.amax(0), -99.0)(3),
    "segment_min/one number each": segments(lambda v: v.amin(0), 99.0)(3),
    "diagonal/square": lambda x: torch.diagonal(x, 0, -2, -1),
    "diagonal/above and below": lambda x: tuple(torch.diagonal(x, k, -2, -1) for k in (2, -1, 4)),
    "rearrange/windows": lambda x: F.unfold(x, (3, 2), padding=1, stride=2),
    "rearrange_back/windows": lambda x: F.fold(x, (5, 6), (3, 2), padding=1, stride=2),
    "rearrange_back/once each": lambda x: F.fold(x, (4, 6), (2, 2), stride=2),
    "gather_along/points": lambda i, j, t: t[i[..., 0], j[..., 0]],
    "sparsemax/last axis": lambda x: sparsemax(x, -1),
    "sparsemax/channels": lambda x: sparsemax(x, 1),
    "glu/last axis": lambda x: F.glu(x),
    "glu/channels": lambda x: F.glu(x, 1),
    "reduce_variance/last axis": variance(2, False),
    "reduce_variance/images": variance((-2, -1), True),
    "reduce_variance/everything": variance(None, False),
    "reduce_variance/batch": variance(0, False),
    "reduce_variance/last axis, corrected": variance(2, False, 1),
    "reduce_variance/images, corrected": variance((-2, -1), True, 1),
    "reduce_variance/everything, corrected": variance(None, False, 1),
    "reduce_std/last axis": lambda x: torch.std(x, 2, correction=0),
    "reduce_logsumexp/last axis": lambda x: torch.logsumexp(3 * x, 2),
    "reduce_logsumexp/images": lambda x: torch.logsumexp(3 * x, (-2, -1), True),
    "reduce_logsumexp/large": lambda x: torch.logsumexp(x, 1),
    "norm/last axis": norm(2)(2, False),
    "norm/images": norm(2)((-2, -1), True),
    "norm/everything": norm(2)(None, False),
    "norm/last axis, sum": norm(1, 0.3)(2, False),
    "norm/last axis, cubic": norm(3, 0.3)(2, False),
    "norm/images, largest": norm(math.inf)((-2, -1), True),
}
all_of("selu", F.selu)
all_of("celu", lambda x: F.celu(x, 1.5))
all_of("hard_shrink", lambda x: F.hardshrink(x, 0.5))
all_of("hard_sigmoid", F.hardsigmoid)
all_of("hard_tanh", F.hardtanh)
all_of("sparse_sigmoid", lambda x: torch.clamp((x + 1) / 2, 0, 1))
all_of("threshold", lambda x: F.threshold(x, 0.5, 0.25))
all_of("elu", lambda x: F.elu(x, 0.7))
all_of("shrink", lambda x: F.softshrink(x, 0.5))


def expect_composed(name, inputs, outputs):
    if name not in COMPOSED:
        return
    if name.startswith(("conv", "rms_norm", "instance_norm")):
        inputs = inputs[::-1]  # arguments of a call, which gcc makes from the last to the first
    expected = COMPOSED[name](*inputs)
    for y, wanted in zip(outputs, expected if isinstance(expected, (tuple, list)) else [expected]):
        torch.testing.assert_close(y, wanted.reshape(y.shape), rtol=1e-6, atol=1e-6, msg=lambda text: f"{name}: {text}")


def numbers(tensor):
    return [float(f"{v:.7g}") for v in tensor.detach().to(torch.float64).flatten().tolist()]


def golden(sample):
    given = {}
    types = {}
    for line in sample["graph"].splitlines()[1:]:
        words = line.split(" ")
        if words[0] in ("placeholder", "variable"):
            types[words[1]] = (words[0], *typed(words[2]))
    wrt = []
    for item in sample["inputs"]:
        kind, dtype, shape = types[item["name"]]
        value = drawn(item["name"], dtype, shape, item["low"], item["high"])
        if kind == "placeholder" and value.is_floating_point() and sample["has_gradient"]:
            value.requires_grad_()
            wrt.append(item["name"])
        given[item["name"]] = value
    values = evaluate(sample["graph"], given)
    outputs = [values[name] for name in sample["outputs"]]
    expect_composed(f'{sample["op"]}/{sample["sample"]}', [given[item["name"]].detach() for item in sample["inputs"]],
                    [y.detach() for y in outputs])
    result = {"graph": sample["graph"], "outputs": [numbers(y) for y in outputs]}
    if sample["has_gradient"]:
        loss = torch.zeros((), dtype=torch.float64)
        for i, y in enumerate(outputs):
            if y.is_floating_point():
                loss = loss + (y * drawn(f"seed{i}", "f32", list(y.shape), -1, 1)).sum()
        grads = torch.autograd.grad(loss, [given[name] for name in wrt], allow_unused=True) if loss.requires_grad else \
            [None] * len(wrt)
        result["gradients"] = {name: numbers(torch.zeros_like(given[name]) if g is None else g)
                               for name, g in zip(wrt, grads)}
    return result


def main():
    samples = json.loads(subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout)
    folder = pathlib.Path(__file__).parent
    files = {}
    missing = {}
    for sample in samples:
        if SKIPPED & {sample["op"], f'{sample["op"]}/{sample["sample"]}'}:
            continue
        if len(sys.argv) > 2 and sample["op"] not in sys.argv[2:]:
            continue
        try:
            files.setdefault(sample["op"], {})[sample["sample"]] = golden(sample)
        except KeyError as error:
            missing.setdefault(sample["op"], str(error))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
    print(f"wrote {len(files)} files")
    for name, why in missing.items():
        print(f"no torch function for {why} in the samples of {name}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

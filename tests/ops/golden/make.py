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
def _(a, q, k, v, mask=None):
    heads_last = a.get("layout") == "bthd"
    if heads_last:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scale = a.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1])
    scores = q @ k.transpose(-1, -2) * scale
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if mask is not None:
        hidden = hidden | (mask == 0)
    if a.get("causal"):
        hidden = hidden | (torch.ones(scores.shape[-2:]).triu(1) > 0)
    scores = scores.masked_fill(hidden, -math.inf)
    # A query that may see nothing gives zeros.
    blind = hidden.all(-1, keepdim=True)
    shares = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    y = shares @ v
    return y.transpose(1, 2) if heads_last else y, torch.logsumexp(scores, -1)


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
each("div", torch.div)
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
    return x * a.get("factor", 1) + a.get("offset", 0)


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


@op("argmax")
def _(a, x):
    # The first of equal ones, which torch does not promise.
    largest = x == x.amax(a["axis"], keepdim=True)
    return (largest.cumsum(a["axis"]) == 0).sum(a["axis"])


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

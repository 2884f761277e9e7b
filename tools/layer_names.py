#!/usr/bin/env python3
"""Writes docs/layers.md: the public names of Keras and PyTorch, and what they are called here.

    tools/layer_names.py >docs/layers.md
    tools/layer_names.py --update SITE_PACKAGES     # reads the names of an installed keras and torch again

Names of the others are in tools/layer_names.json. A name counts as there only if the source has what it is mapped to: layers.inc,
ops.inc, optimisers.inc and the tables of losses, metrics, activations and initial values are read. With --least SHARE it exits with
1 when fewer of Keras' names that are not tied to strings, sparse tensors or other frameworks are there.
"""
import ast
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ROOT / "tools" / "layer_names.json"
KERAS = ["layers", "losses", "metrics", "optimizers", "activations", "initializers", "regularizers", "constraints"]

# Where a name is spelled otherwise here: (what the source must have, how it is written in a program).
LAYERS = {
    "Activation": "layer activation",
    "ActivityRegularization": "op reduce_sum: add it to an objective of one's own",
    "AdditiveAttention": None,
    "Add": "layer add",
    "AlphaDropout": "layer alpha_dropout",
    "Attention": "op attention",
    "AutoContrast": None,
    "Average": "layer average",
    "AveragePooling1D": "layer average_pool1d",
    "AveragePooling2D": "layer average_pool",
    "AveragePooling3D": "layer average_pool3d",
    "BatchNormalization": "layer batch_norm",
    "Bidirectional": "layer lstm: .bidirectional",
    "CategoryEncoding": "layer category_encoding",
    "CenterCrop": "layer center_crop",
    "Concatenate": "layer concatenate",
    "Conv1D": "layer conv1d",
    "Conv1DTranspose": "layer conv1d_transpose",
    "Conv2D": "layer conv2d",
    "Conv2DTranspose": "layer conv2d_transpose",
    "Conv3D": "layer conv3d",
    "Conv3DTranspose": "layer conv3d_transpose",
    "Cropping1D": "layer cropping",
    "Cropping2D": "layer cropping",
    "Cropping3D": "layer cropping",
    "Dense": "layer dense",
    "DepthwiseConv1D": "layer depthwise_conv1d",
    "DepthwiseConv2D": "layer depthwise_conv2d",
    "Discretization": "layer discretization",
    "Dot": "layer dot",
    "Dropout": "layer dropout",
    "ELU": "activation elu",
    "EinsumDense": "layer einsum_dense",
    "Embedding": "layer embedding",
    "Flatten": "layer flatten",
    "GRU": "layer gru",
    "GRUCell": "layer gru: one step of a sequence of one position",
    "GaussianDropout": "layer gaussian_dropout",
    "GaussianNoise": "layer gaussian_noise",
    "GlobalAveragePooling1D": "layer global_average_pool",
    "GlobalAveragePooling2D": "layer global_average_pool",
    "GlobalAveragePooling3D": "layer global_average_pool",
    "GlobalMaxPooling1D": "layer global_max_pool",
    "GlobalMaxPooling2D": "layer global_max_pool",
    "GlobalMaxPooling3D": "layer global_max_pool",
    "GroupNormalization": "layer group_norm",
    "GroupQueryAttention": "layer multi_head_attention: .key_heads",
    "Identity": "layer identity",
    "Lambda": "layer identity: any function of (Tensor, bool) is a layer",
    "Layer": "layer identity: any function of (Tensor, bool) is a layer",
    "LayerNormalization": "layer layer_norm",
    "LeakyReLU": "op leaky_relu",
    "LSTM": "layer lstm",
    "LSTMCell": "layer lstm: one step of a sequence of one position",
    "Masking": "layer mask_of",
    "MaxNumBoundingBoxes": None,
    "MaxPooling1D": "layer max_pool1d",
    "MaxPooling2D": "layer max_pool",
    "MaxPooling3D": "layer max_pool3d",
    "Maximum": "layer maximum",
    "MelSpectrogram": None,
    "Minimum": "layer minimum",
    "MultiHeadAttention": "layer multi_head_attention",
    "Multiply": "layer multiply",
    "Normalization": "layer normalization",
    "PReLU": "layer prelu",
    "Permute": "layer permute",
    "RMSNormalization": "layer rms_norm",
    "ReLU": "activation relu",
    "RepeatVector": "layer repeat_vector",
    "Rescaling": "layer rescaling",
    "Reshape": "layer reshape",
    "Resizing": "layer resizing",
    "ReversibleEmbedding": "op matmul: with the table of embedding, transposed",
    "RNN": "layer simple_rnn",
    "SeparableConv1D": "layer separable_conv1d",
    "SeparableConv2D": "layer separable_conv2d",
    "SimpleRNN": "layer simple_rnn",
    "SimpleRNNCell": "layer simple_rnn: one step of a sequence of one position",
    "Softmax": "activation softmax",
    "SpatialDropout1D": "layer spatial_dropout",
    "SpatialDropout2D": "layer spatial_dropout",
    "SpatialDropout3D": "layer spatial_dropout",
    "SpectralNormalization": "layer spectral_norm: .kernel_map of dense and convolutions",
    "StackedRNNCells": "layer lstm: .layers",
    "Subtract": "layer subtract",
    "TimeDistributed": "layer time_distributed",
    "UnitNormalization": "layer unit_norm",
    "UpSampling1D": "layer up_sampling",
    "UpSampling2D": "layer up_sampling",
    "UpSampling3D": "layer up_sampling",
    "ZeroPadding1D": "layer zero_padding",
    "ZeroPadding2D": "layer zero_padding",
    "ZeroPadding3D": "layer zero_padding",
    "AdaptiveAveragePooling1D": "layer adaptive_average_pool",
    "AdaptiveAveragePooling2D": "layer adaptive_average_pool",
    "AdaptiveAveragePooling3D": "layer adaptive_average_pool",
    "AdaptiveMaxPooling1D": "layer adaptive_max_pool",
    "AdaptiveMaxPooling2D": "layer adaptive_max_pool",
    "AdaptiveMaxPooling3D": "layer adaptive_max_pool",
}
OTHERS = {
    "losses": {
        "CTC": None,
        "Circle": None,
        "CategoricalFocalCrossentropy": "loss focal",
    },
    "metrics": {
        "BinaryCrossentropy": "loss binary_cross_entropy",
        "CategoricalCrossentropy": "loss cross_entropy",
        "SparseCategoricalCrossentropy": "loss sparse_cross_entropy",
        "MeanMetricWrapper": "metric mean: Metric::own",
        "MeanRelativeError": None,
        "MeanIoU": "metric_function mean_iou",
        "OneHotIoU": "metric_function mean_iou",
        "OneHotMeanIoU": "metric_function mean_iou",
        "ConcordanceCorrelation": None,
        "PrecisionAtRecall": "metric_function precision_at_recall",
        "RecallAtPrecision": "metric_function recall_at_precision",
        "SensitivityAtSpecificity": "metric_function sensitivity_at_specificity",
        "SpecificityAtSensitivity": "metric_function specificity_at_sensitivity",
        "Sum": "metric mean: times the samples",
        "LogCoshError": "loss log_cosh",
        "RootMeanSquaredError": "metric rmse",
        "Metric": "metric_function own",
    },
    "optimizers": {
        "LossScaleOptimizer": "field scales_loss",
        "MultiOptimizer": "field groups",
        "OptimizerMap": "field groups",
        "ScheduleFreeAdamW": None,
    },
    "activations": {"linear": "layer identity", "threshold": "op threshold"},
    "initializers": {
        "Orthogonal": None,
        "OrthogonalInitializer": None,
        "STFT": None,
        "RandomNormal": "init normal",
        "RandomUniform": "init uniform",
        "VarianceScaling": "init variance_scaling",
    },
    "regularizers": {
        "L1": "regulariser l1",
        "L2": "regulariser l2",
        "L1L2": "regulariser l2",
        "OrthogonalRegularizer": None,
    },
    "constraints": {
        "MaxNorm": "constraint max_norm",
        "MinMaxNorm": "constraint min_max_norm",
        "NonNeg": "constraint non_negative",
        "UnitNorm": "constraint unit_norm",
    },
}
# Not counted: base classes and functions about classes, and what other frameworks, strings and sparse tensors need.
NOT_COUNTED = {
    "InputLayer", "InputSpec", "Input", "Wrapper", "Pipeline", "TFSMLayer", "JaxLayer", "FlaxLayer", "TorchModuleWrapper",
    "Hashing", "HashedCrossing", "StringLookup", "IntegerLookup", "TextVectorization", "Loss", "Reduction", "Optimizer",
    "Initializer", "Regularizer", "Constraint", "AbstractRNNCell", "legacy", "schedules", "RematScope", "STFTSpectrogram",
    "STFTInitializer",
}  # fmt: skip
WHY = {
    "layers": "image and audio augmentation belongs to the input (docs/input.md); the rest composes of operators",
    "losses": "CTC needs an operator of its own; circle compares all pairs of a batch",
    "metrics": "few programs use them; Metric::own and a custom sum make them",
    "optimizers": "two sets of weights at once; average is the plainer form",
    "initializers": "values are made element by element in any order, which orthogonal ones can't be",
    "regularizers": "an objective of one's own adds it",
}
TORCH = {
    "AdaptiveAvgPool": "layer adaptive_average_pool", "AdaptiveMaxPool": "layer adaptive_max_pool",
    "AvgPool": "layer average_pool", "MaxPool": "layer max_pool", "BatchNorm": "layer batch_norm", "Conv1d": "layer conv1d",
    "Conv2d": "layer conv2d", "Conv3d": "layer conv3d", "ConvTranspose1d": "layer conv1d_transpose",
    "ConvTranspose2d": "layer conv2d_transpose", "ConvTranspose3d": "layer conv3d_transpose", "Linear": "layer dense",
    "Embedding": "layer embedding", "Flatten": "layer flatten", "Unflatten": "layer reshape", "Fold": "op fold",
    "Unfold": "op unfold", "GRU": "layer gru", "LSTM": "layer lstm", "RNN": "layer simple_rnn", "GLU": "op glu",
    "GroupNorm": "layer group_norm", "InstanceNorm": "layer instance_norm", "LayerNorm": "layer layer_norm",
    "LocalResponseNorm": "op local_response_norm", "RMSNorm": "layer rms_norm", "MultiheadAttention": "layer multi_head_attention",
    "PixelShuffle": "op depth_to_space", "PixelUnshuffle": "op space_to_depth", "ReflectionPad": "op pad_border",
    "ReplicationPad": "op pad_border", "CircularPad": "op pad_border", "ConstantPad": "op pad", "ZeroPad": "layer zero_padding",
    "Upsample": "op resample", "UpsamplingBilinear2d": "layer up_sampling", "UpsamplingNearest2d": "layer up_sampling",
    "SyncBatchNorm": "layer batch_norm", "Dropout1d": "layer spatial_dropout", "Dropout2d": "layer spatial_dropout",
    "Dropout3d": "layer spatial_dropout", "Dropout": "layer dropout", "AlphaDropout": "layer alpha_dropout",
    "PReLU": "layer prelu", "Softmax2d": "op softmax", "Softmin": "op softmax", "Threshold": "op threshold",
    "Identity": "layer identity", "CrossEntropyLoss": "loss sparse_cross_entropy", "BCELoss": "loss binary_cross_entropy",
    "BCEWithLogitsLoss": "loss binary_cross_entropy", "KLDivLoss": "loss kl_divergence", "NLLLoss": "loss nll",
    "L1Loss": "loss mae", "MSELoss": "loss mse", "SmoothL1Loss": "loss smooth_l1", "HuberLoss": "loss huber",
    "PoissonNLLLoss": "loss poisson_nll", "SoftMarginLoss": "loss soft_margin", "HingeEmbeddingLoss": "loss contrastive",
    "TripletMarginLoss": "loss_function triplet_loss", "MarginRankingLoss": "loss_function margin_ranking_loss",
    "CosineEmbeddingLoss": "loss_function cosine_embedding_loss", "GaussianNLLLoss": "loss_function gaussian_nll_loss",
    "CosineSimilarity": "metric cosine", "LinearCrossEntropyLoss": "op linear_cross_entropy", "Tanh": "activation tanh",
}  # fmt: skip


def read(path):
    return (ROOT / path).read_text()


def first_strings(text, start, end):
    """Of a table of {"name", {"alias", ...}, ...}: name and aliases of each row."""
    text = text[text.index(start):]
    rows = []
    for row in re.findall(r'\{\s*"([a-z0-9_A-Z]+)"\s*,\s*(\{[^{}]*\})?', text[: text.index(end)]):
        rows.append((row[0], re.findall(r'"([^"]+)"', row[1] or "")))
    return rows


def ours():
    have = {}

    def add(kind, name, written):
        have.setdefault(f"{kind} {name}", written)

    for name in re.findall(r"^[A-Z_]*LAYER\((\w+)", read("include/plimsoll/layers.inc"), re.M):
        add("layer", name, f"layers::{name}")
    header = read("include/plimsoll/layers.h")
    for name in re.findall(r"^(?:Tensor|Layer|RecurrentOutput) (\w+)\(", header, re.M):
        add("layer", name, f"layers::{name}")
    for name in re.findall(r"FUN\([^,]+, (\w+)", read("include/plimsoll/ops.inc")):
        add("op", name, name)
    for name in re.findall(r"OPTIMISER\((\w+)", read("include/plimsoll/optimisers.inc")):
        add("optimiser", name, f"Optimiser::{name}")
    for name in re.findall(r"VARIANT\(\w+, (\w+)", read("include/plimsoll/optimisers.inc")):
        add("optimiser", name, f"Optimiser::{name}")
    for name in re.findall(r"^  \w[\w:<> ]* (\w+)(?: = [^;]*)?;", read("include/plimsoll/optimiser.h"), re.M):
        add("field", name, f"Optimiser::{name}")
    for kind, path, start in (
        ("loss", "src/model/loss.cpp", "kLosses{"),
        ("metric", "src/model/more_metrics.cpp", "kMetrics{"),
        ("init", "src/graph/init.cpp", "kInits{"),
    ):
        for name, aliases in first_strings(read(path), start, "return k"):
            written = f"Init::{name}" if kind == "init" else f'"{name}"'
            for each in [name, *aliases]:
                add(kind, each, written)
    text = read("src/model/layers/activations.cpp")
    for name in re.findall(r'^ *\{"(\w+)"', text[text.index("kActivations"):], re.M):
        add("activation", name, f'activation "{name}"')
    model = read("include/plimsoll/model.h")
    for name in re.findall(r"static Metric (\w+)\(", model):
        add("metric_function", name, f"Metric::{name}")
    for name in re.findall(r"^Tensor (\w+_loss)\(", model, re.M):
        add("loss_function", name, name)
    graph = read("include/plimsoll/graph.h")
    for name in re.findall(r"static Constraint (\w+)\(", graph):
        add("constraint", name, f"Constraint::{name}")
    for name in ("l1", "l2"):
        if re.search(r"struct Regulariser \{\s*double l1 = 0, l2 = 0;", graph):
            add("regulariser", name, "Regulariser{.l1, .l2}")
    return have


def plain(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find(have, kinds, name):
    by_plain = {}
    for key, written in have.items():
        kind, _, word = key.partition(" ")
        if kind in kinds:
            by_plain.setdefault(plain(word), written)
    return by_plain.get(plain(name))


def look_up(have, mapped):
    if mapped is None:
        return None
    key, _, note = mapped.partition(": ")
    written = have.get(key)
    return f"`{written}`" + (f", {note}" if note else "") if written else None


KINDS = {
    "layers": ["layer"], "losses": ["loss"], "metrics": ["metric", "loss"], "optimizers": ["optimiser"],
    "activations": ["activation"], "initializers": ["init"], "regularizers": ["regulariser"], "constraints": ["constraint"],
}  # fmt: skip


def full_name(name):
    """Keras' short names of layers, and those of classes of initial values."""
    name = re.sub(r"^Convolution|(?<=Separable)Convolution", "Conv", name)
    name = re.sub(r"Avg(?=Pool)", "Average", name)
    return re.sub(r"Pool(?=\dD)", "Pooling", name).removesuffix("Initializer")


def rows_of(have, part, names):
    mapping = LAYERS if part == "layers" else OTHERS.get(part, {})
    rows = []
    for name in names:
        if name in NOT_COUNTED:
            continue
        known = name if name in mapping else full_name(name)
        if known in mapping:
            rows.append((name, look_up(have, mapping[known])))
        else:
            written = find(have, KINDS[part], known)
            rows.append((name, f"`{written}`" if written else None))
    return rows


def torch_row(have, name):
    base = re.sub(r"^Lazy", "", name)
    for key in (base, re.sub(r"\dd$", "", base)):
        if key in TORCH:
            return look_up(have, TORCH[key])
    written = find(have, ["activation", "layer", "loss", "optimiser"], base)
    return f"`{written}`" if written else None


def update(site):
    names = {}
    for part in KERAS:
        tree = ast.parse((pathlib.Path(site) / "keras" / part / "__init__.py").read_text())
        found = [a.asname or a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names]
        first_upper = part != "activations"
        names[part] = sorted({n for n in found if n not in ("deserialize", "serialize", "get") and n[0].isupper() == first_upper})
    text = (pathlib.Path(site) / "torch/nn/modules/__init__.py").read_text()
    names["torch.nn"] = sorted(set(re.findall(r'^ +"(\w+)",$', text, re.M)))
    text = (pathlib.Path(site) / "torch/optim/__init__.py").read_text()
    names["torch.optim"] = sorted(set(re.findall(r"^from torch.optim.\w+ import (\w+) as", text, re.M)))
    NAMES.write_text(json.dumps(names, indent=1) + "\n")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--update":
        return update(sys.argv[2])
    names, have = json.loads(NAMES.read_text()), ours()
    there = counted = 0
    out = []
    for part in KERAS:
        rows = rows_of(have, part, names[part])
        found = sum(1 for _, written in rows if written)
        there, counted = there + found, counted + len(rows)
        out.append(f"\n## keras.{part}: {found} of {len(rows)}\n\n| Keras | here |\n|---|---|")
        out += [f"| {name} | {written} |" for name, written in rows if written]
        if found < len(rows):
            missing = ", ".join(name for name, written in rows if not written)
            out.append(f"\nNot there: {missing}. {WHY.get(part, '')[:1].upper()}{WHY.get(part, '')[1:]}.")
    for part in ("torch.nn", "torch.optim"):
        rows = [(name, torch_row(have, name)) for name in names[part]]
        found = sum(1 for _, written in rows if written)
        out.append(f"\n## {part}: {found} of {len(rows)}\n\n| PyTorch | here |\n|---|---|")
        out += [f"| {name} | {written} |" for name, written in rows if written]
        out.append("\nNot there: " + ", ".join(name for name, written in rows if not written) + ".")
    share = 100 * there / counted
    print(
        "# Layers, losses, metrics and optimisers by the names of others\n\n"
        "`tools/layer_names.py` writes this page from the lists of the source. Names in quotes go where compile and layers take a\n"
        "name; Keras' and PyTorch's own spellings are accepted there too.\n\n"
        f"{there} of {counted} names of Keras are here ({share:.1f} %), names tied to strings, sparse tensors and other frameworks\n"
        "not counted."
    )
    print("\n".join(out))
    least = float(sys.argv[2]) if len(sys.argv) == 3 and sys.argv[1] == "--least" else 0
    if share < least:
        print(f"only {share:.1f} % of Keras' names are there, less than {least:g} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

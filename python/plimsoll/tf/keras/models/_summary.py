"""model.summary()."""
import numpy as np

from ... import nest


def _count(variables):
    return sum(int(np.prod(one.shape.as_list(), dtype=np.int64)) for one in variables)


def _bytes(count):
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            return f"{count:.2f} {unit}"
        count /= 1024


def _shape_of(layer):
    try:
        return str(nest.map_structure(lambda one: tuple(one), layer.output_shape) if not isinstance(
            layer.output_shape, tuple) else layer.output_shape)
    except (AttributeError, TypeError):
        return "?"


def text_of(model):
    if not model.built:
        raise ValueError("This model has not yet been built. Build the model first by calling `build()` or by calling the "
                         "model on a batch of data.")
    if model._build_shape is not None and hasattr(model, "_expect_shape"):
        model._expect_shape()
    rows = [(f"{one.name} ({type(one).__name__})", _shape_of(one), f"{_count(one.weights):,}") for one in model.layers]
    wide = [max([len(row[i]) for row in rows] + [len(title)]) + 2
            for i, title in enumerate(("Layer (type)", "Output Shape", "Param #"))]

    def line(row):
        return " ".join(cell.ljust(width) for cell, width in zip(row, wide)).rstrip()
    rule = "-" * (sum(wide) + 2)
    trained, other = _count(model.trainable_weights), _count(model.non_trainable_weights)
    total = trained + other
    text = [f'Model: "{model.name}"', rule, line(("Layer (type)", "Output Shape", "Param #")), rule]
    text += [line(row) for row in rows] + [rule]
    text += [f" Total params: {total:,} ({_bytes(4 * total)})", f" Trainable params: {trained:,} ({_bytes(4 * trained)})",
             f" Non-trainable params: {other:,} ({_bytes(4 * other)})"]
    return "\n".join(text)

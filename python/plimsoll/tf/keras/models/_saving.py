"""Models and weights in files: a zip archive with the description as JSON and the weights as npy files, one by one."""
import importlib
import io
import json
import os
import tempfile
import zipfile

import numpy as np

from ... import nest
from .. import optimizers
from .._state import DTypePolicy
from ..layers._base import Layer, _changed_now
from ..layers._core import InputLayer
from ._functional import Functional
from ._model import Model
from ._sequential import Sequential

_registered = {}


def register_keras_serializable(package="Custom", name=None):
    def wrap(kind):
        _registered[kind.__name__] = _registered[f"{package}>{name or kind.__name__}"] = kind
        return kind
    return wrap


class CustomObjects:
    """custom_object_scope: names that are known while a model is loaded."""

    def __init__(self, *objects):
        self.objects = {key: value for one in objects for key, value in one.items()}

    def __enter__(self):
        self.before = dict(_registered)
        _registered.update(self.objects)

    def __exit__(self, *raised):
        _registered.clear()
        _registered.update(self.before)


def get_custom_objects():
    return _registered


# Descriptions.


def _plain(value):
    """A value as JSON has it."""
    if isinstance(value, Layer):
        return {"layer": description_of(value)}
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (np.integer, np.floating)):
        return value.item()
    if isinstance(value, DTypePolicy):
        return value.name
    if hasattr(value, "name") and type(value).__name__ == "DType":
        return value.name
    if isinstance(value, tuple):
        return {"tuple": [_plain(one) for one in value]}
    if isinstance(value, list) or type(value).__name__ == "TensorShape":
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {"dict": {str(key): _plain(one) for key, one in value.items()}}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    if hasattr(value, "get_config") and not isinstance(value, type):
        return {"object": type(value).__name__, "module": type(value).__module__,
                "config": {key: _plain(one) for key, one in value.get_config().items()}}
    if callable(value):
        return {"function": getattr(value, "__name__", str(value)), "module": getattr(value, "__module__", "")}
    raise TypeError(f"{value!r} can't be written into a model's file; give the layer a get_config()")


def _again(value, custom):
    if isinstance(value, list):
        return [_again(one, custom) for one in value]
    if not isinstance(value, dict):
        return value
    if "layer" in value:
        return layer_of(value["layer"], custom)
    if "tuple" in value:
        return tuple(_again(one, custom) for one in value["tuple"])
    if "dict" in value:
        return {key: _again(one, custom) for key, one in value["dict"].items()}
    if "array" in value:
        return np.array(value["array"], value["dtype"])
    if "object" in value:
        kind = _found(value["object"], value["module"], custom)
        return kind(**{key: _again(one, custom) for key, one in value["config"].items()})
    if "function" in value:
        return _found(value["function"], value["module"], custom)
    return {key: _again(one, custom) for key, one in value.items()}


def _found(name, module, custom):
    for known in (custom or {}, _registered):
        if name in known:
            return known[name]
    if module.startswith("plimsoll."):
        found = getattr(importlib.import_module(module), name, None)
        if found is not None:
            return found
    raise ValueError(f"Could not locate class or function '{name}'. Make sure custom classes and functions are included in "
                     "`custom_objects` or decorated with `@keras.saving.register_keras_serializable()`.")


def description_of(layer):
    made = {"class_name": type(layer).__name__, "module": type(layer).__module__}
    if isinstance(layer, Sequential):
        made.update(name=layer.name, layers=[description_of(one) for one in layer.layers],
                    shape=_plain(layer._first.batch_shape if layer._first else layer._build_shape))
        return made
    if isinstance(layer, Model) and layer._functional:
        made.update(name=layer.name, **_graph_of(layer))
        return made
    config = layer.get_config()
    made["config"] = {key: _plain(one) for key, one in config.items()}
    made["build_shape"] = _plain(layer._build_shape)
    return made


def _graph_of(model):
    layers, calls, numbers = {}, [], {}

    def place(value):
        if id(value) in numbers:
            return {"at": numbers[id(value)]}
        if isinstance(value, (list, tuple)):
            return {"list": [place(one) for one in value]}
        return _plain(value)

    def keep(outputs):
        for one in nest.flatten(outputs):
            numbers[id(one)] = len(numbers)
    for one in nest.flatten(model._inputs):
        keep(one)
    for node in model._order:
        if not getattr(node.function, "_is_layer", False):
            raise ValueError(f"this model calls {node.name} between its layers, which its file can't hold; put it into a "
                             "layer of your own")
        layers.setdefault(id(node.function), node.function)
        calls.append({"layer": node.function.name, "args": [place(one) for one in node.args],
                      "kwargs": {key: place(one) for key, one in node.kwargs.items()}})
        keep(node.outputs)
    return {"inputs": [{"shape": _plain(tuple(one.shape)), "dtype": one.dtype.name, "name": one.label}
                       for one in nest.flatten(model._inputs)],
            "layers": [description_of(one) for one in layers.values()], "calls": calls,
            "outputs": [numbers[id(one)] for one in nest.flatten(model._outputs)],
            "gives_list": isinstance(model._outputs, (list, tuple))}


def layer_of(made, custom=None):
    """The layer or model of a description."""
    name = made["class_name"]
    if name == "Sequential":
        shape = _again(made.get("shape"), custom)
        model = Sequential(name=made["name"])
        if shape is not None:
            model.add(InputLayer(batch_shape=(None,) + tuple(shape)[1:], dtype=_first_type(made)))
        for one in made["layers"]:
            model.add(layer_of(one, custom))
        return model
    if "calls" in made:
        return _functional_of(made, custom)
    kind = _found(name, made.get("module", ""), custom)
    layer = kind.from_config({key: _again(one, custom) for key, one in made["config"].items()})
    shape = _again(made.get("build_shape"), custom)
    if shape is not None and not layer.built and isinstance(layer, Model):
        layer.build(shape)
    return layer


def _first_type(made):
    return "int32" if made["layers"] and made["layers"][0]["class_name"] == "Embedding" else "float32"


def _functional_of(made, custom):
    layers = {one.get("name") or one["config"]["name"]: layer_of(one, custom) for one in made["layers"]}
    values = [InputLayer(batch_shape=_again(one["shape"], custom), dtype=one["dtype"], name=one["name"]).output
              for one in made["inputs"]]
    inputs = list(values)

    def value(place):
        if isinstance(place, dict) and "at" in place:
            return values[place["at"]]
        if isinstance(place, dict) and "list" in place:
            return [value(one) for one in place["list"]]
        return _again(place, custom)
    for call in made["calls"]:
        outputs = layers[call["layer"]](*[value(one) for one in call["args"]],
                                        **{key: value(one) for key, one in call["kwargs"].items()})
        values.extend(nest.flatten(outputs))
    outputs = [values[i] for i in made["outputs"]]
    return Functional(inputs if len(inputs) > 1 else inputs[0],
                      outputs if len(outputs) > 1 or made["gives_list"] else outputs[0], name=made["name"])


# Files.


def _write(path, overwrite, parts):
    path = os.fspath(path)
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(f"{path} is there; give overwrite=True to replace it")
    folder = os.path.dirname(os.path.abspath(path))
    handle, made = tempfile.mkstemp(dir=folder, prefix=".plimsoll-")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in parts:
                with archive.open(name, "w", force_zip64=True) as entry:
                    if isinstance(content, str):
                        entry.write(content.encode())
                    else:
                        np.lib.format.write_array(entry, np.asarray(content(), order="C"), allow_pickle=False)
            file.flush()
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def _weight_parts(folder, variables):
    for i, one in enumerate(variables):
        yield f"{folder}/{i:06d}.npy", one.numpy


def save_weights(model, path, overwrite=True):
    path = os.fspath(path)
    variables = model.weights
    if not variables:
        raise ValueError(f"model '{model.name}' has no weights yet: build it or call it first")
    names = json.dumps([getattr(one, "path", one.name) for one in variables])
    _write(path, overwrite, [("weights.json", names), *_weight_parts("weights", variables)])


def _arrays(path, folder):
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(one for one in archive.namelist() if one.startswith(folder + "/"))
            for name in names:
                with archive.open(name) as entry:
                    yield np.lib.format.read_array(io.BytesIO(entry.read()), allow_pickle=False)
    except zipfile.BadZipFile:
        raise ValueError(f"{path} is no file of model.save or save_weights of plimsoll.tf; weights of Keras' own files are "
                         "read by h5py and set with model.set_weights") from None


def load_weights(model, path, skip_mismatch=False):
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"[Errno 2] Unable to open file: {path}")
    variables, count = model.weights, 0
    if not variables:
        raise ValueError("Unable to load weights: the model has none yet. Build it or call it first.")
    for variable, array in zip(variables, _arrays(path, "weights")):
        if tuple(variable.shape) != array.shape:
            if skip_mismatch:
                continue
            raise ValueError(f"Shape mismatch in layer weights '{variable.name}': {tuple(variable.shape)} in the model, "
                             f"{array.shape} in {path}")
        _changed_now(variable, array)
        count += 1
    if count != len(variables) and not skip_mismatch:
        raise ValueError(f"Layer count mismatch when loading weights from file. Model expected {len(variables)} weights, "
                         f"found {count} saved ones.")


def _plain_compile(model):
    if not model.compiled or model._compiled_loss is None:
        return None
    loss, metrics = model._compiled_loss.loss, model._compiled_metrics
    try:
        return {"loss": _plain(loss), "metrics": _plain(metrics.given) if metrics is not None else None,
                "optimizer": optimizers.serialize(getattr(model.optimizer, "inner_optimizer", model.optimizer))}
    except TypeError:
        return None


def save_model(model, path, overwrite=True, include_optimizer=True, **kwargs):
    path = os.fspath(path)
    if not path.endswith((".keras", ".h5", ".hdf5")):
        raise ValueError("Invalid filepath extension for saving. Please add either a `.keras` extension for the native "
                         f"Keras format (recommended) or a `.h5` extension. Received: filepath={path}.")
    if not model.built:
        raise ValueError("The model has no weights yet: build it or call it first")
    parts = [("config.json", json.dumps({"model": description_of(model), "compile": _plain_compile(model)})),
             *_weight_parts("weights", model.weights)]
    if include_optimizer and model.optimizer is not None:
        parts += _weight_parts("optimizer", model.optimizer.variables)
    _write(path, overwrite, parts)


def load_model(filepath, custom_objects=None, compile=True, safe_mode=True):
    path = os.fspath(filepath)
    if not os.path.exists(path):
        raise ValueError(f"File not found: filepath={path}. Please ensure the file is an accessible `.keras` zip file.")
    try:
        with zipfile.ZipFile(path) as archive:
            made = json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, KeyError):
        raise ValueError(f"{path} is no file of model.save of plimsoll.tf") from None
    model = layer_of(made["model"], custom_objects)
    load_weights(model, path)
    if compile and made["compile"] is not None:
        settings = made["compile"]
        model.compile(optimizer=optimizers.get(settings["optimizer"]), loss=_again(settings["loss"], custom_objects),
                      metrics=_again(settings["metrics"], custom_objects))
        model.optimizer.build(model.trainable_weights)
        arrays = list(_arrays(path, "optimizer"))
        if len(arrays) == len(model.optimizer.variables):
            model.optimizer.set_weights(arrays)
    return model


def clone_model(model, input_tensors=None, clone_function=None, **kwargs):
    if clone_function is not None and isinstance(model, Sequential):
        made = Sequential([clone_function(one) for one in model.layers], name=model.name)
        if model._first is not None:
            return Sequential([InputLayer(batch_shape=model._first.batch_shape), *made.layers], name=model.name)
        return made
    if clone_function is not None and model._functional:
        made = {one.name: clone_function(one) for one in model.layers if not isinstance(one, InputLayer)}
        return _cloned(model, made)
    return layer_of(json.loads(json.dumps(description_of(model))))


def _cloned(model, layers):
    values = {}
    for one in nest.flatten(model._inputs):
        values[id(one)] = InputLayer(batch_shape=tuple(one.shape), dtype=one.dtype, name=one.label).output
    from ..._call import keep, replace
    for node in model._order:
        def find(symbol):
            return values[id(symbol)]
        layer = layers.get(getattr(node.function, "name", None), node.function)
        keep(node.outputs, layer(*replace(node.args, find), **replace(node.kwargs, find)), values)
    outputs = nest.map_structure(lambda one: values[id(one)], model._outputs)
    inputs = nest.map_structure(lambda one: values[id(one)], model._inputs)
    return Functional(inputs, outputs, name=model.name)


def model_from_json(json_string, custom_objects=None):
    return layer_of(json.loads(json_string), custom_objects)



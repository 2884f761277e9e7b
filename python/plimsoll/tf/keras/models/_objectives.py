"""The losses and metrics of a model with one output or several."""
import numpy as np

from ... import nest
from ..._convert import convert
from .. import losses as losses_module
from .. import metrics as metrics_module


def _per_output(given, names, what):
    """One entry for each output, of one for all, a list or a dictionary."""
    count = len(names)
    if isinstance(given, dict):
        unknown = set(given) - set(names)
        if unknown:
            raise ValueError(f"In the dict argument `{what}`, key '{sorted(unknown)[0]}' does not correspond to any model "
                             f"output. Received: {what}={given}, outputs {names}")
        return [given.get(name) for name in names]
    if isinstance(given, (list, tuple)):
        if count == 1 and what != "loss":
            return [given if not (len(given) == 1 and isinstance(given[0], (list, tuple))) else given[0]]
        if len(given) != count:
            if what == "metrics" and not any(isinstance(one, (list, tuple)) for one in given):
                return [list(given)] * count
            raise ValueError(f"For a model with multiple outputs, when providing the `{what}` argument as a list, it should "
                             f"have as many entries as the model has outputs. Received {len(given)} for {count}")
        return list(given)
    return [given] * count


class CompiledLoss:
    def __init__(self, loss, loss_weights):
        self.loss, self.loss_weights = loss, loss_weights
        self.objects = None

    def build(self, names):
        if isinstance(self.loss, (list, tuple)) and len(self.loss) == 1 and len(names) == 1:
            self.loss = self.loss[0]
        given = _per_output(self.loss, names, "loss")
        self.objects = [None if one is None else losses_module.object_of(one) for one in given]
        weights = self.loss_weights
        if weights is None:
            self.weights = [1.0] * len(names)
        elif isinstance(weights, dict):
            self.weights = [weights.get(name, 1.0) for name in names]
        elif isinstance(weights, (list, tuple)):
            self.weights = list(weights)
        else:
            self.weights = [weights]
        self.names = names

    def __call__(self, y_true, y_pred, sample_weight=None):
        """The sum, and the part of each output."""
        names, predictions = named(y_pred)
        if self.objects is None:
            self.build(names)
        targets = matched(y_true, names)
        weights = matched(sample_weight, names) if nest.is_nested(sample_weight) else [sample_weight] * len(names)
        total, parts = None, []
        for one, target, prediction, weight, by in zip(self.objects, targets, predictions, weights, self.weights):
            if one is None:
                parts.append(None)
                continue
            value = convert(one(target, prediction, weight))
            if value.ndim:
                from ..._reduce import reduce_mean
                value = reduce_mean(value)
            parts.append(value)
            value = value if by == 1.0 else value * float(by)
            total = value if total is None else total + value
        return total, parts


def named(outputs):
    if isinstance(outputs, dict):
        return list(outputs), list(outputs.values())
    if isinstance(outputs, (list, tuple)):
        return [f"output_{i}" for i in range(len(outputs))], list(outputs)
    return ["output"], [outputs]


def matched(values, names):
    if isinstance(values, dict):
        if len(names) == 1 and names[0] not in values:
            return list(values.values())
        missing = [name for name in names if name not in values]
        if missing and len(values) == len(names):
            return list(values.values())
        return [values.get(name) for name in names]
    if isinstance(values, (list, tuple)) and (len(names) > 1 or len(values) == 1):
        return list(values)
    return [values] * len(names) if len(names) == 1 else [values] + [None] * (len(names) - 1)


class CompiledMetrics:
    def __init__(self, metrics, weighted_metrics):
        self.given, self.weighted = metrics, weighted_metrics
        self.by_output = None

    def build(self, y_true, y_pred):
        names, predictions = named(y_pred)
        targets = matched(y_true, names)
        self.by_output = []
        for given, is_weighted in ((self.given, False), (self.weighted, True)):
            if given is None:
                continue
            for entry, name, target, prediction in zip(_per_output(given, names, "metrics"), names, targets, predictions):
                entry = entry if isinstance(entry, (list, tuple)) else [entry]
                made = [_metric_of(one, target, prediction) for one in entry if one is not None]
                if len(names) > 1:
                    for one in made:
                        one.name = f"{name}_{one.name}" if not one.name.startswith(name + "_") else one.name
                self.by_output.append((made, names.index(name), is_weighted))

    @property
    def metrics(self):
        return [one for made, _, _ in self.by_output or [] for one in made]

    def update_state(self, y_true, y_pred, sample_weight=None):
        if self.by_output is None:
            self.build(y_true, y_pred)
        names, predictions = named(y_pred)
        targets = matched(y_true, names)
        weights = matched(sample_weight, names) if nest.is_nested(sample_weight) else [sample_weight] * len(names)
        for made, index, is_weighted in self.by_output:
            for one in made:
                if is_weighted:
                    one.update_state(targets[index], predictions[index], sample_weight=weights[index])
                else:
                    one.update_state(targets[index], predictions[index])


def _metric_of(given, y_true, y_pred):
    if isinstance(given, str) and given in ("accuracy", "acc"):
        return metrics_module.accuracy_for(y_true, y_pred, given)
    if isinstance(given, str) and given in ("crossentropy", "ce"):
        return metrics_module.crossentropy_for(y_true, y_pred, given)
    made = metrics_module.get(given)
    if isinstance(given, str) and made is not None:
        made.name = given if given in ("mse", "mae", "auc", "AUC", "mape") else made.name
    return made


def number(value):
    """A result as a float, or as an array where it has several."""
    array = np.asarray(value)
    return float(array) if array.ndim == 0 else array

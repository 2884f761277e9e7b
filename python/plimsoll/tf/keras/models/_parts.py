"""A batch in parts, where the step of the whole batch does not fit the line: gradients are added up, weighed by samples."""
import numpy as np

from ... import _engine, nest
from ..._tape import GradientTape
from ..._variable import Variable
from ...errors import ResourceExhaustedError
from ..layers._core import Embedding, Masking
from ..layers._norms import BatchNormalization
from ._batches import unpack_x_y_sample_weight

_SHARE = 256  # batches smaller than this part of the line are not tried first


class StepParts:
    """How many parts a batch of each shape is computed in."""

    def __init__(self, model):
        self.model = model
        self.known, self.sums = {}, None

    def _may_split(self):
        """Whether parts give the numbers of the whole batch: no layer mixes samples, and losses are means over them."""
        model, kind = self.model, type(self.model)
        from ._model import Model
        if kind.train_step is not Model.train_step or kind.compute_loss is not Model.compute_loss:
            return False
        if any(isinstance(one, (BatchNormalization, Masking)) or isinstance(one, Embedding) and one.mask_zero
               or one.activity_regularizer is not None for one in model._walk()):
            return False
        loss = model._compiled_loss
        return loss is not None and loss.objects is not None and all(
            one is None or getattr(one, "reduction", None) == "sum_over_batch_size" for one in loss.objects)

    def of(self, batch):
        leaves = [one for one in nest.flatten(batch) if one is not None]
        key = tuple(tuple(one.shape) for one in leaves)
        found = self.known.get(key)
        if found is None:
            large = sum(int(np.prod(shape, dtype=np.int64)) for shape in key) * 4 * _SHARE > _engine.get_line().limit
            found = self._try(batch, key[0][0]) if large and key[0] else 1
            self.known[key] = found
        return found

    def _try(self, batch, count):
        """Forward and backward of a part, and no update: what fails then leaves nothing behind."""
        parts, gradients = 1, None
        while True:
            try:
                gradients = self._gradients(_rows(batch, 0, -(-count // parts)), 1.0)[0]
                _engine.run()
                break
            except ResourceExhaustedError:
                gradients = None  # what nobody holds is not computed any more
                self.model._clear_losses()
                if parts >= count or not self._may_split():
                    raise
                parts *= 2
        if parts > 1:
            _engine.note(("parts", count), f"the step of a batch of {count} does not fit the line: it is computed in {parts} "
                                           "parts, with the gradients of the whole batch")
        del gradients
        return parts

    def _gradients(self, batch, share):
        model = self.model
        x, y, weight = unpack_x_y_sample_weight(batch)
        model._clear_losses()
        with GradientTape() as tape:
            y_pred = model._renamed(model(x, training=True))
            loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight)
            scaled = model.optimizer.scale_loss(loss if share == 1.0 else loss * share)
        return tape.gradient(scaled, model.trainable_weights), (x, y, y_pred, weight, loss)

    def step(self, batch, parts):
        """As train_step."""
        model, variables = self.model, self.model.trainable_weights
        count = next(one for one in nest.flatten(batch) if one is not None).shape[0]
        if self.sums is None or len(self.sums) != len(variables):
            self.sums = [Variable(np.zeros(one.shape.as_list(), np.float32), trainable=False) for one in variables]
        size, used = -(-count // parts), [False] * len(variables)
        for first in range(0, count, size):
            rows = min(size, count - first)
            gradients, (x, y, y_pred, weight, loss) = self._gradients(_rows(batch, first, first + rows), rows / count)
            for i, (total, gradient) in enumerate(zip(self.sums, gradients)):
                if gradient is not None:
                    used[i] = True
                    total.assign_add(gradient)
            model._loss_tracker.update_state(loss, float(rows))
            logs = model.compute_metrics(x, y, y_pred, weight)
            for one in model.metrics:
                one.settle()
            del gradients, x, y, y_pred, weight, loss
        model.optimizer.apply_gradients([(total if is_used else None, variable) for total, is_used, variable in zip(
            self.sums, used, variables)])
        for total in self.sums:
            total.assign(np.zeros(total.shape.as_list(), np.float32))
        return logs


def _rows(batch, first, last):
    return nest.map_structure(lambda one: None if one is None else one[first:last], batch)

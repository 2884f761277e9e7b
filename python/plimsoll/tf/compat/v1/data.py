"""tf.compat.v1.data: iterators whose next element is a node of the graph."""
from ... import data as _data
from ..._absent import absent
from ..._call import Node, Symbolic, pair_of
from ...data._dataset import AUTOTUNE, Dataset, TextLineDataset, _over
from ...errors import OutOfRangeError

__all__ = ["AUTOTUNE", "Dataset", "TextLineDataset"]


class Iterator:
    def __init__(self, dataset, starts):
        self._dataset = dataset
        self._source = iter(dataset) if starts else None

    def get_next(self, name=None):
        node = Node(self._next, (), {}, kind="call", name=name or "IteratorGetNext")
        node.outputs = _over(lambda one: Symbolic(node, pair_of(one.shape), one.dtype), self._dataset.element_spec)
        return node.outputs

    def _next(self):
        if self._source is None:
            raise OutOfRangeError(message="GetNext() failed because the iterator has not been initialized")
        return self._source.get_next()

    @property
    def initializer(self):
        return Node(self._begin, (), {}, kind="call", name="MakeIterator")

    def _begin(self):
        self._source = iter(self._dataset)


def make_one_shot_iterator(dataset):
    return Iterator(dataset, True)


def make_initializable_iterator(dataset, shared_name=None):
    return Iterator(dataset, False)


def get_output_shapes(dataset):
    return _over(lambda one: one.shape, dataset.element_spec)


def get_output_types(dataset):
    return _over(lambda one: one.dtype, dataset.element_spec)


experimental = _data.experimental
__getattr__ = absent("tf.compat.v1.data", globals())

"""tf.distribute: strategies over one device, the processor. plimsoll.Strategy trains replicas and ranks."""
import contextlib
import enum

from . import _engine
from ._absent import absent
from ._convert import convert
from .data import Dataset

_current = []


class ReduceOp(enum.Enum):
    SUM = "SUM"
    MEAN = "MEAN"


class Strategy:
    """One replica: what runs in its scope runs as it is."""

    num_replicas_in_sync = 1

    def __init__(self, devices=None, *args, **kwargs):
        _engine.note("strategy", f"tf.distribute.{type(self).__name__}: one device, the processor, and so one replica; "
                                 "plimsoll.Strategy.mirrored and .ranks train several")
        self.extended = self

    @contextlib.contextmanager
    def scope(self):
        _current.append(self)
        try:
            yield self
        finally:
            _current.pop()

    def run(self, fn, args=(), kwargs=None, options=None):
        return fn(*args, **(kwargs or {}))

    experimental_run_v2 = run

    def reduce(self, reduce_op, value, axis=None):
        if axis is None:
            return value
        from ._reduce import reduce_mean, reduce_sum
        name = reduce_op.name if hasattr(reduce_op, "name") else str(reduce_op)
        return reduce_mean(convert(value), axis) if name.upper() == "MEAN" else reduce_sum(convert(value), axis)

    def gather(self, value, axis):
        return value

    def experimental_distribute_dataset(self, dataset, options=None):
        return dataset

    def distribute_datasets_from_function(self, dataset_fn, options=None):
        return dataset_fn(InputContext())

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_local_results(self, value):
        return (value,)

    def experimental_make_numpy_dataset(self, numpy_input):
        return Dataset.from_tensor_slices(numpy_input)

    @property
    def cluster_resolver(self):
        return None


class InputContext:
    num_input_pipelines = 1
    input_pipeline_id = 0
    num_replicas_in_sync = 1

    def get_per_replica_batch_size(self, global_batch_size):
        return global_batch_size


class MirroredStrategy(Strategy):
    def __init__(self, devices=None, cross_device_ops=None):
        super().__init__(devices)


class MultiWorkerMirroredStrategy(Strategy):
    def __init__(self, cluster_resolver=None, communication_options=None):
        super().__init__()


class OneDeviceStrategy(Strategy):
    def __init__(self, device="/cpu:0"):
        super().__init__()


class CentralStorageStrategy(Strategy):
    pass


class ReplicaContext:
    replica_id_in_sync_group = 0
    num_replicas_in_sync = 1

    def all_reduce(self, reduce_op, value, options=None):
        return value

    def merge_call(self, merge_fn, args=(), kwargs=None):
        return merge_fn(get_strategy(), *args, **(kwargs or {}))


class _Default(Strategy):
    def __init__(self):
        self.extended = self


_default = _Default()


def get_strategy():
    return _current[-1] if _current else _default


def has_strategy():
    return bool(_current)


def in_cross_replica_context():
    return bool(_current)


def get_replica_context():
    return ReplicaContext()


class HierarchicalCopyAllReduce:
    def __init__(self, num_packs=1):
        pass


class NcclAllReduce(HierarchicalCopyAllReduce):
    pass


class ReductionToOneDevice:
    def __init__(self, reduce_to_device=None, accumulation_fn=None):
        pass


class experimental:
    MultiWorkerMirroredStrategy = MultiWorkerMirroredStrategy
    CentralStorageStrategy = CentralStorageStrategy


__getattr__ = absent("tf.distribute", globals(), {
    "TPUStrategy": "MirroredStrategy: there is one device, the processor",
    "ParameterServerStrategy": "plimsoll.Strategy.ranks, which shares the state over ranks"})

"""tf.data.experimental."""
from .._absent import absent
from ._dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY"]


def cardinality(dataset):
    return dataset.cardinality()


def assert_cardinality(expected):
    def apply(dataset):
        made = Dataset(lambda: iter(dataset), int(expected))
        made._is_batched = dataset._is_batched
        return made
    return apply


def ignore_errors(log_warning=False):
    return lambda dataset: dataset.ignore_errors(log_warning)


def prefetch_to_device(device, buffer_size=None):
    return lambda dataset: dataset


def shuffle_and_repeat(buffer_size, count=None, seed=None):
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False, num_parallel_calls=None):
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


__getattr__ = absent("tf.data.experimental", globals())

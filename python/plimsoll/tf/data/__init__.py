"""tf.data."""
from .._absent import absent
from . import experimental
from ._dataset import (AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset, Iterator, Options, TextLineDataset)

DatasetV2 = Dataset
__getattr__ = absent("tf.data", globals(), {
    "TFRecordDataset": "plimsoll.data.Dataset.tfrecord, which parses the records too",
    "FixedLengthRecordDataset": "numpy.memmap and from_tensor_slices",
})

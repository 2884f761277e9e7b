"""Metrics: right over a whole epoch, whatever its batches."""

from ._plimsoll import Metric as Metric
from ._plimsoll.metrics import *  # noqa: F403

"""Learning rates as functions of the number of updates done."""

from ._plimsoll import Schedule as Schedule
from ._plimsoll.schedules import *  # noqa: F403

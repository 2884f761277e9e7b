"""Deep learning under a memory line: the line is kept, or the refusal says what to change.

>>> import plimsoll as pl
>>> line = pl.Line("300MiB")
>>> net = pl.Sequential([pl.layers.Dense(64, activation="relu"), pl.layers.Dense(10)])
>>> net.compile(optimizer=pl.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
>>> history = net.fit(train, line, epochs=10)
"""

from __future__ import annotations

from . import _plimsoll, callbacks, data, errors, initializers, layers, losses, metrics, ops, optimizers, schedules
from ._plimsoll import (
    DType,
    Dim,
    Eager,
    EagerFacts,
    Freeze,
    Graph,
    Init,
    Input,
    Line,
    Optimizer,
    Predictor,
    Pruning,
    Schedule,
    Session,
    SparseGradient,
    Strategy,
    Step,
    Tape,
    Updates,
    Tensor,
    Window,
    accumulate,
    adapter_freeze,
    apply_gradients,
    arange,
    assign,
    bfloat16,
    bool as bool_,
    eye,
    float16,
    float32,
    format_bytes,
    full,
    gradients,
    int8,
    int32,
    int64,
    linspace,
    minimize,
    normal,
    ones,
    parse_bytes,
    peak_resident_bytes,
    resident_bytes,
    set_threads,
    tensor,
    threads,
    uint8,
    uniform,
    zeros,
)
from .callbacks import Callback, Checkpoint, CSVLogger, EarlyStopping, ReduceLROnPlateau, TensorBoard
from .data import Dataset
from .errors import BadData, BadNumbers, DiskFull, DoesNotFit, Error, RankLost, Stopped, UsageError
from .functions import Function, function
from .layers import Layer
from .lines import default_line, set_line
from .models import Model, Sequential
from .ops import *  # noqa: F403 operators are names of the package, too
from .optimizers import SGD, Adafactor, Adam, AdamW, Lion, RMSprop
from .reports import Forecast, History, LineReport, Evaluation

__version__ = _plimsoll.__version__

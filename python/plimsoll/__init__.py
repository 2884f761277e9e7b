"""Deep learning under a memory line: the line is kept, or the refusal says what to change.

>>> import plimsoll as pl
>>> line = pl.Line("300MiB")
>>> net = pl.Sequential([pl.layers.Dense(64, activation="relu"), pl.layers.Dense(10)])
>>> net.compile(optimizer=pl.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
>>> history = net.fit(train, line, epochs=10)
"""

from __future__ import annotations

from . import (
    _plimsoll as _plimsoll,
    callbacks as callbacks,
    data as data,
    errors as errors,
    initializers as initializers,
    layers as layers,
    losses as losses,
    metrics as metrics,
    ops as ops,
    optimizers as optimizers,
    schedules as schedules,
)
from ._plimsoll import (
    DType as DType,
    Dim as Dim,
    Eager as Eager,
    EagerFacts as EagerFacts,
    Freeze as Freeze,
    Graph as Graph,
    Init as Init,
    Input as Input,
    Line as Line,
    Optimizer as Optimizer,
    Predictor as Predictor,
    Pruning as Pruning,
    Schedule as Schedule,
    Session as Session,
    SparseGradient as SparseGradient,
    Strategy as Strategy,
    Step as Step,
    Tape as Tape,
    Updates as Updates,
    Tensor as Tensor,
    Window as Window,
    accumulate as accumulate,
    adapter_freeze as adapter_freeze,
    apply_gradients as apply_gradients,
    arange as arange,
    assign as assign,
    bfloat16 as bfloat16,
    bool_ as bool_,
    eye as eye,
    float16 as float16,
    float32 as float32,
    format_bytes as format_bytes,
    full as full,
    gradients as gradients,
    int8 as int8,
    int32 as int32,
    int64 as int64,
    linspace as linspace,
    minimize as minimize,
    normal as normal,
    ones as ones,
    parse_bytes as parse_bytes,
    peak_resident_bytes as peak_resident_bytes,
    resident_bytes as resident_bytes,
    set_threads as set_threads,
    tensor as tensor,
    threads as threads,
    uint8 as uint8,
    uniform as uniform,
    zeros as zeros,
)
from .callbacks import (
    Callback as Callback,
    Checkpoint as Checkpoint,
    CSVLogger as CSVLogger,
    EarlyStopping as EarlyStopping,
    ReduceLROnPlateau as ReduceLROnPlateau,
    TensorBoard as TensorBoard,
)
from .data import (
    Dataset as Dataset,
)
from .errors import (
    BadData as BadData,
    BadNumbers as BadNumbers,
    DiskFull as DiskFull,
    DoesNotFit as DoesNotFit,
    Error as Error,
    RankLost as RankLost,
    Stopped as Stopped,
    UsageError as UsageError,
)
from .functions import (
    Function as Function,
    function as function,
)
from .layers import (
    Layer as Layer,
)
from .lines import (
    default_line as default_line,
    set_line as set_line,
)
from .models import (
    Model as Model,
    Sequential as Sequential,
)
from .ops import *  # noqa: F403 operators are names of the package, too
from .optimizers import (
    SGD as SGD,
    Adafactor as Adafactor,
    Adam as Adam,
    AdamW as AdamW,
    Lion as Lion,
    RMSprop as RMSprop,
)
from .reports import (
    Forecast as Forecast,
    History as History,
    LineReport as LineReport,
    Evaluation as Evaluation,
)

__version__ = _plimsoll.__version__

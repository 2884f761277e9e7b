import numpy as np
import pytest

import plimsoll as pl

MiB = 1 << 20

PEAK = """
import resource
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""

TRAINS = (
    """
import sys
import plimsoll as pl
line = pl.Line(int(sys.argv[1]))
import numpy as np
x = np.random.default_rng(0).normal(size=(2048, 64)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
net = pl.Sequential([pl.layers.Dense(512, activation="relu"), pl.layers.Dense(512, activation="relu"), pl.layers.Dense(2)])
net.compile(pl.Adam(1e-3), "sparse_categorical_crossentropy", ["accuracy"])
history = net.fit(pl.Dataset.from_tensor_slices((x, y)).shuffle().batch(256), line, epochs=3, verbose=0)
print("loss", history["loss"][-1] < history["loss"][0])
"""
    + PEAK
)

OWN_ARRAY = (
    """
import sys
import plimsoll as pl
line = pl.Line(int(sys.argv[1]))
import numpy as np
mine = np.ones(100 * 2**20 // 8)  # 100 MiB
x = np.random.default_rng(0).normal(size=(2048, 64)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
net = pl.Sequential([pl.layers.Dense(512, activation="relu"), pl.layers.Dense(2)])
net.compile(pl.Adam(1e-3), "sparse_categorical_crossentropy")
history = net.fit(pl.Dataset.from_tensor_slices((x, y)).batch(256), line, epochs=3, verbose=0)
print("loss", history["loss"][-1] < history["loss"][0], mine.sum() > 0)
"""
    + PEAK
)

GENERATES = (
    """
import sys
import plimsoll as pl
line = pl.Line(int(sys.argv[1]))
import numpy as np

def rows():
    draw = np.random.default_rng(0)
    for _ in range(2000):
        x = draw.normal(size=64)
        yield x.astype("float32"), np.int32(x.sum() > 0)

net = pl.Sequential([pl.layers.Dense(256, activation="relu"), pl.layers.Dense(2)])
net.compile(pl.Adam(1e-3), "sparse_categorical_crossentropy")
history = net.fit(pl.Dataset.from_generator(rows).shuffle(256).batch(64).prefetch(2), line, epochs=2, verbose=0)
print("loss", history["loss"][-1] < history["loss"][0])
"""
    + PEAK
)

EAGER = (
    """
import sys
import plimsoll as pl
line = pl.Line(int(sys.argv[1]))
import numpy as np
x = np.random.default_rng(0).normal(size=(2048, 64)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
net = pl.Sequential([pl.layers.Dense(512, activation="relu"), pl.layers.Dense(512, activation="relu"), pl.layers.Dense(2)])
adam = pl.Adam(1e-3)
losses = []
with pl.Eager(line):
    for epoch in range(3):
        for a, b in pl.Dataset.from_tensor_slices((x, y)).batch(256):
            with pl.Tape() as tape:
                loss = pl.sparse_cross_entropy(net(a, training=True), b)
            adam.apply(tape.gradient(loss, net.weights), net.weights)
            losses.append(loss.item())
print("loss", losses[-1] < losses[0])
"""
    + PEAK
)


@pytest.mark.parametrize(
    "text, line", [(TRAINS, 110 * MiB), (OWN_ARRAY, 210 * MiB), (GENERATES, 110 * MiB), (EAGER, 140 * MiB)], ids=["fit", "own array", "generator", "eager"]
)
def test_a_script_stays_below_its_line(run_limited, text, line):
    done = run_limited(line, text, line)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loss True" in done.stdout
    peak = int(done.stdout.split("peak ")[1])
    assert peak <= line, f"{peak} of {line}"


TAKES_LATER = """
import plimsoll as pl
import numpy as np
line = pl.Line("160MiB")
x = np.random.default_rng(0).normal(size=(2048, 64)).astype("float32")
y = (x.sum(1) > 0).astype("int32")

class Takes(pl.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            self.mine = np.ones(150 * 2**20 // 8)
        self.after = batch

net = pl.Sequential([pl.layers.Dense(256, activation="relu"), pl.layers.Dense(2)])
net.compile("adam", "sparse_categorical_crossentropy")
takes = Takes()
try:
    net.fit(pl.Dataset.from_tensor_slices((x, y)).batch(64), line, verbose=0, callbacks=[takes])
    print("went on")
except pl.DoesNotFit as error:
    print("refused", takes.after, "process holds" in str(error))
"""


def test_what_the_program_takes_later_is_refused_before_the_next_step(run_script):
    done = run_script(TAKES_LATER)
    assert done.stdout.strip() == "refused 2 True", done.stdout + done.stderr


def test_a_line_that_is_too_small_is_refused_early(run_script):
    done = run_script("import plimsoll as pl\nline = pl.Line('4MiB')\nwith pl.Eager(line):\n    pl.ones(1000).numpy()\n")
    assert "DoesNotFit" in done.stderr


@pytest.mark.parametrize("text", ["", "a lot", "-5MiB", "12"])
def test_lines_that_make_no_sense(text):
    with pytest.raises(pl.Error):
        pl.Line(text or 0)


def test_facts_of_a_line(line):
    assert line.limit == 1 << 30 and line.used == 0 and line.free == line.limit and not line.covers_process
    with pl.Eager(line):
        x = pl.ones((1000, 1000))
        x.numpy()
        assert line.used >= 4_000_000 and line.used_by("eager") > 0
    report = line.report()
    assert report.to_dict()["limit"] == 1 << 30 and "eager" in report._repr_html_() or report.by_tag["eager"] == 0
    assert "line 1 GiB" in str(report)


def test_scratch_of_a_line_is_used(tmp_path):
    line = pl.Line("24MiB", scratch=tmp_path, covers_process=False)
    assert line.scratch == str(tmp_path)
    with pl.Eager(line) as eager:
        values = [pl.normal((500, 500)) for _ in range(40)]  # 40 MB
        first = values[0].numpy().sum()
        total = sum(value.numpy().sum() for value in values)
        assert np.isfinite(total) and eager.facts.spilled + eager.facts.dropped > 0
        assert values[0].numpy().sum() == first


NOTEBOOK = """
import gc, resource
import numpy as np
import plimsoll as pl

line = pl.Line("256MiB")
x = np.random.default_rng(0).normal(size=(64, 16)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
cells = [
    "net = pl.Sequential([pl.layers.Dense(32, activation='relu'), pl.layers.Dense(2)])",
    "net.compile('adam', 'sparse_categorical_crossentropy'); history = net.fit(x, y, line=line, verbose=0)",
    "answers = net.predict(x, line)",
    "i = pl.Input(16); o = pl.layers.Dense(2)(pl.relu(i)); other = pl.Model(i, o)",
    "with pl.Eager(line): z = pl.reduce_sum(net(pl.tensor(x))).item(); print_me = repr(pl.ones(3))",
]
names = globals()
held = []
for number in range(1000):
    exec(compile(cells[number % len(cells)], f"<cell {number % 5}>", "exec"), names)
    if number in (300, 999):
        gc.collect()
        held.append(pl.resident_bytes())
print(held[1] - held[0])
"""


def test_a_long_session_does_not_grow(run_script):
    done = run_script(NOTEBOOK, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4 * MiB

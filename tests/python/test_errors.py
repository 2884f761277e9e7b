import pickle
import signal
import threading
import time

import numpy as np
import pytest

import plimsoll as pl


def small_net():
    model = pl.Sequential([pl.layers.Dense(16, activation="relu"), pl.layers.Dense(2)])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_not_fitting_has_values(blobs):
    model = pl.Sequential([pl.layers.Dense(4000, activation="relu"), pl.layers.Dense(4000), pl.layers.Dense(2)])
    model.compile("adam", "sparse_categorical_crossentropy")
    data = pl.Dataset.from_tensor_slices(blobs).batch(32)
    line = pl.Line("8MiB", covers_process=False)
    forecast = model.plan(data, line)
    assert not forecast.fits and forecast.peak > forecast.line == 8 << 20
    with pytest.raises(pl.DoesNotFit) as caught:
        model.fit(data, line, verbose=0)
    refused = caught.value
    assert isinstance(refused, MemoryError) and isinstance(refused, pl.Error)
    assert refused.line == 8 << 20 and refused.need > refused.line
    assert refused.deficit == refused.need - refused.line
    assert refused.holders[0].bytes >= refused.holders[-1].bytes > 0
    again = pickle.loads(pickle.dumps(refused))
    assert (again.need, again.holders, str(again)) == (refused.need, refused.holders, str(refused))
    fits = pl.Line(refused.smallest_line, covers_process=False)
    assert model.fit(data, fits, verbose=0).epoch == [1]  # the line that it names works


def test_kinds_are_classes_that_python_knows():
    assert issubclass(pl.UsageError, ValueError) and issubclass(pl.BadData, ValueError)
    assert issubclass(pl.DoesNotFit, MemoryError) and issubclass(pl.BadNumbers, ArithmeticError)
    for kind in (pl.UsageError, pl.BadData, pl.DiskFull, pl.DoesNotFit, pl.BadNumbers, pl.RankLost, pl.Stopped):
        assert issubclass(kind, pl.Error)


def test_messages_use_python_names():
    words = pl.errors.in_python_words
    assert words("make it persistent: Tape tape({.persistent = true})") == "make it persistent: Tape(persistent=True)"
    assert words("Dataset::slices needs arrays") == "Dataset.from_tensor_slices needs arrays"
    assert words("give MemoryLine::process(...)") == "give plimsoll.Line(...)"


def test_no_message_speaks_of_cpp_or_flags(eager, line, blobs):
    def used_twice():
        with pl.Tape() as tape:
            y = pl.tensor(1.0)
        tape.gradient(y, y)
        tape.gradient(y, y)

    wrong = [
        used_twice,
        lambda: pl.Dataset.range(3).batch(0),
        lambda: pl.matmul(pl.ones((2, 3)), pl.ones((2, 3))),
        lambda: small_net().fit(pl.Dataset.from_tensor_slices(blobs), line, verbose=0),
        lambda: small_net().fit(*blobs, line=line, validation_split=2.0, verbose=0),
        lambda: pl.Line("12 parsecs"),
        lambda: pl.layers.Dense(-1)(pl.ones((2, 3))),
        lambda: pl.Model.load("/nowhere"),
    ]
    for call in wrong:
        with pytest.raises(pl.Error) as caught:
            call()
        text = str(caught.value)
        assert "::" not in text and "({." not in text and " --" not in text, text


def test_callbacks_steer_and_their_errors_come_out(line, blobs):
    class Mine(Exception):
        pass

    events = []

    class Watch(pl.Callback):
        def on_train_begin(self, logs=None):
            events.append("begin")

        def on_epoch_begin(self, epoch, logs=None):
            events.append(f"epoch {epoch}")

        def on_epoch_end(self, epoch, logs=None):
            events.append(sorted(logs))
            if epoch == 1:
                self.run.stop("enough")

        def on_train_end(self, logs=None):
            events.append("end")

    history = small_net().fit(*blobs, line=line, epochs=5, verbose=0, callbacks=[Watch()])
    assert history.stop_reason == "enough" and history.epoch == [1, 2]
    assert events[0] == "begin" and events[1] == "epoch 0" and events[-1] == "end" and "loss" in events[2]

    class Fails(pl.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise Mine("in a callback")

    with pytest.raises(Mine, match="in a callback"):
        small_net().fit(*blobs, line=line, verbose=0, callbacks=[Fails()])


def test_a_callback_that_outlives_its_training(line, blobs):
    kept = pl.LambdaCallback() if hasattr(pl, "LambdaCallback") else pl.Callback()
    small_net().fit(*blobs, line=line, verbose=0, callbacks=[kept])
    with pytest.raises(pl.Error, match="over"):
        kept.run.steps


def test_callbacks_of_the_engine(line, blobs, tmp_path):
    history = small_net().fit(
        *blobs,
        line=line,
        epochs=50,
        validation_split=0.25,
        verbose=0,
        callbacks=[pl.EarlyStopping(patience=1, min_delta=10.0), pl.CSVLogger(tmp_path / "log.csv")],
    )
    assert len(history.epoch) == 2 and "val_loss" in history.history
    assert (tmp_path / "log.csv").read_text().startswith("epoch,")
    with pytest.raises(pl.Error, match="val_loss"):
        small_net().fit(*blobs, line=line, verbose=0, callbacks=[pl.EarlyStopping()])


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import plimsoll as pl

line = pl.Line("1GiB", covers_process=False)
model = pl.Sequential([pl.layers.Dense(64, activation="relu"), pl.layers.Dense(2)])
model.compile("sgd", "sparse_categorical_crossentropy")
x, y = np.random.default_rng(0).normal(size=(512, 32)).astype("float32"), np.arange(512) % 2
before = model.fit(x, y, line=line, verbose=0).last_loss
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    model.fit(x, y, line=line, epochs=10**6, verbose=0)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 5)
after = model.compile("sgd", "sparse_categorical_crossentropy", ["accuracy"])
print("kept", model.evaluate(x, y, line=line)["loss"] < before)
print("goes on", len(model.fit(x, y, line=line, verbose=0).epoch))
"""


def test_an_interrupt_ends_fit_with_the_weights_kept(run_script):
    done = run_script(INTERRUPTED)
    assert done.stdout.splitlines() == ["interrupted True", "kept True", "goes on 1"], done.stderr


def test_other_threads_run_while_a_step_runs(line):
    beats = []
    over = threading.Event()

    def beat():
        while not over.is_set():
            beats.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=beat)
    with pl.Eager(line):
        x = pl.normal((1500, 1500))
        x.numpy()
        thread.start()
        began = time.monotonic()
        y = x
        for _ in range(6):
            y = pl.tanh(pl.matmul(y, x))
        y.numpy()
        ended = time.monotonic()
    over.set()
    thread.join()
    inside = [one for one in beats if began < one < ended]
    assert ended - began > 0.05 and len(inside) > 3


def test_an_eager_is_for_its_own_thread(line):
    raised = []
    with pl.Eager(line):
        x = pl.ones(3)

        def other():
            try:
                (x + 1).numpy()
            except pl.Error as error:
                raised.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert raised and "thread" in raised[0]


def test_threads_train_models_of_their_own(blobs):
    losses = {}

    def train(number):
        line = pl.Line("256MiB", covers_process=False)
        losses[number] = small_net().fit(*blobs, line=line, epochs=2, verbose=0, shuffle=False)["loss"]

    threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert losses[0] == losses[1]


def test_bad_labels_are_told(line, blobs):
    x, y = blobs
    with pytest.raises(pl.BadData, match="label"):
        small_net().fit(x, y + 7, line=line, verbose=0)


FORKED = """
import os
import numpy as np
import plimsoll as pl

with pl.Eager(pl.Line("256MiB", covers_process=False)):
    pl.ones((300, 300)).numpy()
child = os.fork()
if child == 0:
    x = np.ones((100, 100)) @ np.ones((100, 100))  # what a worker that loads data does
    list(pl.Dataset.range(10).as_numpy_iterator())
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_worker_reads_data(run_script):
    done = run_script(FORKED, timeout=60)
    assert done.stdout.strip() == "0", done.stderr

import json

import pytest

import plimsoll as pl


@pytest.fixture
def trained(line, blobs):
    model = pl.Sequential([pl.layers.Dense(16, activation="relu"), pl.layers.Dense(2)])
    model.compile("adam", "sparse_categorical_crossentropy", ["accuracy"])
    data = pl.Dataset.from_tensor_slices(blobs).batch(32)
    return model, data, model.fit(data, line, epochs=2, verbose=0)


def test_reports_are_values_and_text(trained, line):
    model, data, history = trained
    plan = model.plan(data, line)
    for report in (plan, history, line.report(), model.evaluate(data, line)):
        assert json.dumps(report.to_dict())
        assert "<table" in report._repr_html_()
        assert "plimsoll" in repr(report)
    assert plan.fits and 0 < plan.peak <= plan.line and plan.is_bit_identical
    assert "dense" in model.summary()


def test_pictures(trained, line):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    model, data, history = trained
    assert len(history.plot().lines) >= 2
    assert model.plan(data, line).plot().patches
    assert line.report().plot() is not None


def test_a_progress_bar(line, blobs, capsys):
    model = pl.Sequential([pl.layers.Dense(2)])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(*blobs, line=line, epochs=2, verbose=1)
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2 and lines[1].startswith("epoch 2/2") and "loss" in lines[1]
    model.fit(*blobs, line=line, verbose=0)
    assert capsys.readouterr().err == ""


def test_a_live_bar(line, blobs):
    import io

    from plimsoll.callbacks import ProgressBar

    model = pl.Sequential([pl.layers.Dense(2)])
    model.compile("adam", "sparse_categorical_crossentropy")
    stream = io.StringIO()
    model.fit(*blobs, line=line, verbose=0, callbacks=[ProgressBar(stream, is_live=True)])
    assert "[====" in stream.getvalue() and "\r" in stream.getvalue()

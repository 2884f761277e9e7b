import os
import subprocess
import sys

import pytest

import plimsoll as pl


@pytest.fixture
def line():
    return pl.Line("1GiB", covers_process=False)


@pytest.fixture
def eager(line):
    with pl.Eager(line) as opened:
        yield opened


@pytest.fixture
def blobs():
    """Two classes that a small net tells apart."""
    import numpy as np

    draw = np.random.default_rng(3)
    y = draw.integers(0, 2, 256)
    x = (draw.normal(size=(256, 8)) + 2 * y[:, None]).astype("float32")
    return x, y.astype("int32")


@pytest.fixture
def run_script(tmp_path):
    """Runs a program in a process of its own; returns what subprocess.run returns."""

    def run(text, *arguments, before=(), timeout=300, **variables):
        path = tmp_path / "script.py"
        path.write_text(text)
        command = [*before, sys.executable, str(path), *map(str, arguments)]
        environment = dict(os.environ, **variables)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)

    return run


@pytest.fixture
def run_limited(run_script):
    """The same in a control group of so many bytes, with swap off; skips where none can be made."""

    def run(limit, text, *arguments, **more):
        done = run_script(text, *arguments, before=(os.environ["PLIMSOLL_LIMITED"], str(limit)), **more)
        if done.returncode == 77:
            pytest.skip(done.stdout.strip().splitlines()[-1])
        return done

    if "PLIMSOLL_LIMITED" not in os.environ:
        pytest.skip("PLIMSOLL_LIMITED does not name the program that limits others")
    return run

"""The programs of examples/python/tf as they are, each in a control group at its line; what is not there says so."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import tf_lines

PROGRAMS = pathlib.Path(__file__).parent.parent.parent / "examples" / "python" / "tf"
MIB = 2**20


def run(arguments, before=(), **variables):
    return subprocess.run([*before, sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=600,
                          env=dict(os.environ, **variables))


def limited(limit):
    if "PLIMSOLL_LIMITED" not in os.environ:
        pytest.skip("PLIMSOLL_LIMITED does not name the program that limits others")
    return (os.environ["PLIMSOLL_LIMITED"], str(limit))


def bytes_of(line):
    return int(line.removesuffix("MiB")) * MIB


def test_every_program_has_a_line():
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {program.name for program in tf_lines.PROGRAMS}


@pytest.mark.parametrize("program", tf_lines.PROGRAMS, ids=[program.name for program in tf_lines.PROGRAMS])
def test_runs_unchanged_at_its_line(program, tmp_path):
    done = run(["-m", "plimsoll.tf", PROGRAMS / f"{program.name}.py", *program.arguments(str(tmp_path), True)],
               limited(bytes_of(program.line)), PLIMSOLL_LINE=program.line)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    first, last = re.search(r"loss (\S+) -> (\S+)$", done.stdout.strip()).groups()
    if program.name in ("03_function", "11_constant"):  # these compute, and learn nothing
        assert float(last) == pytest.approx(float(first), rel=1e-3)
    else:
        assert float(last) < float(first)


def test_the_changed_import_line_is_enough(tmp_path):
    text = (PROGRAMS / "13_tape.py").read_text().replace("import tensorflow as tf", "import plimsoll.tf as tf")
    path = tmp_path / "changed.py"
    path.write_text(text.replace("10_000", "2_000"))
    done = run([path], PLIMSOLL_LINE="256MiB")
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_line_that_nothing_fits_is_refused(tmp_path):
    done = run(["-m", "plimsoll.tf", "--line", "8MiB", PROGRAMS / "03_function.py"])
    assert done.returncode == 1
    assert "8 MiB" in done.stderr and "Traceback" in done.stderr


def test_without_a_line_the_limit_is_said_once(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import plimsoll.tf as tf\nprint(float(tf.reduce_sum(tf.Variable([1.0, 2.0]))))\n"
                    "print(float(tf.Variable(3.0)))\n")
    variables = {key: value for key, value in os.environ.items() if key != "PLIMSOLL_LINE"}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, env=variables)
    assert done.stdout.split() == ["3.0", "3.0"]
    assert done.stderr.count("no line was given") == 1


def test_the_runner_refuses_flags_it_does_not_know():
    done = run(["-m", "plimsoll.tf", "--memory", "1GiB", "program.py"])
    assert done.returncode == 1 and "--line" in done.stderr


PARTS = """
import numpy as np, plimsoll.tf as tf
x = np.random.RandomState(0).rand(20_000, 100).astype("float32")
y = x[:, :1] - x[:, 1:2]
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(256, activation="relu"), LAYER tf.keras.layers.Dense(256, activation="relu"),
                             tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
history = model.fit(x, y, batch_size=len(x), epochs=3, shuffle=False, verbose=0).history
print(*history["loss"], *history["mae"])
"""


def test_a_batch_that_does_not_fit_is_computed_in_parts(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PARTS.replace("LAYER ", ""))
    whole = run([path], PLIMSOLL_LINE="1GiB")
    parts = run([path], limited(80 * MIB), PLIMSOLL_LINE="80MiB")
    if parts.returncode == 77:
        pytest.skip(parts.stdout.strip().splitlines()[-1])
    assert whole.returncode == 0 and parts.returncode == 0, whole.stderr[-500:] + parts.stderr[-2000:]
    assert "in 2 parts" in parts.stderr or "in 4 parts" in parts.stderr
    assert "parts" not in whole.stderr
    assert [float(one) for one in parts.stdout.split()] == pytest.approx([float(one) for one in whole.stdout.split()], rel=1e-4)


def test_a_batch_whose_samples_are_mixed_is_refused_and_not_computed_in_parts(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PARTS.replace("LAYER ", "tf.keras.layers.BatchNormalization(), "))
    done = run([path], PLIMSOLL_LINE="72MiB")
    assert done.returncode == 1 and "ResourceExhaustedError" in done.stderr and "smallest line" in done.stderr

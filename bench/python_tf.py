#!/usr/bin/env python3
"""Runs the programs of examples/python/tf under TensorFlow and under plimsoll.tf, in turn, and prints both peaks, losses and times.

    python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu tf-keras tensorflow-model-optimization pillow
    PYTHONPATH=build/python python3 bench/python_tf.py --tensorflow VENV/bin/python [--small] [PROGRAM...]

A program is the same file for both: under plimsoll.tf it is run by `python -m plimsoll.tf`, which stands for the changed import.
Each runs under the line of tests/python/tf_lines.py; `--small` takes the sizes of the tests. A loss is the last one that
the program prints; peaks are those of the whole process, as the system counts them.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests" / "python"))
import tf_lines


def run(command, folder, **variables):
    """Seconds, peak in MiB, and what it printed last."""
    started = time.time()
    with open(os.path.join(folder, "out"), "w+") as out, open(os.path.join(folder, "error"), "w+") as error:
        child = subprocess.Popen(command, stdout=out, stderr=error, cwd=folder, env=dict(os.environ, **variables))
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        error.seek(0)
        lines, why = out.read().strip().splitlines(), error.read().strip().splitlines()
    if status != 0:
        return None, None, (why or ["it failed"])[-1][:100]
    return time.time() - started, usage.ru_maxrss / 1024, (lines or [""])[-1]


def loss_of(text):
    found = re.search(r"loss (?:\S+ -> )?(\S+)$", text)
    return found.group(1) if found else "-"


parser = argparse.ArgumentParser()
parser.add_argument("--tensorflow", required=True, help="a Python that has tensorflow")
parser.add_argument("--small", action="store_true", help="sizes of the tests")
parser.add_argument("programs", nargs="*")
given = parser.parse_args()
print(f"{'program':14} {'line':>8} | {'TensorFlow':>9} {'s':>6} {'loss':>9} | {'plimsoll':>9} {'s':>6} {'loss':>9}")
failed = False
with tempfile.TemporaryDirectory() as folder:
    for program in tf_lines.PROGRAMS:
        if given.programs and not any(program.name.startswith(one) for one in given.programs):
            continue
        path = str(root / "examples" / "python" / "tf" / (program.name + ".py"))
        arguments = program.arguments(folder, given.small)
        theirs = run([given.tensorflow, path, *arguments], folder, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH="")
        ours = run([sys.executable, "-m", "plimsoll.tf", path, *arguments], folder, PLIMSOLL_LINE=program.line)
        row = f"{program.name:14} {program.line:>8}"
        for seconds, peak, text in (theirs, ours):
            row += f" | {text}" if seconds is None else f" | {peak:5.0f} MiB {seconds:6.1f} {loss_of(text):>9}"
        failed |= ours[0] is None
        print(row, flush=True)
sys.exit(1 if failed else 0)

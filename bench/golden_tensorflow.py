#!/usr/bin/env python3
"""Writes tests/python/tf_golden.npz: what TensorFlow computes in the cases of tests/python/tf_cases.py.

    python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu && VENV/bin/python bench/golden_tensorflow.py
"""
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tests = pathlib.Path(__file__).parent.parent / "tests" / "python"
sys.path.insert(0, str(tests))
import numpy as np
import tensorflow as tf
import tf_cases

found = {}
for name in tf_cases.CASES if len(sys.argv) == 1 else sys.argv[1:]:
    for key, value in tf_cases.run(tf, name).items():
        found[f"{name}.{key}"] = value
np.savez_compressed(tests / "tf_golden.npz", **found)
print(f"{len(found)} arrays of {len(tf_cases.CASES)} cases by TensorFlow {tf.__version__}")

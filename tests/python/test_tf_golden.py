"""Outputs, gradients, losses, updates and metrics are those of TensorFlow, whose numbers bench/golden_tensorflow.py wrote."""
import pathlib

import numpy as np
import pytest

import tf_cases

GOLDEN = dict(np.load(pathlib.Path(__file__).parent / "tf_golden.npz"))


@pytest.fixture(scope="module")
def tf():
    import plimsoll.tf

    plimsoll.tf.keras.backend.clear_session()
    return plimsoll.tf


def test_every_case_has_numbers_of_tensorflow():
    assert {key.split(".")[0] for key in GOLDEN} == set(tf_cases.CASES)


@pytest.mark.parametrize("name", tf_cases.CASES)
def test_numbers_are_those_of_tensorflow(tf, name):
    found = tf_cases.run(tf, name)
    wanted = {key.split(".", 1)[1]: value for key, value in GOLDEN.items() if key.startswith(name + ".")}
    assert set(found) == set(wanted)
    # Initial values are drawn: their spread is that of TensorFlow, to the third digit.
    atol = 1.1e-3 if name == "initializers" else 2e-5
    for key, value in wanted.items():
        assert found[key].shape == value.shape, key
        assert found[key].dtype == value.dtype or found[key].dtype.kind == value.dtype.kind == "f", key
        np.testing.assert_allclose(found[key].astype(float), value.astype(float), rtol=2e-4, atol=atol, err_msg=key)

import re
from pathlib import Path

import numpy as np
import pytest

import plimsoll as pl

OPS_INC = Path(__file__).parents[2] / "include" / "plimsoll" / "ops.inc"


def listed():
    return sorted(described())


def described():
    return dict(re.findall(r'^\s*FUN\([^,]+, (\w+), "((?:[^"\\]|\\.)*)"', OPS_INC.read_text(), re.M))


def test_every_operator_of_the_list_is_here():
    names = listed()
    assert len(names) > 150
    assert [name for name in names if not hasattr(pl.ops, name)] == []
    assert [name for name in names if not hasattr(pl, name)] == []


@pytest.mark.parametrize("name", listed())
def test_operators_tell_what_they_do(name):
    text = getattr(pl.ops, name).__doc__
    assert text.startswith(f"{name}(") and "name: str = ''" in text
    assert text.endswith(described()[name] + ".")


def test_names_and_defaults_are_those_of_the_list(eager):
    assert "axis: int = -1" in pl.softmax.__doc__
    x = pl.tensor(np.array([[1.0, 2.0], [3.0, 5.0]], dtype="float32"))
    np.testing.assert_allclose(pl.softmax(x, axis=0).numpy().sum(0), [1, 1], rtol=1e-6)
    np.testing.assert_allclose(pl.reduce_sum(x, axes=1, keep=True).numpy(), [[3], [8]])
    np.testing.assert_allclose(pl.dense(x, kernel=pl.eye(2)).numpy(), x.numpy())


def test_wrong_arguments_are_named(eager):
    x = pl.ones((2, 2))
    with pytest.raises(TypeError, match="softmax: axis must be a whole number"):
        pl.softmax(x, axis="first")
    with pytest.raises(TypeError, match="matmul: b"):
        pl.matmul(x)
    with pytest.raises(TypeError):
        pl.softmax(x, axes=1)
    with pytest.raises(TypeError, match="element type"):
        pl.cast(x, "complex64")


def test_arrays_and_numbers_are_operands(eager):
    x = pl.ones((2, 3))
    assert pl.maximum(x, 2).tolist() == [[2.0] * 3] * 2
    assert pl.add(np.ones((2, 3), "float32"), x).tolist() == [[2.0] * 3] * 2
    assert pl.where([[True], [False]], x, 0.0).tolist() == [[1.0] * 3, [0.0] * 3]


def test_several_results(eager):
    a, b = pl.split(pl.arange(6), (2, 4), axis=0)
    assert a.shape == (2,) and b.shape == (4,)
    values, places = pl.top_k(pl.tensor([1.0, 3.0, 2.0]), 2)
    assert values.tolist() == [3.0, 2.0] and places.tolist() == [1, 2]


def test_windows(eager):
    x = pl.ones((1, 1, 4, 4))
    kernel = pl.ones((1, 1, 3, 3))
    assert pl.conv2d(x, kernel).shape == (1, 1, 2, 2)
    assert pl.conv2d(x, kernel, window=pl.Window(pads=1)).shape == (1, 1, 4, 4)
    assert pl.max_pool(x, 2, pl.Window(strides=2)).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError, match="Window"):
        pl.conv2d(x, kernel, window=3)

import copy
import pickle

import numpy as np
import pytest

import plimsoll as pl


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "uint8", "int8", "bool"])
def test_numbers_come_back(eager, dtype):
    array = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
    tensor = pl.tensor(array)
    assert tensor.dtype == dtype and tensor.shape == (2, 3, 4)
    assert tensor.numpy().dtype == array.dtype
    np.testing.assert_array_equal(tensor.numpy(), array)
    np.testing.assert_array_equal(np.asarray(tensor), array)


@pytest.mark.parametrize(
    "dtype, becomes",
    [("float64", "float32"), ("int16", "int32"), ("uint16", "int32"), ("uint32", "int64"), ("uint64", "int64")],
)
def test_types_that_tensors_lack_are_converted(eager, dtype, becomes):
    array = np.arange(6, dtype=dtype).reshape(2, 3)
    tensor = pl.tensor(array)
    assert tensor.dtype == becomes
    np.testing.assert_array_equal(tensor.numpy(), array.astype(becomes))


def test_complex_numbers_are_refused(eager):
    with pytest.raises(TypeError, match="must be numbers"):
        pl.tensor(np.zeros(3, dtype="complex64"))


def test_lists_and_numbers(eager):
    assert pl.tensor([[1, 2], [3, 4]]).dtype == "int32"
    assert pl.tensor([[1.0, 2], [3, 4]]).dtype == "float32"
    assert pl.tensor([True, False]).dtype == "bool"
    assert pl.tensor(2**40).dtype == "int64"
    assert pl.tensor(3.5).item() == 3.5
    assert pl.tensor([1, 2], dtype="float32").dtype == "float32"
    with pytest.raises(pl.Error, match="different lengths"):
        pl.tensor([[1, 2], [3]])
    with pytest.raises(TypeError):
        pl.tensor("words")


def test_arrays_that_are_not_contiguous(eager):
    array = np.arange(24, dtype="float32").reshape(4, 6)
    for view in (array.T, array[::2], array[:, ::-1]):
        np.testing.assert_array_equal(pl.tensor(view).numpy(), view)


def test_dlpack_both_ways(eager):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(np.from_dlpack(pl.tensor(array)), array)

    class Exports:
        def __dlpack__(self, **options):
            return array.__dlpack__(**options)

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    np.testing.assert_array_equal(pl.tensor(Exports()).numpy(), array)


INDICES = [
    0,
    -1,
    slice(1, 3),
    slice(None, None, -1),
    slice(3, 0, -2),
    (slice(None), 2),
    (1, slice(None), -1),
    (Ellipsis, 0),
    (None, 1),
    (slice(None), None, slice(1, 2)),
    (Ellipsis, None),
    ([0, 2],),
    (slice(None), [2, 0, 1]),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_as_numpy(eager, index):
    array = np.arange(60, dtype="float32").reshape(4, 3, 5)
    np.testing.assert_array_equal(pl.tensor(array)[index].numpy(), array[index])


@pytest.mark.parametrize("index", [4, -5, (0, 0, 0, 0), slice(2, 2), (Ellipsis, Ellipsis)], ids=str)
def test_indices_that_are_not_there(eager, index):
    with pytest.raises(IndexError):
        pl.ones((4, 3, 5))[index]


def test_masks_and_assignment_are_refused_with_what_to_do(eager):
    x = pl.ones((4, 3))
    with pytest.raises(IndexError, match="where"):
        x[x > 0]
    with pytest.raises(TypeError, match="scatter"):
        x[0] = 1


OPERATORS = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a**b,
    lambda a, b: a < b,
    lambda a, b: a >= b,
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a // b,
    lambda a, b: a % b,
]
WITH_NUMBERS = [
    lambda a: a + 2,
    lambda a: 2 - a,
    lambda a: a - 2,
    lambda a: a * 3,
    lambda a: 1 / a,
    lambda a: a / 4,
    lambda a: a**2,
    lambda a: 2**a,
    lambda a: a > 3,
    lambda a: 3 > a,
    lambda a: -a,
    lambda a: abs(-a),
    lambda a: +a,
]


@pytest.mark.parametrize("number", range(len(WITH_NUMBERS)))
def test_operators_with_numbers_as_numpy(eager, number):
    a = np.array([[1, 2, 3], [4, 5, 6]], dtype="float32")
    operator = WITH_NUMBERS[number]
    np.testing.assert_allclose(operator(pl.tensor(a)).numpy(), operator(a), rtol=1e-6)


@pytest.mark.parametrize("number", range(len(OPERATORS)))
def test_operators_broadcast_as_numpy(eager, number):
    a = np.array([[1, 2, 3], [4, 5, 6]], dtype="float32")
    b = np.array([2, 3, 4], dtype="float32")
    operator = OPERATORS[number]
    np.testing.assert_allclose(operator(pl.tensor(a), pl.tensor(b)).numpy(), operator(a, b), rtol=1e-6)
    np.testing.assert_allclose(operator(pl.tensor(a), b).numpy(), operator(a, b), rtol=1e-6)
    np.testing.assert_allclose(operator(a, pl.tensor(b)).numpy(), operator(a, b), rtol=1e-6)


def test_types_of_numbers_beside_tensors(eager):
    assert (pl.ones(3, "int32") + 1).dtype == "int32"
    assert (pl.ones(3, "int32") / 2).numpy().tolist() == [0.5] * 3
    assert (pl.ones(3) * 2).dtype == "float32"


def test_two_tensors_that_do_not_broadcast(eager):
    with pytest.raises(pl.Error, match="broadcast|sizes"):
        pl.ones((2, 3)) + pl.ones((2, 4))


def test_reshape_finds_the_last_size(eager):
    x = pl.arange(12)
    assert x.reshape(3, -1).shape == (3, 4)
    assert pl.reshape(x, (-1,)).shape == (12,)
    with pytest.raises(ValueError):
        x.reshape(5, -1)
    with pytest.raises(ValueError):
        x.reshape(-1, -1)


def test_repr_shows_type_shape_and_values(eager):
    text = repr(pl.tensor([[1.5, 2], [3, 4]]))
    assert "f32[2,2]" in text and "1.5" in text
    assert len(repr(pl.zeros((1000, 1000)))) < 1000


def test_python_numbers(eager):
    one = pl.tensor([[2.5]])
    assert float(one) == 2.5 and int(one) == 2 and bool(one) and one.item() == 2.5
    assert [10, 20, 30][pl.tensor(1)] == 20
    assert pl.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert [row.tolist() for row in pl.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises(pl.Error, match="more than one"):
        bool(pl.ones(2))


def test_pickle_and_copy(eager):
    x = pl.tensor(np.arange(6, dtype="int64").reshape(2, 3))
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype == "int64"
    np.testing.assert_array_equal(again.numpy(), x.numpy())
    assert copy.deepcopy(x).tolist() == x.tolist()


def test_numbers_of_an_eager_that_is_closed(line):
    with pl.Eager(line):
        x = pl.ones(3)
    with pytest.raises(pl.Error):
        x.numpy()
    with pytest.raises(pl.Error):
        pl.ones(3)


def test_messages_name_the_place_in_the_program(eager, line):
    kept = pl.ones((64, 64)) + 1
    kept.numpy()
    assert "test_tensor.py" in str(line.report())

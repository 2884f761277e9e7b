import itertools
import threading
import time
import warnings

import numpy as np
import pytest

import plimsoll as pl
from plimsoll.data import Dataset


def numbers(dataset):
    return [int(one) for one in dataset.as_numpy_iterator()]


def test_words_of_tf_data():
    assert numbers(Dataset.range(5)) == [0, 1, 2, 3, 4]
    assert numbers(Dataset.range(2, 10, 3)) == [2, 5, 8]
    assert numbers(Dataset.range(5).skip(1).take(3)) == [1, 2, 3]
    assert numbers(Dataset.range(3).repeat(2)) == [0, 1, 2] * 2
    assert numbers(Dataset.range(6).shard(3, 1)) == [1, 4]
    assert numbers(Dataset.range(3).concatenate(Dataset.range(2))) == [0, 1, 2, 0, 1]
    assert sorted(numbers(Dataset.range(20).shuffle(seed=1))) == list(range(20))
    assert [list(one) for one in Dataset.range(5).batch(2).as_numpy_iterator()] == [[0, 1], [2, 3], [4]]
    assert [list(one) for one in Dataset.range(5).batch(2, drop_remainder=True).as_numpy_iterator()] == [[0, 1], [2, 3]]
    assert numbers(Dataset.range(4).batch(2).unbatch()) == [0, 1, 2, 3]
    files = Dataset.from_tensor_slices({"a": np.arange(3)}), Dataset.from_tensor_slices({"b": np.arange(3) + 5})
    assert [(int(a["a"]), int(b["b"])) for a, b in Dataset.zip(*files).as_numpy_iterator()] == [(0, 5), (1, 6), (2, 7)]
    assert [(int(i), int(x)) for i, x in Dataset.range(5, 7).enumerate().as_numpy_iterator()] == [(0, 5), (1, 6)]


def test_shuffles_repeat_with_their_seed_and_differ_in_epochs():
    one = Dataset.range(50).shuffle(seed=3)
    assert numbers(one) == numbers(Dataset.range(50).shuffle(seed=3)) != numbers(Dataset.range(50).shuffle(seed=4))
    first, second = np.split(np.array(numbers(one.repeat(2))), 2)
    assert sorted(first) == sorted(second) and list(first) != list(second)


def test_structures_come_back():
    x, y = np.zeros((4, 3), "float32"), np.arange(4)
    a, b = next(Dataset.from_tensor_slices((x, y)).as_numpy_iterator())
    assert a.shape == (3,) and b == 0
    named = next(Dataset.from_tensor_slices({"a": x, "b": y}).batch(2).as_numpy_iterator())
    assert named["a"].shape == (2, 3) and list(named["b"]) == [0, 1]
    nested = next(Dataset.from_tensor_slices(({"a": x, "b": x}, y)).as_numpy_iterator())
    assert set(nested[0]) == {"a", "b"} and nested[1] == 0


def test_arrays_are_not_copied():
    array = np.arange(8, dtype="float64")
    dataset = Dataset.from_tensor_slices(array)
    array[3] = 100  # seen, since it lies where it lay
    assert [float(one) for one in dataset.as_numpy_iterator()] == [0, 1, 2, 100, 4, 5, 6, 7]
    assert dataset.element_spec[0].dtype == "float32"


def test_memory_maps_and_frames(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype="float32").reshape(4, 3))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert len(Dataset.from_tensor_slices(mapped)) == 4
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    assert [(float(e["a"]), int(e["b"])) for e in Dataset.from_tensor_slices(frame).as_numpy_iterator()] == [(1, 3), (2, 4)]


def test_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4, dtype="float32"))
    np.save(tmp_path / "y.npy", np.arange(4, dtype="int32") * 2)
    both = Dataset.from_files(tmp_path / "x.npy", tmp_path / "y.npy")
    assert [(float(a), int(b)) for a, b in both.as_numpy_iterator()] == [(0, 0), (1, 2), (2, 4), (3, 6)]
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    rows = Dataset.from_csv(tmp_path / "t.csv", label="y")
    assert [list(x) for x, _ in rows.as_numpy_iterator()] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="separator"):
        Dataset.from_csv(tmp_path / "t.csv", seperator=";")
    with pytest.raises(pl.BadData, match="missing"):
        Dataset.from_files(tmp_path / "missing.npy")


def test_generators_begin_again():
    def rows():
        for i in range(3):
            yield np.full(2, i, "float32"), i

    dataset = Dataset.from_generator(rows)
    assert [int(y) for _, y in dataset.repeat(2).as_numpy_iterator()] == [0, 1, 2] * 2
    typed = Dataset.from_generator(rows, (("float32", (2,)), ("int64", ())))
    assert typed.element_spec[1].dtype == "int64"


def test_an_iterator_is_over_after_one_epoch_and_says_so():
    dataset = Dataset.from_generator(iter(range(3)))
    assert numbers(dataset) == [0, 1, 2]
    with pytest.warns(UserWarning, match="second epoch is empty"):
        assert numbers(dataset) == []


def test_elements_of_different_sizes():
    def rows():
        for n in (1, 3, 2):
            yield np.arange(n, dtype="int32")

    dataset = Dataset.from_generator(rows, ("int32", (None,), (4,)))
    assert [len(one) for one in dataset.as_numpy_iterator()] == [1, 3, 2]
    padded = next(dataset.padded_batch(3).as_numpy_iterator())
    assert padded.tolist() == [[0, 0, 0], [0, 1, 2], [0, 1, 0]]

    def too_long():
        yield np.arange(9, dtype="int32")

    with pytest.raises(pl.BadData, match="shape"):
        list(Dataset.from_generator(too_long, ("int32", (None,), (4,))).as_numpy_iterator())


def test_map_traces_operators():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = Dataset.range(4).map(lambda x: pl.cast(x, "float32") * 2)
    assert [float(one) for one in dataset.as_numpy_iterator()] == [0, 2, 4, 6]
    threads = Dataset.range(100).map(lambda x: x * 2, num_parallel_calls=3)
    assert numbers(threads) == list(range(0, 200, 2))


def test_map_calls_python_and_says_what_it_costs():
    def double(x):
        return np.asarray(x) * 2.5

    with pytest.warns(UserWarning, match="called in Python"):
        dataset = Dataset.range(4).map(double)
    assert [float(one) for one in dataset.as_numpy_iterator()] == [0, 2.5, 5, 7.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = Dataset.range(40).map(double, num_parallel_calls=3, traced=False).prefetch(4)
    assert [float(one) for one in quiet.as_numpy_iterator()] == [2.5 * i for i in range(40)]


def test_python_functions_have_a_usual_stack():
    def deep(x):
        import json

        text = "[" * 900 + "]" * 900
        return len(json.dumps(json.loads(text))) + int(x)

    dataset = Dataset.range(4).map(deep, traced=False, num_parallel_calls=2).prefetch(2)
    assert numbers(dataset) == [1800, 1801, 1802, 1803]


class Mine(Exception):
    pass


@pytest.mark.parametrize("stage", ["map", "filter", "generator", "interleave", "prefetch"])
def test_errors_come_out_as_themselves(stage):
    def fails(*_):
        raise Mine(stage)

    def third(x):
        if int(x) == 2:
            raise Mine(stage)
        return int(x)

    base = Dataset.range(4)
    with pytest.raises(Mine, match=stage):
        if stage == "map":
            list(base.map(third, traced=False).as_numpy_iterator())
        elif stage == "filter":
            list(base.filter(fails).as_numpy_iterator())
        elif stage == "generator":
            list(Dataset.from_generator(lambda: map(third, range(4))).as_numpy_iterator())
        elif stage == "interleave":
            list(base.interleave(fails).as_numpy_iterator())
        else:
            list(base.map(third, traced=False, num_parallel_calls=2).prefetch(2).as_numpy_iterator())


def test_filter_and_interleave():
    assert numbers(Dataset.range(6).filter(lambda x: x % 2 == 0)) == [0, 2, 4]
    made = Dataset.range(2).interleave(lambda x: Dataset.range(int(x) * 10, int(x) * 10 + 2), cycle_length=2)
    assert numbers(made) == [0, 10, 1, 11]
    assert numbers(Dataset.range(2).flat_map(lambda x: Dataset.range(2))) == [0, 1, 0, 1]


def test_in_eager_code_elements_are_tensors(eager):
    for x, y in Dataset.from_tensor_slices((np.ones((4, 3), "float32"), np.arange(4))).batch(2):
        assert isinstance(x, pl.Tensor) and x.shape == (2, 3)
        assert isinstance(y, pl.Tensor)
    for one in Dataset.range(2):
        assert isinstance(one, pl.Tensor)


def test_iterations_go_on_from_a_state(line):
    dataset = Dataset.range(10).shuffle(seed=1)
    whole = numbers(dataset)
    first = dataset.on(line)
    head = [int(one) for one in itertools.islice(first, 4)]
    again = dataset.on(line)
    again.seek(first.state)
    assert head + [int(one) for one in again] == whole
    with pytest.raises(pl.Error):
        Dataset.range(11).on(line).seek(first.state)


def test_lengths():
    assert len(Dataset.range(10).batch(3)) == 4
    with pytest.raises(TypeError, match="no end"):
        len(Dataset.range(3).repeat())
    with pytest.raises(TypeError, match="not known"):
        len(Dataset.range(3).filter(lambda x: True))
    assert Dataset.range(3).filter(lambda x: True)


def test_numbers_that_make_no_sense():
    for wrong in (lambda d: d.batch(0), lambda d: d.shard(2, 2), lambda d: d.window(0), lambda d: d.take(-5)):
        with pytest.raises(pl.Error):
            wrong(Dataset.range(4))


def test_a_dataset_is_walked_in_another_thread(line):
    result = []

    def walk():
        result.extend(numbers(Dataset.range(100).map(lambda x: int(x) + 1, traced=False).prefetch(2)))

    thread = threading.Thread(target=walk)
    thread.start()
    thread.join()
    assert result == list(range(1, 101))


def test_an_iteration_that_is_let_go_waits_for_no_thread_that_waits_for_it():
    def slow(x):
        time.sleep(0.005)
        return int(x)

    dataset = Dataset.range(64).map(slow, traced=False, num_parallel_calls=2).prefetch(2)
    for _ in range(20):
        elements = iter(dataset.as_numpy_iterator())
        assert next(elements) == 0
        del elements

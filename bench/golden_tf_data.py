#!/usr/bin/env python3
"""Writes tests/input/golden/tf_data.txt: what tf.data gives for the pipelines of tests/input/golden.cpp.

    python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu && VENV/bin/python bench/golden_tf_data.py

One line for each pipeline: its name, a colon, and its elements with a bar between them. Shuffles draw from another
generator, so they are here only where every draw gives the same.
"""
import pathlib

import tensorflow as tf

Data = tf.data.Dataset
r = Data.range


def ragged(count):
    """Element i is a list of i numbers, each of them i."""
    return r(count).map(lambda i: tf.fill([i], i))


def windows(count, size, *options):
    return r(count).window(size, *options).flat_map(lambda window: window.batch(size))


CASES = {
    "range": lambda: r(5),
    "range_step": lambda: r(2, 11, 3),
    "range_down": lambda: r(9, 0, -4),
    "range_empty": lambda: r(3, 3),
    "batch": lambda: r(7).batch(3),
    "batch_drop": lambda: r(7).batch(3, drop_remainder=True),
    "batch_larger": lambda: r(3).batch(5),
    "batch_larger_drop": lambda: r(3).batch(5, drop_remainder=True),
    "batch_of_batches": lambda: r(10).batch(2).batch(2, drop_remainder=True),
    "batch_repeat": lambda: r(5).batch(2).repeat(2),
    "repeat_batch": lambda: r(5).repeat(2).batch(4),
    "repeat_none": lambda: r(5).repeat(0),
    "repeat_for_ever": lambda: r(3).repeat().take(8),
    "repeat_empty": lambda: r(0).repeat(),
    "take_more": lambda: r(3).take(9),
    "take_all": lambda: r(3).take(-1),
    "skip": lambda: r(6).skip(4),
    "skip_more": lambda: r(3).skip(9),
    "skip_all": lambda: r(3).skip(-1),
    "skip_repeat": lambda: r(4).skip(2).repeat(2),
    "shard": lambda: r(10).shard(3, 1),
    "shard_few": lambda: r(2).shard(5, 4),
    "shard_batch": lambda: r(10).batch(2).shard(2, 1),
    "map": lambda: r(5).map(lambda x: x * 10),
    "map_parallel": lambda: r(20).map(lambda x: x * 10, num_parallel_calls=4).batch(6),
    "filter": lambda: r(12).filter(lambda x: x % 3 == 0),
    "filter_repeat": lambda: r(5).filter(lambda x: x > 2).repeat(2),
    "shuffle_one": lambda: r(5).shuffle(1),
    "shuffle_sorted": lambda: r(6).shuffle(6).batch(6).map(lambda x: tf.sort(x)),
    "padded_batch": lambda: ragged(5).padded_batch(2),
    "padded_batch_to": lambda: ragged(4).padded_batch(3, padded_shapes=[5], padding_values=tf.constant(9, tf.int64)),
    "padded_batch_drop": lambda: ragged(5).padded_batch(2, drop_remainder=True),
    "unbatch": lambda: r(5).batch(2).unbatch(),
    "unbatch_deep": lambda: r(8).batch(2).batch(3).unbatch(),
    "interleave_documented": lambda: r(1, 6).interleave(lambda x: Data.from_tensors(x).repeat(6), 2, 4),
    "interleave_of_different_lengths": lambda: r(6).interleave(lambda x: r(x), 3, 2),
    "interleave_wide": lambda: r(3).interleave(lambda x: r(x * 10, x * 10 + 4), 5, 1),
    "interleave_with_empty": lambda: r(7).interleave(lambda x: r((x % 3) * 2), 2, 3),
    "interleave_batched": lambda: r(4).interleave(lambda x: r(x, x + 5), 2, 2).batch(3),
    "interleave_parallel": lambda: r(6).interleave(lambda x: r(x * 10, x * 10 + x % 4 * 3), 3, 2, num_parallel_calls=3),
    "interleave_parallel_wide": lambda: r(3).interleave(lambda x: r(x * 10, x * 10 + 4), 5, 1, num_parallel_calls=2),
    "flat_map": lambda: r(5).flat_map(lambda x: r(x)),
    "zip": lambda: Data.zip((r(3), r(10, 15))).map(lambda a, b: tf.stack([a, b])),
    "concatenate": lambda: r(3).concatenate(r(7, 9)),
    "concatenate_repeat": lambda: r(2).concatenate(r(5, 6)).repeat(2),
    "concatenate_empty": lambda: r(0).concatenate(r(2)),
    "cache": lambda: r(3).cache().repeat(2),
    "prefetch": lambda: r(4).prefetch(2),
    "enumerate": lambda: r(4, 7).enumerate(5).map(lambda i, x: tf.stack([i, x])),
    "window": lambda: windows(7, 3),
    "window_shift": lambda: windows(7, 3, 1),
    "window_shift_drop": lambda: windows(7, 3, 2, 1, True),
    "window_stride": lambda: windows(9, 3, 2, 2),
    "window_stride_drop": lambda: windows(9, 3, 2, 2, True),
    "window_gaps": lambda: windows(10, 2, 4),
    "window_gaps_stride": lambda: windows(10, 2, 5, 3),
    "window_larger": lambda: windows(3, 5),
    "window_larger_drop": lambda: windows(3, 5, 1, 1, True),
    "chain": lambda: r(20).shard(2, 1).map(lambda x: x * 2).filter(lambda x: x % 3 != 0).repeat(2).skip(1).batch(3),
}


def text(element):
    return " ".join(str(number) for number in element.numpy().reshape(-1))


if __name__ == "__main__":
    path = pathlib.Path(__file__).parent.parent / "tests/input/golden/tf_data.txt"
    lines = [f"# made by bench/golden_tf_data.py with TensorFlow {tf.__version__}"]
    for name, make in CASES.items():
        lines.append(f"{name}:" + "|".join(" " + text(element) + " " for element in make()).rstrip())
    path.write_text("\n".join(lines) + "\n")

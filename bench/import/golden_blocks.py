#!/usr/bin/env python3
"""Writes tests/import/golden/blocks.gguf: for each type of blocks 512 packed numbers, and what gguf's own code unpacks.

    pip install gguf
    bench/import/golden_blocks.py tests/import/golden/blocks.gguf
"""
import sys

import gguf
import numpy

TYPES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
SCALES = {"Q4_1": 2, "Q5_1": 2, "Q4_K": 2, "Q5_K": 2}  # halves at the begin of a block


def main():
    rng = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_uint32("llama.block_count", 3)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "ab"])
    writer.add_array("tokenizer.ggml.token_type", [1, 1, 3])
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0, 2.0])
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = 512 // block
        packed = rng.integers(0, 256, (blocks, size), dtype=numpy.uint8)
        halves = rng.normal(0, 0.02, (blocks, 4)).astype(numpy.float16).view(numpy.uint8)
        if name in ("F16", "BF16"):
            values = rng.normal(0, 1, 512).astype(numpy.float32)
            packed = gguf.quants.quantize(values, kind).view(numpy.uint8).reshape(blocks, size)
        elif name == "Q6_K":
            packed[:, -2:] = halves[:, :2]
        else:
            packed[:, : 2 * SCALES.get(name, 1)] = halves[:, : 2 * SCALES.get(name, 1)]
        data = packed.reshape(2, -1)
        writer.add_tensor(name, data, raw_dtype=kind)
        expected = gguf.quants.dequantize(data, kind) if name != "F16" else data.view(numpy.float16)
        writer.add_tensor(name + ".expected", expected.astype(numpy.float32).reshape(2, 256))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()

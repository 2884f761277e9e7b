# Writes a model for the peers of bench/small, by their own tools: ONNX (PyTorch), int8 ONNX (ONNX Runtime), or LiteRT.
import argparse
import sys

import numpy as np

SAMPLES = 16


def images(shape):
    return np.random.default_rng(5).random((SAMPLES, *shape), np.float32)


def write_onnx(model, file):
    import torch
    import torch_models
    import torch_worker
    net = torch_models.make(model).eval()
    x, _ = torch_models.data(model, 1, None)
    torch_worker.export(net, x, file)


def write_int8_onnx(floats, file, shape):
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.rows = iter(images(shape))

        def get_next(self):
            row = next(self.rows, None)
            return None if row is None else {'x': row[None]}

    quant_pre_process(floats, file, skip_symbolic_shape=True)
    quantization.quantize_static(file, file, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True)


def write_litert(model, file, shape, is_int8):
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    import tensorflow_models
    rows = np.moveaxis(images(shape), 1, -1)  # channels last
    net = tensorflow_models.Net(False)

    @tf.function(input_signature=[tf.TensorSpec((1, *rows.shape[1:]), tf.float32)])
    def answer(x):
        net.start()
        return tensorflow_models.MODELS[model](net, x)

    frozen = convert_variables_to_constants_v2(answer.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if is_int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([row[None]] for row in rows)
    with open(file, 'wb') as out:
        out.write(converter.convert())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('kind', choices=['onnx', 'onnx-int8', 'litert', 'litert-int8'])
    parser.add_argument('model')
    parser.add_argument('file')
    parser.add_argument('--shape', required=True)
    parser.add_argument('--floats', help='the model that is quantised')
    arguments = parser.parse_args()
    shape = tuple(map(int, arguments.shape.split(',')))
    if arguments.kind == 'onnx':
        write_onnx(arguments.model, arguments.file)
    elif arguments.kind == 'onnx-int8':
        write_int8_onnx(arguments.floats, arguments.file, shape)
    else:
        write_litert(arguments.model, arguments.file, shape, arguments.kind == 'litert-int8')


if __name__ == '__main__':
    sys.exit(main())

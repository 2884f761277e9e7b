# Inference of an exported model in ONNX Runtime, timed.
import numpy as np
import onnxruntime

import timing


def main():
    arguments = timing.parse_arguments()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(arguments.onnx, options, providers=['CPUExecutionProvider'])
    x = np.random.default_rng(1).random((arguments.batch, 3, 224, 224), np.float32)
    # The weights of the file; batch norms are already folded into convolutions there, so they can't be counted.
    timing.measure(arguments, lambda: float(session.run(None, {'x': x})[0][0, 0]), onnxruntime.__version__, None)


if __name__ == '__main__':
    main()

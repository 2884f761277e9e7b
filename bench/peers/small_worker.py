# One sample at a time in ONNX Runtime or LiteRT, timed: the workers of bench/small. Speaks as bench_small does.
import argparse
import json
import sys
import time

import numpy as np

import timing


def onnx_runtime(file, shape, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])
    x = np.random.default_rng(1).random((1, *shape), np.float32)
    return lambda: float(session.run(None, {'x': x})[0].flat[0])


def litert(file, shape, threads):
    from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter(model_path=file, num_threads=threads)
    interpreter.allocate_tensors()
    x = np.moveaxis(np.random.default_rng(1).random((1, *shape), np.float32), 1, -1)
    into, out = interpreter.get_input_details()[0]['index'], interpreter.get_output_details()[0]['index']

    def step():
        interpreter.set_tensor(into, x)
        interpreter.invoke()
        return float(interpreter.get_tensor(out).flat[0])

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('system', choices=['onnxruntime', 'litert'])
    parser.add_argument('file')
    parser.add_argument('--shape', required=True)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--most-steps', type=int, default=10000)
    parser.add_argument('--started-ns', type=int, default=0)
    arguments = parser.parse_args()
    shape = tuple(map(int, arguments.shape.split(',')))
    make = onnx_runtime if arguments.system == 'onnxruntime' else litert
    step = make(arguments.file, shape, arguments.threads)
    answer = step()
    first_ns = time.monotonic_ns() - arguments.started_ns
    print('[]', flush=True)
    for line in sys.stdin:
        print(json.dumps(timing.timed_steps(step, float(line), 1, arguments.most_steps)), flush=True)
    print(json.dumps({'first_step_ns': first_ns, 'peak_bytes': timing.peak_resident_bytes(), 'answer': answer}))


if __name__ == '__main__':
    main()

# What the peers' workers share: their arguments, the loop that is timed, and the line of JSON that they print.
import argparse
import json
import sys
import time


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--batch', type=int, required=True)
    parser.add_argument('--sequence', type=int)
    parser.add_argument('--inference', action='store_true')
    parser.add_argument('--setting', default='', help='words with + between them')
    parser.add_argument('--onnx', help='file of the model')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--least-steps', type=int, default=5)
    parser.add_argument('--most-steps', type=int, default=100)
    parser.add_argument('--seconds', type=float, default=10)
    parser.add_argument('--started-ns', type=int, default=0)
    parser.add_argument('--only-first', action='store_true', help='no step after the first')
    parser.add_argument('--by-turns', action='store_true', help='steps when asked: seconds in each line of input')
    arguments = parser.parse_args()
    arguments.words = set(arguments.setting.split('+'))
    return arguments


def peak_resident_bytes():
    with open('/proc/self/status') as status:
        for line in status:
            if line.startswith('VmHWM:'):
                return int(line.split()[1]) * 1024
    return 0


def timed_steps(step, seconds, least, most):
    """Steps until so many seconds are over; the time of each."""
    times = []
    start = before = time.monotonic_ns()
    while len(times) < most:
        step()
        now = time.monotonic_ns()
        times.append(now - before)
        before = now
        if now - start > seconds * 1e9 and len(times) >= least:
            break
    return times


def measure(arguments, step, version, weights):
    """Calls step(), which ends when its result can be read and returns one number of it.

    weights() counts the trained numbers."""
    first = step()
    first_step_ns = time.monotonic_ns() - arguments.started_ns
    if arguments.only_first:
        return print(json.dumps({'version': version, 'first_step_ns': first_step_ns}))
    step()
    step_ns = []
    if arguments.by_turns:
        print('[]', flush=True)
        for line in sys.stdin:
            times = timed_steps(step, float(line), 1, arguments.most_steps)
            step_ns += times
            print(json.dumps(times), flush=True)
    else:
        step_ns = timed_steps(step, arguments.seconds, arguments.least_steps, arguments.most_steps)
    print(json.dumps({
        'version': version,
        'weights': weights() if weights else None,
        'first_step_ns': first_step_ns,
        'step_ns': step_ns,
        'peak_bytes': peak_resident_bytes(),
        'answers': [first, step()],
    }))

# What the peers' workers of bench/data share: their arguments, the loop that is timed, the line of JSON.
import argparse
import json
import time


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('what', choices=['images', 'rows', 'records'])
    parser.add_argument('folder')
    parser.add_argument('--setting', default='')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--seconds', type=float, default=3)
    return parser.parse_args()


def measure(arguments, epoch, version, is_one_process=True):
    """Calls epoch(), which returns its elements, once before and then until the seconds are over."""
    epoch()
    start, clock, elements = time.monotonic(), time.process_time(), 0
    while True:
        elements += epoch()
        passed = time.monotonic() - start
        if passed >= arguments.seconds:
            break
    result = {'elements_per_s': elements / passed, 'version': version}
    if is_one_process:
        result['processor_us'] = (time.process_time() - clock) * 1e6 / elements
    print(json.dumps(result))

#!/usr/bin/env python3
"""Trains with --run and reads its event files with the tensorboard package: event_files.py PLIMSOLL [DATA]."""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'peers'))
import environments

READER = r'''
import json, sys
import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'histograms': 0, 'tensors': 0})
events.Reload()
tags = events.Tags()
found = {'version': tensorboard.__version__, 'scalars': {}, 'histograms': {}, 'texts': {}}
for tag in tags['scalars']:
    found['scalars'][tag] = [(e.step, e.value) for e in events.Scalars(tag)]
for tag in tags['histograms']:
    found['histograms'][tag] = [(e.step, e.histogram_value.num, sum(e.histogram_value.bucket)) for e in events.Histograms(tag)]
for tag in tags['tensors']:
    found['texts'][tag] = [(e.step, len(e.tensor_proto.string_val[0])) for e in events.Tensors(tag)]
json.dump(found, sys.stdout)
'''


def expect(is_true, what):
    if not is_true:
        sys.exit(f'event_files: wrong: {what}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('plimsoll', help='the program')
    parser.add_argument('data', nargs='?', default='/usr/share/datasets/fashion-mnist')
    parser.add_argument('--peers', default=environments.default_folder(), help='folder of the virtual environments')
    arguments = parser.parse_args()
    python = environments.python_of('tensorboard', arguments.peers)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / 'run'
        subprocess.run([arguments.plimsoll, 'train', 'lenet', '--data', arguments.data, '--batch', '1000', '--epochs', '2',
                        '--memory', '128MiB', '--histograms', '1', '--progress', 'none', '--run', run],
                       check=True, stdout=subprocess.DEVNULL)
        read = subprocess.run([python, '-c', READER, run / 'events'], check=True, capture_output=True, text=True)
        rows = [json.loads(line) for line in (run / 'metrics.jsonl').read_text().splitlines()]
    found = json.loads(read.stdout)
    for name in ('loss', 'accuracy', 'val_loss', 'val_accuracy', 'learning_rate'):
        expect([step for step, _ in found['scalars'][name]] == [row['step'] for row in rows], f'steps of {name}')
        expect(all(abs(value - row[name]) <= 1e-6 * abs(row[name]) for (_, value), row in zip(found['scalars'][name], rows)),
               f'values of {name}')
    planned = found['scalars']['memory/planned_peak_mib'][0][1]
    measured = found['scalars']['memory/measured_peak_mib'][-1][1]
    expect(0 < measured <= 128 and 0 < planned <= 128, 'memory')
    expect(len(found['histograms']) > 0, 'histograms')
    for tag, values in found['histograms'].items():
        expect(len(values) == len(rows) and all(count == counted > 0 for _, count, counted in values), f'histogram {tag}')
    expect(any(length > 0 for values in found['texts'].values() for _, length in values), 'texts')
    print(f'tensorboard {found["version"]} reads {len(found["scalars"])} scalars, {len(found["histograms"])} histograms and '
          f'{len(found["texts"])} texts; {len(rows)} epochs agree with metrics.jsonl')


if __name__ == '__main__':
    main()

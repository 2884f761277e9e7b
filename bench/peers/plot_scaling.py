# Plots of bench/scaling: one PNG for each sweep, time over work, both logarithmic.
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402

KINDS = (('step_ns', 'step', 'o-'), ('plan_ns', 'planning', 's-'),
         ('tight_plan_ns', 'planning at the smallest line', '^-'))


def plot(name, sweep, folder):
    figure, axes = plt.subplots(figsize=(6.4, 4.4))
    for kind, label, style in KINDS:
        points = [(point['value'], point[kind] / 1e6) for point in sweep['points'] if point[kind]]
        if points:
            axes.plot(*zip(*points), style, label=f'{label} (work to the {sweep["exponents"][kind]:.2f})')
    values = [point['value'] for point in sweep['points']]
    first = sweep['points'][0]
    linear = [first['step_ns'] / 1e6 * point['work'] / first['work'] for point in sweep['points']]
    axes.plot(values, linear, ':', color='grey', label='linear with the work')
    axes.set(xscale='log', yscale='log', xlabel=sweep['option'], ylabel='milliseconds',
             title=' '.join([f'{name}:', sweep['model'], *sweep['fixed']]))
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize='small')
    figure.tight_layout()
    file = Path(folder) / f'{name}.png'
    figure.savefig(file, dpi=120)
    print(f'wrote {file}')


def main():
    for name, sweep in json.loads(Path(sys.argv[1]).read_text()).items():
        plot(name, sweep, sys.argv[2])


if __name__ == '__main__':
    main()

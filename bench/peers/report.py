# The table and the summary of bench/compare, made from finished runs alone.
import math
import statistics

LINES = {'third': 3, 'tenth': 10}


def percentile(numbers, share):
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, int(share * len(numbers)))]


def join_runs(runs):
    """One row from the runs of the same case, system, setting and line: alone, its starts, and by turns."""
    stages = {run['stage']: run for run in runs}
    alone, turns = stages.get('alone', {}), stages.get('turns', {})
    starts = stages.get('starts', {}).get('first_step_ns')
    first_step_ns = statistics.median(starts) if starts else alone.get('first_step_ns')
    row = {key: runs[0][key] for key in ('case', 'system', 'setting', 'line')}
    row['line_bytes'] = runs[0].get('line_bytes')
    if 'bursts' not in turns:
        return {**row, 'failed': alone.get('failed', 'tried alone, not among the best'), 'alone_ns': median(alone),
                'first_step_ns': first_step_ns, 'smallest_line_bytes': alone.get('smallest_line_bytes')}
    steps = [ns for burst in turns['bursts'] for ns in burst]
    return {**row, 'rounds': [statistics.median(burst) for burst in turns['bursts']], 'steps': len(steps),
            'step_ns': statistics.median(steps), 'low_ns': percentile(steps, 0.1), 'high_ns': percentile(steps, 0.9),
            'alone_ns': median(alone), 'peak_bytes': max(turns['peak_bytes'], alone.get('peak_bytes', 0)),
            'first_step_ns': first_step_ns,
            'weights': turns.get('weights'), 'version': turns.get('version')}


def median(run):
    return statistics.median(run['step_ns']) if 'step_ns' in run else None


def speed_over(ours, peer):
    """How many times as fast: the median over the rounds, in each of which both had their turn."""
    return statistics.median(theirs / mine for mine, theirs in zip(ours['rounds'], peer['rounds']))


def summarise(cases, runs):
    """Rows of every case: the best setting of each system, ours under lines, and all other settings apart."""
    groups = {}
    for run in runs:
        groups.setdefault((run['case'], run['system'], run['setting'], run['line']), []).append(run)
    rows = [join_runs(group) for group in groups.values()]
    return [summarise_case(case, [row for row in rows if row['case'] == case.name]) for case in cases
            if any(row['case'] == case.name for row in rows)]


def summarise_case(case, rows):
    best, others = {}, []
    for row in rows:
        row['batch'] = case.batch
        held = best.get((row['system'], row['line']))
        rank = lambda r: ('failed' in r, r.get('step_ns', 0))
        if held is None or rank(row) < rank(held):
            best[row['system'], row['line']] = row
            others += [held] if held else []
        else:
            others.append(row)
    chosen = list(best.values())
    peers = [row for row in chosen if row['system'] != 'plimsoll' and 'step_ns' in row]
    ours = [row for row in chosen if row['system'] == 'plimsoll' and 'step_ns' in row]
    for row in ours:
        row['speed_over'] = {peer['system']: speed_over(row, peer) for peer in peers}
        if peers:
            row['speed_over_best'] = min(row['speed_over'].values())
    best_peer = min(peers, key=lambda row: row['step_ns'], default={})
    first = [row['first_step_ns'] for row in chosen + others if row['system'] != 'plimsoll' and row['first_step_ns']]
    return {'case': case.name, 'inference': case.inference, 'best_peer': best_peer.get('system'),
            'best_peer_first_step_ns': best_peer.get('first_step_ns'),
            'soonest_peer_first_step_ns': min(first, default=None), 'weights_agree': weights_agree(chosen + others),
            'rows': chosen, 'other_settings': others}


def weights_agree(rows):
    return len({row['weights'] for row in rows if row.get('weights')}) <= 1


def mean_of(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def goals(summaries):
    """The figures that the comparison is made for; None where there is nothing to compare."""
    def ours(summary, line):
        rows = [r for r in summary['rows'] if r['line'] == line and 'speed_over_best' in r]
        return rows[0] if rows else None

    result = {}
    for line in ('', *LINES):
        found = {s['case']: ours(s, line)['speed_over_best'] for s in summaries if ours(s, line)}
        training = {s['case'] for s in summaries if not s['inference']}
        result[line or 'none'] = {
            'geometric_mean': mean_of(found.values()), 'cases': len(found),
            'training_cases_below_1': sorted(case for case, speed in found.items() if case in training and speed < 1)}
    # Of the peer whose steps are fastest, and, stricter, of any peer in any setting. What a step alone takes is below
    # both: no set-up can be sooner.
    for name, peer, mine in (('first_step', 'best_peer_first_step_ns', 'first_step_ns'),
                             ('first_step_of_soonest', 'soonest_peer_first_step_ns', 'first_step_ns'),
                             ('step_alone', 'best_peer_first_step_ns', 'step_ns')):
        waits = [ours(s, '')[mine] / s[peer] for s in summaries if ours(s, '') and s[peer]]
        result[name] = {'geometric_mean': mean_of(waits), 'largest': max(waits, default=None)}
    return result


def milliseconds(ns):
    return f'{ns / 1e6:.2f}' if ns < 1e8 else f'{ns / 1e6:.0f}'


def mebibytes(count):
    return f'{count / 2 ** 20:.0f} MiB'


def row_text(row, speed):
    name = row['system'] + (f' at a {row["line"]}' if row['line'] else '')
    text = f'  {name:<20} {row["setting"]:<30} '
    if 'failed' in row:
        smallest = row.get('smallest_line_bytes')
        if smallest:
            return text + f'line {mebibytes(row["line_bytes"])} is below its smallest, {mebibytes(smallest)}'
        return text + row['failed']
    spread = f'{milliseconds(row["low_ns"])} to {milliseconds(row["high_ns"])}'
    return text + (f'{milliseconds(row["step_ns"]):>9} {spread:>18} {row["batch"] / row["step_ns"] * 1e9:>9.1f} '
                   f'{speed:>9} {mebibytes(row["peak_bytes"]):>9} {row["first_step_ns"] / 1e9:>7.2f}').rstrip()


def table(summaries):
    lines = [f'  {"system":<20} {"setting":<30} {"step ms":>9} {"spread (10-90 %)":>18} {"samples/s":>9} {"we are":>9} '
             f'{"peak":>9} {"first s":>7}']
    for summary in summaries:
        base = next((r for r in summary['rows'] if r['system'] == 'plimsoll' and not r['line']), {})
        lines.append(summary['case'] + ('' if summary['weights_agree'] else '   THE NUMBERS OF WEIGHTS DIFFER'))
        for row in sorted(summary['rows'], key=lambda r: (r['system'] != 'plimsoll', ['', *LINES].index(r['line']))):
            # How many times as fast we are: in a peer's row as that peer, in ours as the best of them.
            speed = row.get('speed_over_best') or base.get('speed_over', {}).get(row['system'])
            lines.append(row_text(row, f'{speed:.2f}' if speed else ''))
    return '\n'.join(lines)


def goals_text(result):
    lines = []
    for line, label in (('none', 'no line'), ('third', 'line at a third'), ('tenth', 'line at a tenth')):
        figures = result[line]
        if not figures['cases']:
            continue
        below = ', '.join(figures['training_cases_below_1']) or 'none'
        lines.append(f'{label}: speed over the best peer {figures["geometric_mean"]:.2f} (geometric mean of '
                     f'{figures["cases"]} case{"s" if figures["cases"] > 1 else ""}); training cases below 1: {below}')
    for name, label in (('first_step', "first step: over that of the best peer"),
                        ('step_alone', "            of which one of our steps alone is"),
                        ('first_step_of_soonest', "            over the soonest of any peer in any setting")):
        if result[name]['geometric_mean']:
            lines.append(f'{label} {result[name]["geometric_mean"]:.2f} (geometric mean), at most '
                         f'{result[name]["largest"]:.2f}')
    return '\n'.join(lines)

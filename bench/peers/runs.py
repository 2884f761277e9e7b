# Runs of workers in fresh processes, kept as JSON lines so that an interrupted comparison goes on where it was.
import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = 'bench/build bench_step'

# Freed memory stays in the heap, in huge pages: what the peers' guides want of an allocator, from glibc itself.
HUGE_PAGES = {
    'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776',
    'THP_MEM_ALLOC_ENABLE': '1',
}


class Failed(Exception):
    pass


def find_program(build=None):
    """Our worker: in the folder of the build that is given, or in the usual ones."""
    folders = [Path(build)] if build else [ROOT / 'build-bench', ROOT / 'build']
    for folder in folders:
        if (folder / 'bench' / 'bench_step').exists():
            return folder / 'bench' / 'bench_step'
    raise Failed(f'there is no bench/bench_step in {" or ".join(map(str, folders))}; build it first:\n  {BUILD}')


def median_ns(result):
    return statistics.median(result['step_ns'])


class Store:
    """Finished runs by what they are of. The stage: 'alone', to find the best setting, 'starts' or 'turns'."""

    KEY = ('case', 'system', 'setting', 'line', 'stage')

    def __init__(self, file, conditions):
        self.file = Path(file)
        self.runs = {}
        if self.file.exists():
            self.read(conditions)
        else:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.append({'conditions': conditions})

    def read(self, conditions):
        for line in self.file.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off by an interruption
            if 'conditions' not in record:
                self.runs[tuple(record[key] for key in self.KEY)] = record
            elif conditions is not None and record['conditions'] != conditions:
                raise Failed(f'{self.file} was made under other conditions: {record["conditions"]}, now {conditions}')

    def append(self, record):
        with open(self.file, 'a') as out:
            out.write(json.dumps(record) + '\n')

    def find(self, key):
        return self.runs.get(key)

    def add(self, key, result):
        self.runs[key] = {**dict(zip(self.KEY, key)), **result}
        self.append(self.runs[key])


class Workers:
    """Starts the worker of any system."""

    def __init__(self, arguments, program, pythons, tcmalloc):
        self.arguments, self.program, self.pythons, self.tcmalloc = arguments, program, pythons, tcmalloc

    def command(self, system, case, setting, line_bytes):
        if system == 'plimsoll':
            command = [self.program]
        else:
            command = [self.pythons[system], HERE / f'{system}_worker.py']
        command += [case.model, '--batch', case.batch, '--threads', self.arguments.threads,
                    '--seconds', self.arguments.seconds, '--least-steps', self.arguments.least_steps,
                    '--most-steps', self.arguments.most_steps]
        if case.sequence:
            command += ['--sequence', case.sequence]
        if case.inference:
            command += ['--inference']
        if system == 'plimsoll':
            command += ['--memory', line_bytes] if line_bytes else []
            command += ['--scratch', self.arguments.scratch] if line_bytes and self.arguments.scratch else []
        elif system == 'onnxruntime':
            command += ['--onnx', self.exported(case)]
        else:
            command += ['--setting', setting]
        return [str(part) for part in command]

    def exported(self, case):
        """The model as a file for ONNX Runtime, written by PyTorch once."""
        file = Path(self.arguments.peers) / f'{case.model}.onnx'
        if not file.exists():
            if 'torch' not in self.pythons:
                raise Failed('needs PyTorch to export the model')
            command = [self.pythons['torch'], HERE / 'torch_worker.py', case.model, '--batch', '1', '--onnx', file]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode != 0 or not file.exists():
                file.unlink(missing_ok=True)
                raise Failed(f'export failed: {last_line(result.stderr)[:300]}')
        return file

    def environment(self, setting):
        environment = dict(os.environ)
        for variable in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
            environment[variable] = str(self.arguments.threads)
        if 'hugepages' in setting:
            environment.update(HUGE_PAGES)
        if 'tcmalloc' in setting:
            environment['LD_PRELOAD'] = self.tcmalloc
        return environment

    def start(self, system, case, setting, line_bytes=None):
        """A worker that makes its steps when asked; throws Failed."""
        command = [*self.command(system, case, setting, line_bytes), '--by-turns']
        return Worker(command, self.environment(setting), self.arguments.timeout)

    def run(self, system, case, setting, line_bytes=None, more=()):
        """What the worker printed when it ran alone, or {'failed': why}."""
        try:
            command = [*self.command(system, case, setting, line_bytes), *more]
            return Worker(command, self.environment(setting), self.arguments.timeout).finish()
        except Failed as failure:
            return {'failed': str(failure)}


class Worker:
    """A process of its own; its errors go to a file, so that it never waits for a reader of them."""

    def __init__(self, command, environment=None, timeout=900):
        self.timeout = timeout
        self.errors = tempfile.TemporaryFile('w+')
        started_ns = time.monotonic_ns()
        self.process = subprocess.Popen([*map(str, command), '--started-ns', str(started_ns)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=environment, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def steps(self, seconds=None):
        """Times of the steps made in so many seconds; without a number, waits until the worker is ready."""
        if seconds is not None:
            try:
                self.process.stdin.write(f'{seconds}\n')
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # `answer` below says why
        watch = threading.Timer(self.timeout, self.end)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if line.startswith('['):
            return json.loads(line)
        raise Failed(self.answer(line).get('failed', f'no steps within {self.timeout} s'))

    def finish(self):
        """The JSON that the worker printed last, or {'failed': why}."""
        try:
            return self.answer(self.process.communicate(timeout=self.timeout)[0])
        except subprocess.TimeoutExpired:
            return {'failed': f'no end within {self.timeout} s'}
        finally:
            self.end()

    def answer(self, out):
        self.process.wait(self.timeout)
        self.errors.seek(0)
        return answer_of(self.process.returncode, out, self.errors.read())

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own group: compilers that it started end too
        except ProcessLookupError:
            pass
        self.process.wait()


def answer_of(code, out, err):
    try:
        result = json.loads(last_line(out))
    except json.JSONDecodeError:
        result = {}
    if 'smallest_line_bytes' in result:
        return {'failed': 'below its smallest line', **result}
    if code == 0 and result:
        return result
    if code == -signal.SIGKILL:
        return {'failed': 'out of memory (killed)'}
    if 'alloc' in err.lower() and 'memory' in err.lower():
        return {'failed': 'out of memory'}
    return {'failed': last_line(err)[:300] or f'exit code {code}'}


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ''

# The peers' virtual environments, outside the repository: made once, by pip with its own defaults.
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Each environment stands alone, so that no peer decides another's version of numpy.
PACKAGES = {
    'torch': ['numpy', 'onnx', 'onnxscript', 'pillow'],
    'tensorflow': ['tensorflow-cpu'],
    'onnxruntime': ['numpy', 'onnxruntime'],
    'onnxruntime-tools': ['numpy', 'onnx', 'onnxruntime', 'sympy'],
    'litert': ['numpy', 'ai-edge-litert'],
    'plots': ['matplotlib'],
    'tensorboard': ['tensorboard'],
    'peft': ['torch==2.13.0', 'peft', 'transformers'],
}
ALLOCATOR_PACKAGE = 'libtcmalloc-minimal4'
ALLOCATOR_FILE = 'libtcmalloc_minimal.so.4'
SYSTEM_PYTHON = '/usr/bin/python3'


class SetupFailed(Exception):
    pass


def say(text):
    print(f'compare: {text}', file=sys.stderr, flush=True)


def default_folder():
    cache = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(cache) / 'plimsoll' / 'peers'


def run_quietly(command, log):
    with open(log, 'a') as out:
        out.write(f'$ {" ".join(map(str, command))}\n')
        out.flush()
        return subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL).returncode == 0


def newest_torch(python):
    """The newest CPU build that pip knows, or else the newest of all, which brings several GB of CUDA packages."""
    listed = subprocess.run([python, '-m', 'pip', 'index', 'versions', 'torch'], capture_output=True, text=True).stdout
    versions = re.findall(r'[0-9][0-9.]*(?:\+\w+)?', listed.partition('Available versions:')[2].partition('\n')[0])
    for version in versions:
        if version.endswith('+cpu'):
            if version != versions[0]:
                say(f'torch {versions[0]} is listed without a CPU build; taking {version} (--torch chooses another)')
            return f'torch=={version}'
    if versions:
        say('pip knows no CPU build of torch; the one that it has brings several GB of CUDA packages')
    return 'torch'


def debian_torch(log):
    """Debian's PyTorch for the system's Python, installed if that is possible."""
    can_import = [SYSTEM_PYTHON, '-c', 'import torch']
    if run_quietly(can_import, log):
        return SYSTEM_PYTHON
    # That build of OpenBLAS shares PyTorch's pool of threads.
    install = ['apt-get', 'install', '-y', '--no-install-recommends', 'python3-torch', 'libopenblas0-openmp']
    if shutil.which('apt-get') and os.geteuid() == 0 and run_quietly(install, log) and run_quietly(can_import, log):
        return SYSTEM_PYTHON
    raise SetupFailed(f'neither pip nor Debian gives PyTorch (log: {log}); as root: {" ".join(install)}')


def python_of(name, folder, torch_requirement=None):
    """The interpreter of an environment, which is made first if it is not there. Throws SetupFailed."""
    home = Path(folder) / name
    ready = home / 'ready'
    if ready.exists():
        return ready.read_text().strip()
    Path(folder).mkdir(parents=True, exist_ok=True)
    log = Path(folder) / f'{name}.log'
    say(f'setting up {name} in {home} (log: {log})')
    if not run_quietly([sys.executable, '-m', 'venv', '--clear', home], log):
        raise SetupFailed(f'no virtual environment in {home} (log: {log}); Debian has it in python3-venv')
    python = str(home / 'bin' / 'python')
    packages = list(PACKAGES[name])
    if name == 'torch':
        packages.insert(0, torch_requirement or newest_torch(python))
    if not run_quietly([python, '-m', 'pip', 'install', *packages], log):
        if name != 'torch':
            raise SetupFailed(f'pip could not install {" ".join(packages)} (log: {log})')
        say(f'pip could not install {packages[0]} (log: {log}); taking python3-torch of Debian')
        python = debian_torch(log)
    ready.write_text(python)
    return python


def fast_allocator(folder):
    """The allocator that the peers' guides advise, from the system or unpacked from Debian's package; or None."""
    known = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True, text=True).stdout
    for line in known.splitlines():
        if ALLOCATOR_FILE in line:
            return line.rpartition('=> ')[2]
    home = Path(folder) / 'allocator'
    found = sorted(home.rglob(ALLOCATOR_FILE))
    if not found and not (home / 'tried').exists() and shutil.which('apt-get') and shutil.which('dpkg-deb'):
        home.mkdir(parents=True, exist_ok=True)
        (home / 'tried').touch()
        subprocess.run(['apt-get', 'download', ALLOCATOR_PACKAGE], cwd=home, capture_output=True)
        for package in home.glob('*.deb'):
            subprocess.run(['dpkg-deb', '-x', package, home], capture_output=True)
        found = sorted(home.rglob(ALLOCATOR_FILE))
    return str(found[0]) if found else None

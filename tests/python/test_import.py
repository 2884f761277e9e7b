"""What the import costs, and what it does not pull in."""

MEASURE = """
import sys, time

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

before = resident()
began = time.process_time()
import plimsoll
seconds = time.process_time() - began  # of the processor: other tests run at the same time
print(seconds, resident() - before, "numpy" in sys.modules, "matplotlib" in sys.modules)
"""


def test_the_import_is_light(run_script):
    best = None
    for _ in range(5):
        done = run_script(MEASURE)
        assert done.returncode == 0, done.stderr
        seconds, taken, numpy, matplotlib = done.stdout.split()
        assert numpy == matplotlib == "False"
        assert int(taken) <= 15 << 20
        best = min(float(seconds), best or 9)
    assert best <= 0.15


def test_numpy_is_imported_for_arrays_alone(run_script):
    done = run_script(
        "import sys\nimport plimsoll as pl\n"
        "with pl.Eager(pl.Line('256MiB', covers_process=False)):\n"
        "    x = pl.tensor([1.0, 2.0]) + 1\n"
        "    print(x.tolist(), 'numpy' in sys.modules)\n"
        "    x.numpy()\n"
        "    print('numpy' in sys.modules)\n"
    )
    assert done.stdout.split("\n")[:2] == ["[2.0, 3.0] False", "True"], done.stderr


def test_nothing_is_leaked(run_script):
    """nanobind tells at the end of a process which objects, types and functions still live."""
    done = run_script(
        "import numpy as np\nimport plimsoll as pl\n"
        "line = pl.Line('256MiB', covers_process=False)\n"
        "net = pl.Sequential([pl.layers.Dense(4), pl.layers.Dense(2)])\n"
        "net.compile('adam', 'mse')\n"
        "x = np.ones((8, 3), 'float32')\n"
        "net.fit(x, np.ones((8, 2), 'float32'), line=line, verbose=0)\n"
        "net.predict(x, line)\n"
        "class Own(pl.Layer):\n"
        "    def call(self, inputs):\n"
        "        return inputs + 1\n"
        "with pl.Eager(line):\n"
        "    own = Own()\n"
        "    own(pl.tensor(x)).numpy()\n"
        "    f = pl.function(lambda a: a * 2)\n"
        "    f(pl.tensor(x)).numpy()\n"
        "i = pl.Input(3)\nmodel = pl.Model(i, Own()(i))\n"
        "data = pl.Dataset.from_generator(lambda: iter([1, 2])).map(lambda v: int(v), traced=False)\n"
        "list(data.as_numpy_iterator())\n"
        "del net, own, f, i, model, data, line, Own\n"
    )
    assert done.returncode == 0, done.stderr
    assert "leak" not in done.stderr, done.stderr

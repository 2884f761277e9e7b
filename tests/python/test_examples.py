from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "python"
MiB = 1 << 20
LINES = {"first": 160, "eager_loop": 160, "refusal": 96, "generator": 160}
SAY = {"first": "accuracy", "eager_loop": "accuracy", "refusal": "too much", "generator": "History of 4 epochs"}


def test_each_example_is_run():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(LINES)


@pytest.mark.parametrize("name", sorted(LINES))
def test_examples_stay_below_their_lines(run_limited, name):
    done = run_limited(LINES[name] * MiB, (FOLDER / f"{name}.py").read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert SAY[name] in done.stdout

"""The programs of examples/python/tf, the line that each runs under, and what it is given."""
import os
from typing import NamedTuple


def make_images(folder, count):
    """A folder of JPEGs in two classes, which a small net tells apart."""
    made = os.path.join(folder, "photos")
    if os.path.isdir(made):
        return made
    here = os.path.dirname(os.path.abspath(__file__))
    for name in ("dark", "light"):
        os.makedirs(os.path.join(made, name))
        with open(os.path.join(here, "tf_images", name + ".jpg"), "rb") as file:
            data = file.read()
        for i in range(count // 2):
            with open(os.path.join(made, name, f"{i:04}.jpg"), "wb") as file:
                file.write(data)
    return made


class Program(NamedTuple):
    name: str
    line: str
    whole: tuple = ()
    small: tuple = ()

    def arguments(self, folder, small):
        if self.name == "04_images":
            return [make_images(folder, 32 if small else 256)]
        return [str(one) for one in (self.small if small else self.whole)]


PROGRAMS = [
    Program("01_session", "96MiB"),
    Program("02_chunks", "96MiB", small=(100_000,)),
    Program("03_function", "96MiB"),
    Program("04_images", "256MiB"),
    Program("05_prune", "160MiB", small=(50,)),
    Program("06_sessions", "96MiB"),
    Program("07_prefetch", "96MiB"),
    Program("08_accumulate", "96MiB"),
    Program("09_half", "96MiB"),
    Program("10_deep", "512MiB", small=(100,)),
    Program("11_constant", "192MiB"),
    Program("12_at_once", "96MiB"),
    Program("13_tape", "128MiB"),
    Program("14_mirrored", "96MiB"),
    Program("15_fit", "96MiB"),
]

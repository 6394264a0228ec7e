"""What a loop that train.py has itself brings to it: one file for each, found by its name."""

from recipec.axes.loops import LOOPS
from recipec.backends.files import file_of
from recipec.backends.loops.loop import LoopCode

CODES: dict[str, LoopCode] = {
    name: file.CODE for name, row in LOOPS.items() if row.own and (file := file_of(__name__, name))
}

__all__ = ["CODES", "LoopCode"]

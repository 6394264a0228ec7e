"""deepspeed_json.py FILE WORLD_SIZE: build DeepSpeed's own configuration from a JSON file; print problems as JSON.

DeepSpeed forbids unknown keys in some blocks and silently ignores them in others. A dictionary that remembers which
keys were looked up shows the ignored ones. "auto" is refused: a bundle states numbers.
"""

from __future__ import annotations

import contextlib
import json
import sys
from unittest import mock


class Watched(dict):
    """A dictionary that remembers what was looked up; handing it over whole counts as reading all of it."""

    def __init__(self, values, path=""):
        super().__init__({k: Watched(v, f"{path}{k}.") if isinstance(v, dict) else v for k, v in values.items()})
        self.path, self.read, self.whole = path, set(), False

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key):
        self.read.add(key)
        return super().__contains__(key)

    def __iter__(self):
        self.whole = True
        return super().__iter__()

    def keys(self):
        self.whole = True
        return super().keys()

    def items(self):
        self.whole = True
        return super().items()

    def __copy__(self):
        return self

    def unread(self) -> list[str]:
        found = []
        for key, value in dict.items(self):
            if key not in self.read:
                found.append(self.path + key)
            elif isinstance(value, Watched) and not value.whole:
                found += value.unread()
        return found


def problems(path: str, world_size: int) -> list[str]:
    """What DeepSpeed says against the file at `path`, or never reads of it."""
    from deepspeed.runtime import config

    with open(path, encoding="utf-8") as file:
        raw = json.load(file)
    watched = Watched(raw)
    ranks = {"get_world_size": lambda *_, **__: world_size, "get_rank": lambda *_, **__: 0}
    try:
        with mock.patch.multiple(config.dist, **ranks):
            config.DeepSpeedConfig(watched)
    except Exception as error:
        return [f"DeepSpeed refuses it: {type(error).__name__}: {' '.join(str(error).split())[:400]}"]
    ignored = [f"{key} is never read by DeepSpeed: it would be ignored" for key in watched.unread()]
    return ignored + [f'{key} is "auto": state the number' for key in autos(raw)]


def autos(block: dict, path: str = "") -> list[str]:
    """The dotted keys whose value is "auto"."""
    found = []
    for key, value in block.items():
        if isinstance(value, dict):
            found += autos(value, f"{path}{key}.")
        elif value == "auto":
            found.append(path + key)
    return found


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = problems(sys.argv[1], int(sys.argv[2]))
    print(json.dumps(answer))

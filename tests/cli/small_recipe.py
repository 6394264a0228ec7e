"""A small recipe, and how to find a line of what it becomes."""

from __future__ import annotations

from pathlib import Path

RECIPE = """\
[recipe]
name = "support"

[goal]
task = "instruct"

[model]
name = "Qwen/Qwen2.5-0.5B-Instruct"

[data]
train = "rows.jsonl"

[hardware]
gpu = "rtx-4090"

[train]
learning_rate = 2e-4
"""


def line_of(file: Path, part: str) -> int:
    """The number of the first line of `file` that holds `part`."""
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if part in line)

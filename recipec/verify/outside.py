"""Data that a bundle reads outside of its data root: in a private copy they are read inside, where rows are written."""

from __future__ import annotations

import ast
import json
from pathlib import Path, PurePosixPath

from recipec.verify.bundle import assigned


def below_root(pattern: str) -> str:
    """The path or glob, or where below the data root its files are written if it names some outside of that."""
    path = PurePosixPath(pattern)
    if not path.is_absolute() and ".." not in path.parts:
        return pattern
    parts = path.relative_to(path.anchor).parts
    return str(PurePosixPath("outside", *("parent" if part == ".." else part for part in parts)))


def bring_inside(script: Path) -> dict[str, str]:
    """Let the prepare_data.py at `script` read below its data root only; each path outside, and what it became."""
    found = outside_paths(script)
    lines = script.read_bytes().splitlines(keepends=True)
    for node in reversed(found):
        line, inside = lines[node.lineno - 1], json.dumps(below_root(node.value), ensure_ascii=False)
        lines[node.lineno - 1] = line[: node.col_offset] + inside.encode() + line[node.end_col_offset :]
    if found:
        script.write_bytes(b"".join(lines))
    return {node.value: below_root(node.value) for node in found}


def outside_paths(script: Path) -> list[ast.Constant]:
    """The paths of sources that lead out of the data root, in the order of the text."""
    stages = assigned(script, "STAGES")
    sources = (node for node in ast.walk(stages) if isinstance(node, ast.Dict)) if stages else ()
    pairs = (pair for source in sources for pair in zip(source.keys, source.values, strict=True))
    paths = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "path"]
    named = [path for path in paths if isinstance(path, ast.Constant) and below_root(path.value) != path.value]
    return sorted(named, key=lambda node: (node.lineno, node.col_offset))

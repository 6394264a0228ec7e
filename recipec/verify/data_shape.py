"""What data a bundle reads, told from its own prepare_data.py: sources, formats and column names."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipec.verify.source import assigned, columns_read, function, literal_keywords

# The order in which each format's converter reads its roles; optional roles are missing when fewer columns are read.
_ROLES = {
    "text": ("text",),
    "instruction": ("instruction", "input", "output"),
    "chat": ("messages",),
    "prompt-completion": ("prompt", "completion"),
    "preference": ("prompt", "chosen", "rejected"),
}
_OPTIONAL = {"instruction": "input", "preference": "prompt"}


@dataclass(frozen=True, slots=True)
class Split:
    """The column that rows are split by, where the recipe names one."""

    column: str
    classes: bool  # every class goes to both sides, so that there must be few of them


@dataclass(frozen=True, slots=True)
class StageData:
    """What one stage reads."""

    stage: str
    format: str
    columns: dict[str, str]  # role -> column
    content: str  # strings | messages | from-value
    sources: tuple[dict[str, Any], ...]  # as prepare_data.py writes them, of all splits
    max_length: int


@dataclass(frozen=True, slots=True)
class BundleData:
    """What the whole bundle reads."""

    stages: tuple[StageData, ...]
    split: Split | None


def bundle_data(script: Path) -> BundleData:
    """The data that the prepare_data.py at `script` reads; raises ValueError when its stages cannot be told."""
    stages = assigned(script, "STAGES")
    if not isinstance(stages, ast.List):
        raise ValueError(f"{script.name} has no list STAGES")
    calls = [node for node in stages.elts if isinstance(node, ast.Call)]
    return BundleData(tuple(_stage(script, literal_keywords(call)) for call in calls), _split(script))


def _stage(script: Path, given: dict[str, Any]) -> StageData:
    format = given["format"]
    converter = function(script, f"from_{format.replace('-', '_')}")
    if converter is None or format not in _ROLES:
        raise ValueError(f"{script.name} has no converter for {format} rows that is known here")
    sources = [source for part in ("train", "eval", "test") for source in given.get(part) or ()]
    columns = _columns(format, columns_read(converter))
    content = _content(format, ast.unparse(converter), "apply_chat_template" in script.read_text(encoding="utf-8"))
    return StageData(given["name"], format, columns, content, tuple(sources), given["max_length"])


def _columns(format: str, read: list[str]) -> dict[str, str]:
    roles = _ROLES[format]
    if len(read) < len(roles):
        roles = tuple(role for role in roles if role != _OPTIONAL.get(format))
    return dict(zip(roles, read, strict=True))


def _content(format: str, converter: str, renders: bool) -> str:
    """Whether answers are strings or messages: a converter that builds messages is given strings."""
    if format == "chat":
        return "from-value" if "['from']" in converter else "messages"
    if format in ("text", "instruction") or "'role'" in converter:
        return "strings"
    return "messages" if renders else "strings"


def _split(script: Path) -> Split | None:
    column = assigned(script, "SPLIT_BY")
    if not isinstance(column, ast.Constant):
        return None
    return Split(column.value, "stratify_by_column" in script.read_text(encoding="utf-8"))

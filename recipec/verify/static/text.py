"""What no emitted file may hold: traces of the machine it was compiled on, and secrets."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from recipec.verify.bundle import Bundle
from recipec.verify.outside import outside_paths
from recipec.verify.report import VerifyReport

_MOMENT = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d")
_SECRET = re.compile(r"\b(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})\b")
_SHORTEST = 5  # characters: a shorter host name or home folder could be any word


def check_text(bundle: Bundle, report: VerifyReport) -> None:
    """Traces and secrets, in every emitted file."""
    report.add("no trace of this machine, no secret", trace_problems(bundle))


def trace_problems(bundle: Bundle) -> list[str]:
    """Lines with a path, host or moment of this machine, or something that looks like a token."""
    named, patterns = _named(bundle), _patterns(bundle)
    return [
        f"{bundle.name_of(path)}:{number}: {reason}"
        for path in bundle.files
        for number, line in enumerate(_lines(path, named), start=1)
        for reason, pattern in patterns
        if pattern.search(line)
    ]


def _lines(path: Path, named: list[str]) -> list[str]:
    """The lines of a file without the paths that the recipe names; Markdown escapes signs of names."""
    text = path.read_text(encoding="utf-8", errors="replace").replace("\\", "")
    for path_of_recipe in named:
        text = text.replace(path_of_recipe, "")
    return text.splitlines()


def _named(bundle: Bundle) -> list[str]:
    """The absolute paths that the recipe itself names, the longest first."""
    try:
        data = {str(node.value) for node in outside_paths(bundle.root / "prepare_data.py")}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        data = set()  # it does not compile, which another check has said
    others = {value for stage in bundle.stages for value in stage.decisions.values() if isinstance(value, str)}
    return sorted((name for name in data | others if Path(name).is_absolute()), key=len, reverse=True)


def _patterns(bundle: Bundle) -> list[tuple[str, re.Pattern[str]]]:
    """What must not be found, with what to say about it."""
    here = {str(Path.home()), str(Path.cwd()), str(bundle.root.resolve()), str(bundle.root.resolve().parent)}
    folders = [(f"names the folder {name}", _word(name)) for name in sorted(here) if len(name) >= _SHORTEST]
    host = socket.gethostname()
    hosts = [(f"names the host {host}", _word(host))] if len(host) >= _SHORTEST else []
    return [*folders, *hosts, ("names a moment", _MOMENT), ("holds something like a token", _SECRET)]


def _word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(text)}(?![\w-])")

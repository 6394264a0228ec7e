"""Small bundles to build, and their folder as data."""

from __future__ import annotations

from pathlib import Path

from recipec.bundle.build import WriteResult, write_bundle
from recipec.bundle.lock import LockInputs
from recipec.render.artifact import Rendered

INPUTS = LockInputs({"recipe.toml": "0" * 64}, {"torch": "2.13.0"})
PLAN = b'{"schema_version": 1}\n'


def rendered(path: str, text: str, executable: bool = False) -> Rendered:
    """A file each of whose lines was decided by the line's own words."""
    lines = {number: (line.strip() or "blank",) for number, line in enumerate(text.splitlines(), 1)}
    return Rendered(path, text, lines, executable)


def build(out: Path, files: dict[str, str], **options: object) -> WriteResult:
    """Build texts by path; launch scripts are executable."""
    emitted = [rendered(path, text, path.startswith("launch/")) for path, text in files.items()]
    return write_bundle(out, emitted, PLAN, INPUTS, **options)  # type: ignore[arg-type]


def tree(out: Path) -> dict[str, tuple[bytes, bool]]:
    """Every file below `out` with its bytes and whether it is executable."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    return {p.relative_to(out).as_posix(): (p.read_bytes(), bool(p.stat().st_mode & 0o100)) for p in files}


def actions(result: WriteResult) -> dict[str, str]:
    return {change.path: str(change.action) for change in result.changes}


def codes(result: WriteResult) -> list[str]:
    return [diagnostic.code for diagnostic in result.diagnostics]

"""The lines of a bundle that its owner edited: as built, as they are, and what the recipe says in their place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recipec.bundle.lines import changed_lines
from recipec.cli.inputs import Records, files_on_disk, open_bundle
from recipec.cli.output import Failure
from recipec.cli.provenance import Document, decisions_of, of_every_line
from recipec.diagnostics.printable import printable
from recipec.units import counted

_SHOWN = 8


def edits_in(out: Path) -> list[Document]:
    """The edited lines; none where the records of the last build cannot be read, which a build mends."""
    try:
        return edited_lines(open_bundle(out))
    except Failure:
        return []


def edited_lines(bundle: Records) -> list[Document]:
    """The lines that the user changed: as built, as they are, and the recipe key that decides them, "" for none."""
    decisions = decisions_of(bundle.plan)
    return [
        {
            "file": path,
            "line": after,
            "built": built.strip(),
            "now": now.strip(),
            "key": _key(bundle, path, before, decisions),
        }
        for path, text in files_on_disk(bundle).items()
        for before, after, built, now in changed_lines(bundle.built[path], text)
    ]


def _key(bundle: Records, path: str, line: int, decisions: Mapping[str, Document]) -> str:
    """The key of the nearest decision on a line of the last build that a recipe can set."""
    own = [id for id in bundle.lines.get(path, {}).get(line, ()) if id not in of_every_line(bundle, path)]
    return next((key for id in own if (key := decisions.get(id, {}).get("key"))), "")


def edits_text(edits: list[Document]) -> list[str]:
    """The lines that differ from what was built, and the key with which the recipe would say the same."""
    if not edits:
        return []
    decided = "; README.md and registry/entry.json show the values as built" * any(edit["key"] for edit in edits)
    rows = [f"  {edit['file']}:{edit['line']}: {edit['built']} -> {edit['now']}{_adopted(edit)}" for edit in edits]
    left = len(rows) - _SHOWN
    more = [f"  and {counted(left, 'more line')}"] if left > 0 else []
    return [f"lines that you edited{decided}:", *map(printable, rows[:_SHOWN]), *more]


def _adopted(edit: Document) -> str:
    return f"  (to keep it in the recipe, set `{edit['key']}`)" if edit["key"] else ""

"""Resolve `extends`: read the recipes that a recipe starts from and lay it over them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.recipe.document import Document, parse
from recipec.recipe.merge import laid_over
from recipec.recipe.paths import is_path, rebased, relative_to
from recipec.recipe.shipped import shipped_recipes
from recipec.recipe.source import Source, read


@dataclass(slots=True)
class Reading:
    """What reading one recipe and all that it extends has seen so far."""

    folder: Path  # of the main recipe; paths are re-expressed relative to it
    report: Report
    sources: list[Source] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Parent:
    """A recipe named by `extends`."""

    path: Path
    shown: str
    asked_at: Place
    shipped: bool = False


def read_whole(path: Path, report: Report) -> tuple[Document | None, tuple[Source, ...]]:
    """Read the recipe at `path` with everything it extends; the document is None when the recipe itself is unusable."""
    reading = Reading(path.parent, report)
    source = read(path, path.as_posix(), report)
    document = _extended(source, reading, ()) if source else None
    return document, tuple(reading.sources)


def _extended(source: Source, reading: Reading, chain: tuple[Source, ...]) -> Document | None:
    """Parse `source` and lay it over its parents; `chain` is how we came here, the main recipe first."""
    reading.sources.append(source)
    document = parse(source, reading.report)
    if document is None:
        return None
    base: Document | None = None
    for parent in _parents(document, reading):
        extended = _read_parent(parent, reading, (*chain, source))
        if extended:
            base = laid_over(base, extended, reading.report) if base else extended
    return laid_over(base, document, reading.report) if base else document


def _read_parent(parent: Parent, reading: Reading, chain: tuple[Source, ...]) -> Document | None:
    identities = [os.path.realpath(source.path) for source in chain]
    if os.path.realpath(parent.path) in identities:
        reading.report.add(_loop(parent, chain[identities.index(os.path.realpath(parent.path)) :]))
        return None
    source = read(parent.path, parent.shown, reading.report, parent.asked_at, shipped=parent.shipped)
    document = _extended(source, reading, chain) if source else None
    if document is None:
        return None
    # A shipped recipe does not know where it is installed: its paths are meant from the recipe that extends it.
    origin = reading.folder if parent.shipped else parent.path.parent
    inherited = {**document.data, "recipe": _without_name(document.data.get("recipe", {}))}
    return Document(document.source, rebased(inherited, origin, chain[-1].folder), document.places)


def _without_name(header: Any) -> Any:
    """Drop what a recipe never inherits."""
    if not isinstance(header, dict):
        return header
    return {key: value for key, value in header.items() if key not in ("name", "extends")}


def _parents(document: Document, reading: Reading) -> Iterator[Parent]:
    """Yield the recipes that `document` names, the first the weakest; wrong types are left for validation."""
    header = document.data.get("recipe")
    value = header.get("extends") if isinstance(header, dict) else None
    entries = value if isinstance(value, list) else [value]
    for index, entry in enumerate(entries):
        if isinstance(entry, str) and entry.strip():
            path = ("recipe", "extends", index) if isinstance(value, list) else ("recipe", "extends")
            parent = _parent(entry, document.source, document.places[path].value, reading.report)
            if parent:
                yield parent


def _parent(name: str, source: Source, asked_at: Place, report: Report) -> Parent | None:
    if is_path(name) or name.endswith(".toml"):
        shown = Path(os.path.normpath(Path(source.shown).parent / name)).as_posix()
        return Parent(source.folder / name, shown, asked_at)
    shipped = shipped_recipes()
    if name in shipped:
        return Parent(shipped[name], f"shipped/{name}.toml", asked_at, shipped=True)
    report.add(_no_shipped_recipe(name, asked_at, list(shipped)))
    return None


def _no_shipped_recipe(name: str, asked_at: Place, known: list[str]) -> Diagnostic:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    help = f"did you mean `{near[0]}`?" if near else "a path ends in .toml; names are those of shipped recipes"
    return Diagnostic("E0007", f"no shipped recipe is called `{name}`", (Label(asked_at),), (help,))


def _loop(parent: Parent, chain: tuple[Source, ...]) -> Diagnostic:
    names = [relative_to(chain[0].folder, source.path) for source in (*chain, chain[0])]
    title = f"`{names[0]}` extends itself"
    return Diagnostic("E0008", title, (Label(parent.asked_at, "closes the loop"),), notes=(" extends ".join(names),))

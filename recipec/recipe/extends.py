"""Resolve `extends`: read the recipes that a recipe starts from, move their paths and lay it over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

import recipec
from recipec.axes import NAMED_MODELS
from recipec.axes.method import ACTED_IN, REWARDS
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.recipe.document import Document, Located, parse
from recipec.recipe.locate import KeyPath
from recipec.recipe.schema import rivals
from recipec.recipe.schema_adapters import ADAPTER_SOURCES, MIX
from recipec.recipe.schema_data import DATA_SOURCES
from recipec.recipe.source import Source, read

MOST_LEVELS = 16  # of recipes that extend each other; an organization, a team and a project are 3
MOST_NAMED = 256  # recipes in all `extends` of a recipe and of those that it extends


class Reading(Struct):
    """What reading one recipe and all that it extends has seen so far."""

    folder: Path  # of the main recipe; paths are re-expressed relative to it
    report: Report
    sources: list[Source] = field(default_factory=list)
    whole: dict[Path, Document | None] = field(default_factory=dict)  # path -> the recipe over all that it extends
    members: dict[str, frozenset[str]] = field(default_factory=dict)  # recipe -> itself and all that it extends
    named: int = 0


class Parent(Struct, frozen=True):
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
    counted: frozenset[str] = frozenset()
    for parent in _parents(document, reading):
        extended = _read_parent(parent, reading, (*chain, source))
        if extended:
            base = laid_over(base, extended, reading.report, siblings=True, counted=counted) if base else extended
            counted |= reading.members[extended.source.shown]
    reading.members[source.shown] = counted | {source.shown}
    widened = reading.report if chain else Report()  # in the recipe itself a policy is refused anyway
    return laid_over(base, document, widened) if base else document


def _read_parent(parent: Parent, reading: Reading, chain: tuple[Source, ...]) -> Document | None:
    reading.named += 1
    if len(chain) > MOST_LEVELS or reading.named > MOST_NAMED:
        if reading.named <= MOST_NAMED + 1:  # all that come after the first are refused for the same reason
            reading.report.add(_too_many(parent, len(chain)))
        return None
    identities = [os.path.realpath(source.path) for source in chain]
    if os.path.realpath(parent.path) in identities:
        reading.report.add(_loop(parent, chain[identities.index(os.path.realpath(parent.path)) :]))
        return None
    document = _whole(parent, reading, chain)
    if document is None:
        return None
    # A shipped recipe does not know where it is installed: its paths are meant from the recipe that extends it.
    origin = reading.folder if parent.shipped else parent.path.parent
    inherited = {**document.data, "recipe": _without_name(document.data.get("recipe", {}))}
    return Document(document.source, rebased(inherited, origin, chain[-1].folder), document.places)


def _whole(parent: Parent, reading: Reading, chain: tuple[Source, ...]) -> Document | None:
    """The parent over all that it extends itself; each recipe is read once, however many ways lead to it."""
    place = Path(os.path.realpath(parent.path.parent)) / parent.path.name
    if place not in reading.whole:
        source = read(parent.path, parent.shown, reading.report, parent.asked_at, shipped=parent.shipped)
        reading.whole[place] = _extended(source, reading, chain) if source else None
    return reading.whole[place]


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
    if name in shipped and (source.folder / f"{name}.toml").is_file():
        report.add(_either(name, asked_at))
        return None
    if name in shipped:
        return Parent(shipped[name], f"shipped/{name}.toml", asked_at, shipped=True)
    report.add(_no_shipped_recipe(name, asked_at, list(shipped), source.folder))
    return None


def _either(name: str, asked_at: Place) -> Diagnostic:
    """A name that is a shipped recipe's, beside a file that is called so, too."""
    label = Label(asked_at, f"also the name of a shipped recipe, and `{name}.toml` is in this folder")
    help = (f'write `extends = "{name}.toml"` for the file', "rename the file to extend the shipped recipe")
    return Diagnostic("E0007", f"`{name}` may be two recipes", (label,), help)


def _names_in(folder: Path) -> list[str]:
    """The files of a folder; a name that is asked for may be longer than any file's."""
    return [path.name for path in folder.glob("*.toml")]


def _no_shipped_recipe(name: str, asked_at: Place, known: list[str], folder: Path) -> Diagnostic:
    from difflib import get_close_matches

    here = f"{name}.toml"
    near = [here] if here in _names_in(folder) else get_close_matches(name, known, n=1)
    help = (
        f"did you mean `{near[0]}`?"
        if near
        else f"write a path with its ending, as in `{name}.toml`; shipped recipes: {', '.join(known)}"
    )
    return Diagnostic("E0007", f"no shipped recipe is called `{name}`", (Label(asked_at),), (help,))


def _loop(parent: Parent, chain: tuple[Source, ...]) -> Diagnostic:
    names = [relative_to(chain[0].folder, source.path) for source in (*chain, chain[0])]
    title = f"`{names[0]}` extends itself"
    return Diagnostic(
        "E0008",
        title,
        (Label(parent.asked_at, "extends a recipe that is already being read"),),
        notes=(" extends ".join(names),),
    )


def _too_many(parent: Parent, level: int) -> Diagnostic:
    if level > MOST_LEVELS:
        title, label = f"recipes extend each other more than {MOST_LEVELS} levels deep", f"level {level}"
    else:
        title, label = f"a recipe extends more than {MOST_NAMED} others in all", "one too many"
    help = ("merge recipes: write the keys of those at the end of the line into one file",)
    return Diagnostic("E0009", title, (Label(parent.asked_at, label),), help)


# Tables that are one statement: they are replaced whole.
_ONE_STATEMENT = {("data", name) for name in (*DATA_SOURCES, "split")}


def laid_over(
    base: Document, over: Document, report: Report, siblings: bool = False, counted: Collection[str] = ()
) -> Document:
    """Return `base` with `over`'s keys on top; each value keeps the place where it was written.

    A key also takes the place of those that it excludes (`epochs` that of `max_steps`), so that a recipe can choose
    the other way. [policy] may only be narrowed: E0404. Of `siblings`, which one recipe extends, the narrower limit
    holds. What `over` has of files that `base` has `counted` says nothing anew: what came over it there stays.
    """
    merged = _Merged(dict(base.places), report, siblings, counted)
    data = merged.tables(base.data, over.data, over.places, ())
    own = {path: at for path, at in over.places.items() if merged.passed_over.isdisjoint(_ways(path))}
    return Document(over.source, data, merged.kept_places() | own)


class _Merged:
    def __init__(
        self, places: dict[KeyPath, Located], report: Report, siblings: bool, counted: Collection[str]
    ) -> None:
        self.places = places
        self.report = report
        self.siblings = siblings
        self.counted = counted
        self.passed_over: set[KeyPath] = set()  # what is counted, and limits of a sibling that a later one would widen
        self.replaced: set[KeyPath] = set()

    def tables(self, base: dict[str, Any], over: dict[str, Any], above: Any, path: KeyPath) -> dict[str, Any]:
        data = dict(base)
        for key, value in over.items():
            here, old = (*path, key), data.get(key)
            is_table = isinstance(old, dict) and isinstance(value, dict) and here not in _ONE_STATEMENT
            if self.counted and not is_table and above[here].value.file in self.counted:
                self.passed_over.add(here)
                continue
            for rival in rivals(here, value):
                if rival[:-1] == path and rival[-1] not in over:
                    data.pop(rival[-1], None)
                    self.replaced.add(rival)
            if is_table:
                data[key] = self.tables(old, value, above, here)
                continue
            if path == ("policy",) and old is not None and self.siblings and narrows(value, old):
                self.passed_over.add(here)
                continue
            if path == ("policy",) and old is not None and not narrows(old, value):
                self.report.add(_widened(here, self.places[here], above[here]))
            data[key] = value
            self.replaced.add(here)
        return data

    def kept_places(self) -> dict[KeyPath, Located]:
        """The places of what is not replaced."""
        return {path: at for path, at in self.places.items() if self.replaced.isdisjoint(_ways(path))}


def _ways(path: KeyPath) -> Iterator[KeyPath]:
    """The path and those of the tables around it."""
    return (path[:length] for length in range(1, len(path) + 1))


def narrows(old: Any, new: Any) -> bool:
    """Tell whether limit `new` allows nothing that limit `old` forbids; wrong types are left for validation."""
    if isinstance(old, list) and isinstance(new, list):
        return all(entry in old for entry in new)
    if isinstance(old, int | float) and isinstance(new, int | float):
        return new <= old
    return True


def _widened(path: KeyPath, old: Located, new: Located) -> Diagnostic:
    labels = (Label(new.value, "allows more"), Label(old.value, "the limit"))
    title = f"`{path[-1]}` in [policy] is wider than the policy it extends"
    return Diagnostic("E0404", title, labels, ("a recipe that extends a policy can tighten it, not relax it",))


_NAME_OR_PATH = (("model", "name"), ("model", "like"), ("model", "init_from"), ("data", "template"))
_PATH_PREFIXES = ("./", "../", "/")


def is_path(text: str) -> bool:
    """Tell a path from a name, where either could stand."""
    return text.startswith(_PATH_PREFIXES)


def relative_to(folder: Path, path: Path) -> str:
    """Return `path` as seen from `folder`, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def rebased(data: dict[str, Any], origin: Path, target: Path) -> dict[str, Any]:
    """Return `data` with the relative paths that were written in folder `origin` rewritten for folder `target`."""

    def move(path: str) -> str:
        return path if os.path.isabs(path) or path.startswith("~") else relative_to(target, origin / path)

    def move_if_path(text: str) -> str:
        if not is_path(text):
            return text
        moved = move(text)
        return moved if is_path(moved) else f"./{moved}"

    data = {name: dict(section) if isinstance(section, dict) else section for name, section in data.items()}
    for section, name in _NAME_OR_PATH:
        _apply(data, section, name, lambda value: move_if_path(value) if isinstance(value, str) else value)
    _apply(data, "budget", "prices", lambda value: move(value) if isinstance(value, str) else value)
    _apply(data, "model", "new_tokens", lambda value: move(value) if isinstance(value, str) else value)
    _apply(data, "hardware", "measured", lambda value: move(value) if isinstance(value, str) else value)
    for name in DATA_SOURCES:
        _apply(data, "data", name, lambda value: _moved(value, {"path": move}))
    data |= _with_moved_adapters(data.get("adapters"), move)
    for name in ADAPTER_SOURCES:
        _apply(data, MIX.asked_in, name, lambda value: _moved(value, {"path": move}))
    for name in NAMED_MODELS:
        _apply(data, "alignment", name, lambda value: _moved(value, {"name": move_if_path, "like": move_if_path}))
    rewards = {"function": lambda text: _moved_function(text, move), "model": move_if_path, "like": move_if_path}
    _apply(data, "alignment", REWARDS, lambda value: _moved(value, rewards))
    for name in ACTED_IN:
        _apply(data, "alignment", name, lambda value: _moved(value, {"": rewards["function"]}))
    return data


def _with_moved_adapters(adapters: Any, move: Callable[[str], str]) -> dict[str, Any]:
    """The list [[adapters]] with the paths of its data moved; other shapes are left for validation."""
    if not isinstance(adapters, list):
        return {}
    tables = [dict(table) if isinstance(table, dict) else table for table in adapters]
    for table in tables:
        for name in ADAPTER_SOURCES if isinstance(table, dict) else ():
            if name in table:
                table[name] = _moved(table[name], {"path": move})
    return {"adapters": tables}


def _apply(data: dict[str, Any], section: str, name: str, change: Callable[[Any], Any]) -> None:
    table = data.get(section)
    if isinstance(table, dict) and name in table:
        table[name] = change(table[name])


def _moved(value: Any, moves: Mapping[str, Callable[[str], str]]) -> Any:
    """Move a statement of any shape: a text is its first key's. What has none is left for validation to refuse."""
    if isinstance(value, str):
        return next(iter(moves.values()))(value)
    if isinstance(value, list):
        return [_moved(entry, moves) for entry in value]
    if isinstance(value, dict):
        return value | {key: move(value[key]) for key, move in moves.items() if isinstance(value.get(key), str)}
    return value


def _moved_function(text: str, move: Callable[[str], str]) -> str:
    """A function that is named as FILE:NAME."""
    file, colon, name = text.rpartition(":")
    return f"{move(file)}:{name}" if colon and file else text


def shipped_recipes_folder() -> Path:
    """Return the folder of the shipped recipes: inside the installed package, or `recipes/` of the repository."""
    package = Path(recipec.__file__).parent
    installed = package / "_recipes"
    return installed if installed.is_dir() else package.parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Return the shipped recipes by name."""
    return {path.stem: path for path in sorted(shipped_recipes_folder().glob("*.toml"))}

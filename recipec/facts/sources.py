"""Look at the files that [data] names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from recipec.characters import forbidden_in_string, why_forbidden
from recipec.dataset import (
    ENDINGS,
    MOST_LISTED,
    Converted,
    DataShape,
    ReadAs,
    Row,
    RowFault,
    Sample,
    Unreadable,
    by_kind,
    found_files,
    globs_in,
    read_sample,
    turns_of,
    walks_everything,
    without_nul,
)
from recipec.dataset.commands import file_of
from recipec.dataset.rows import NUL
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.hub_source import source_of_hub
from recipec.facts.row_faults import unusable
from recipec.facts.working_folder import path_from_recipe
from recipec.files import why_no_file
from recipec.recipe import LoadedRecipe
from recipec.recipe.foreign_values import share_meant
from recipec.recipe.schema_data import DataSource
from recipec.units import counted

SKIP = "skip"  # value of data.opening_answers and data.incomplete
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")  # s3://, gs://, https://
_STATED = ("format", "examples", "tokens_per_example")  # what a plan needs to know of rows
_NOTE = "recipec plans with `data.format`, `data.examples` and `data.tokens_per_example`, and reads no row"
_HELP = "correct the path, or run `recipec check` where the data are"


class SampledSource(Struct, frozen=True):
    """A source of a part of the data, and what was seen of it."""

    part: str  # of the data
    given: DataSource  # as the recipe writes it
    place: Place
    sample: Sample | None  # None where it is not read at compile time
    shape: DataShape | None = None  # of its rows, once that is told
    made: tuple[Converted, ...] = ()  # what becomes of each sampled row, once that is told
    # Sampled rows that preparation leaves out, and that are in no other field:
    unanswered: tuple[str, ...] = ()  # the places of those without an answer
    incomplete: tuple[str, ...] = ()  # what those lack that are left out because the recipe says so
    read: tuple[str, ...] = ()  # the places of all, where some are left out

    @property
    def weight(self) -> float:
        return self.given.weight or 1.0

    @property
    def name(self) -> str:
        return self.given.path or str(self.given.hub)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Those that were sampled, of those that are taken."""
        return self.sample.rows[: self.given.take] if self.sample else ()

    @property
    def places(self) -> list[str]:
        """ "train.jsonl:3" for every sampled row."""
        return self.sample.places[: self.given.take] if self.sample else []

    @property
    def looked_at(self) -> Sequence[str]:
        """The places of all rows that were sampled, with those that are left out as they are converted."""
        return self.read or self.places


def states_rows(loaded: LoadedRecipe) -> bool:
    """Whether the recipe states what a plan needs of its rows: a plan can then be made where they are not."""
    return all(loaded.is_set("data", key) for key in _STATED)


def sources_of(loaded: LoadedRecipe, part: str, report: Report) -> list[SampledSource] | None:
    """Return the sources of data.PART, each with a sample where it is read at compile time; None with E0303 or E0304.

    Files that are not here are no error where the recipe states what they hold: W0518.
    """
    own = Report()
    sources = enumerate(getattr(loaded.recipe.data, part))
    looked = [
        SampledSource(part, source, place := loaded.place("data", part, index), _look(loaded, part, source, place, own))
        for index, source in sources
    ]
    for finding in own.diagnostics:
        report.add(finding)
    if own.has_errors:
        return None
    for finding in _of_broken(part, looked):
        report.add(finding)
    return looked


def _of_broken(part: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0304 for rows that hold what no text should; those of the others are looked at as if these were not."""
    for source in sources:
        if broken := source.sample.broken if source.sample else ():
            faults = [
                RowFault(place, f"it holds {held}", help=tuple(without_nul(place) if held == NUL else ()))
                for place, held in broken
            ]
            yield unusable(part, source.place, faults, len(source.rows) + len(broken))


def rows_of(sources: list[SampledSource]) -> list[Row]:
    """Every sampled row."""
    return [row for source in sources for row in source.rows]


def places_of(sources: list[SampledSource]) -> list[str]:
    """ "train.jsonl:3" for every sampled row."""
    return [place for source in sources for place in source.places]


def _look(loaded: LoadedRecipe, part: str, source: DataSource, place: Place, report: Report) -> Sample | None:
    """A sample of one source; None for a source that cannot be read here, or with a diagnostic."""
    if source.hub is not None or source.path is None:
        if states_rows(loaded) and loaded.recipe.data.ignore is None:  # else W0509 says so, or the recipe was told
            report.add(_of_hub(source, place))
        return None
    if walks_everything(source.path, loaded.folder):
        report.add(_of_everything(source.path, place))
        return None
    found = found_files(source.path, loaded.folder)
    if found.of_bundles:
        report.add(_of_bundles(source.path, found.of_bundles, loaded.folder, place))
    if found.gone:
        report.add(_of_links(source.path, found.gone, loaded.folder, place))
        return None
    if not found.files:
        report.add(_no_files(loaded, part, source.path, place))
        return None
    reading = ReadAs(loaded.recipe.data.ignore or (), _times(loaded), first_alone=source.take is not None)
    try:
        sample = read_sample(found.files, source.path, loaded.folder, reading)
    except Unreadable as error:
        report.add(Diagnostic("E0304", f"`{error.where}` cannot be used", (Label(place, error.reason),), error.help))
        return None
    if sample and (odd := next(_forbidden_names(sample), None)):
        report.add(_forbidden(*odd, place))
    return _without_empty(sample) if sample and loaded.recipe.data.incomplete == SKIP else sample


def _without_empty(sample: Sample) -> Sample:
    """The sample with nothing in the empty fields of CSV files, as preparation reads them where it skips rows."""
    placed = zip(sample.rows, sample.places, strict=True)
    rows = tuple(_present(row) if file_of(place).endswith(".csv") else row for row, place in placed)
    return replace(sample, rows=rows)


def _present(row: Row) -> Row:
    return {name: None if value == "" else value for name, value in row.items()}


def _times(loaded: LoadedRecipe) -> list[str]:
    """The column that holds the times of rows, where they are split by it."""
    time = (loaded.value("data", "split") or {}).get("time")
    return [time] if time else []


def _forbidden_names(sample: Sample) -> Iterator[tuple[str, str, str]]:
    """The place of a row, a name in it that no emitted file can hold, and the character that forbids it."""
    seen: set[str] = set()
    for where, row in zip(sample.places, sample.rows, strict=True):
        names = {*row, *(name for value in row.values() for turn in turns_of(value) for name in turn)} - seen
        yield from ((where, name, found) for name in sorted(names) if (found := forbidden_in_string(name)))
        seen |= names


def _forbidden(where: str, name: str, character: str, place: Place) -> Diagnostic:
    said = f"the name {name!a:.60} holds the forbidden character U+{ord(character):04X}"
    help = ("rename the column, or the field of the messages",)
    return Diagnostic("E0304", f"`{where}` cannot be used", (Label(place, said),), help, (why_forbidden(character),))


def _of_everything(path: str, place: Place) -> Diagnostic:
    label = Label(place, "`**` begins at the root of the file system")
    help = ('name the folder that holds the files before it: "/data/**/*.jsonl"',)
    return Diagnostic("E0303", f"`{path}` names files in every folder of this machine", (label,), help)


def _of_links(path: str, links: list[Path], folder: Path, place: Place) -> Diagnostic:
    first = Path(os.path.relpath(links[0], folder)).as_posix()
    label = Label(place, f"matches {counted(len(links), 'link')} to files that are not here, such as {first}")
    help = ("fetch the files (`dvc pull`, `git annex get`), or remove the links",)
    return Diagnostic("E0303", f"`{path}` names files that are not on this machine", (label,), help)


def _of_bundles(path: str, files: list[Path], folder: Path, place: Place) -> Diagnostic:
    first = Path(os.path.relpath(files[0], folder)).as_posix()
    label = Label(place, f"matches {counted(len(files), 'file')} in folders that recipec built, such as {first}")
    help = ("name the folder of your data before the first `*`, or build outside the folders that the glob matches",)
    note = "a bundle holds rows that it has prepared from these sources: training would see them again"
    return Diagnostic("W0551", f"`{path}` does not read files of bundles", (label,), help, (note,))


def _of_hub(source: DataSource, place: Place) -> Diagnostic:
    label = Label(place, "recipec reads no data set of the Hub")
    help = (
        'name the columns that training is to leave out, as in `ignore = ["id"]` under [data]',
        "if no column is to be left out, write `ignore = []`: prepare_data.py refuses columns that nothing reads",
    )
    return Diagnostic("W0518", f"the rows of `{source.hub}` are not checked", (label,), help, (_NOTE,))


def _named_alike(path: str, folder: Path) -> list[str]:
    """The data file in the folder of a missing one whose name is nearest, as the recipe would write it."""
    parent = Path(path).parent
    try:
        found = [file.name for file in islice((folder / parent).iterdir(), MOST_LISTED) if file.suffix in ENDINGS]
    except (OSError, ValueError):
        return []
    return [(parent / name).as_posix() for name in get_close_matches(Path(path).name, sorted(found), 1)]


def _of_home(path: str, place: Place) -> Diagnostic:
    """A path that a shell would expand; a bundle may run where the home folder is another one."""
    label = Label(place, "`~` stands for a home folder in a shell alone")
    help = (f'write the whole path, here "{os.path.expanduser(path)}", or one from the recipe\'s folder',)
    return Diagnostic("E0303", f"data file `{path}` does not exist", (label,), help)


def _no_files(loaded: LoadedRecipe, part: str, path: str, place: Place) -> Diagnostic:
    globs = globs_in(path, loaded.folder)
    if scheme := _REMOTE.match(path):
        label = Label(place, f"{scheme[0]} is not read, here or by prepare_data.py")
        help = ('copy the files to a folder, or put them on the Hugging Face Hub: { hub = "owner/name" }',)
        help = source_of_hub(loaded, part, path) or help
        return Diagnostic("E0303", f"data file `{path}` is not on this machine", (label,), help)
    if path.startswith("~"):
        return _of_home(path, place)
    if odd := why_no_file(loaded.folder / path):
        label = Label(place, "prepare_data.py reads regular files alone")
        return Diagnostic("E0303", f"`{path}` {odd}", (label,), ("copy what it holds to a file, and name that",))
    if globs is None:
        where = "" if Path(path).is_absolute() else f" in {loaded.folder}"
        label = Label(place, f"no file matches{where}" if set(path) & set("*?[") else f"no such file{where}")
        if states_rows(loaded):
            return Diagnostic("W0518", f"the rows of `{path}` are not checked", (label,), (_HELP,), (_NOTE,))
        help = share_meant(part, path) or path_from_recipe(path, loaded.folder)
        near = tuple(f"did you mean `{near}`?" for near in _named_alike(path, loaded.folder))
        help = help or (*(near or source_of_hub(loaded, part, path)), _elsewhere(loaded))
        return Diagnostic("E0303", f"data file `{path}` does not exist", (label,), help)
    named = " or ".join(json.dumps(kind, ensure_ascii=False) for kind in by_kind(globs, loaded.folder))
    help = [f"name its files: {named}"] if globs else []
    endings = " and ".join(sorted({Path(glob).suffix for glob in globs}))
    below = " in folders of its own" * ("**" in "".join(globs))
    label = Label(place, f"holds {endings} files{below}" if globs else f"holds no data files ({', '.join(ENDINGS)})")
    return Diagnostic("E0303", f"`{path}` is a folder, not a data file", (label,), tuple(help))


def _elsewhere(loaded: LoadedRecipe) -> str:
    """What a recipe still has to state of rows on another machine."""
    missing = [f"`data.{key}`" for key in _STATED if not loaded.is_set("data", key)]
    listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    return f"if the rows are on another machine, also set {listed}: recipec then plans without reading a row"


def all_read(sources: Sequence[SampledSource]) -> bool:
    """Whether every row that is taken was read, whatever number of them the recipe states."""
    return all(source.sample and _read_whole(source, source.sample) for source in sources)


def _read_whole(source: SampledSource, sample: Sample) -> bool:
    read, take = len(source.looked_at), source.given.take
    return (take is not None and take <= read) or (
        sample.counted and sample.total_rows <= len(source.rows) + len(source.unanswered)
    )


def states_counts(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> bool:
    """Whether the recipe states how many rows there are, so that a plan is made for as many."""
    return loaded.is_set("data", "examples") or some_state_counts(sources)


def some_state_counts(sources: Sequence[SampledSource]) -> bool:
    """Whether a source states how many rows it has."""
    return any(source.given.examples for source in sources)

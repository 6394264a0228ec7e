"""Look at the files that [data] names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from msgspec import Struct

from recipec.dataset import (
    ENDINGS,
    Converted,
    DataShape,
    ReadAs,
    Row,
    Sample,
    Unreadable,
    endings_in,
    files_of,
    may_be_on_hub,
    read_sample,
    turns_of,
    walks_everything,
)
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import DataSource
from recipec.recipe.source import forbidden_in_string, why_forbidden

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
    unanswered: tuple[str, ...] = ()  # places of sampled rows that preparation leaves out, which are in no other field

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
        SampledSource(part, source, place := loaded.place("data", part, index), _look(loaded, source, place, own))
        for index, source in sources
    ]
    for finding in own.diagnostics:
        report.add(finding)
    return None if own.has_errors else looked


def rows_of(sources: list[SampledSource]) -> list[Row]:
    """Every sampled row."""
    return [row for source in sources for row in source.rows]


def places_of(sources: list[SampledSource]) -> list[str]:
    """ "train.jsonl:3" for every sampled row."""
    return [place for source in sources for place in source.places]


def _look(loaded: LoadedRecipe, source: DataSource, place: Place, report: Report) -> Sample | None:
    """A sample of one source; None for a source that cannot be read here, or with a diagnostic."""
    if source.hub is not None or source.path is None:
        if states_rows(loaded) and loaded.recipe.data.ignore is None:  # else W0509 says so, or the recipe was told
            report.add(_of_hub(source, place))
        return None
    if walks_everything(source.path, loaded.folder):
        report.add(_of_everything(source.path, place))
        return None
    files = files_of(source.path, loaded.folder)
    if not files:
        report.add(_no_files(loaded, source.path, place))
        return None
    reading = ReadAs(loaded.recipe.data.ignore or (), _times(loaded), first_alone=source.take is not None)
    try:
        sample = read_sample(files, source.path, loaded.folder, reading)
    except Unreadable as error:
        report.add(Diagnostic("E0304", f"`{error.where}` cannot be used", (Label(place, error.reason),), error.help))
        return None
    if sample and (odd := next(_forbidden_names(sample), None)):
        report.add(_forbidden(*odd, place))
    return sample


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


def _of_hub(source: DataSource, place: Place) -> Diagnostic:
    label = Label(place, "recipec reads no data set of the Hub")
    help = (
        'name the columns that training is to leave out, as in `ignore = ["id"]` under [data]',
        "if no column is to be left out, write `ignore = []`: prepare_data.py refuses columns that nothing reads",
    )
    return Diagnostic("W0518", f"the rows of `{source.hub}` are not checked", (label,), help, (_NOTE,))


_MOST_LISTED = 10_000  # files of a folder that are compared


def _named_alike(path: str, folder: Path) -> list[str]:
    """The data file in the folder of a missing one whose name is nearest, as the recipe would write it."""
    parent = Path(path).parent
    try:
        found = [file.name for file in islice((folder / parent).iterdir(), _MOST_LISTED) if file.suffix in ENDINGS]
    except (OSError, ValueError):
        return []
    return [(parent / name).as_posix() for name in get_close_matches(Path(path).name, sorted(found), 1)]


def _of_home(path: str, place: Place) -> Diagnostic:
    """A path that a shell would expand; a bundle may run where the home folder is another one."""
    label = Label(place, "`~` stands for a home folder in a shell alone")
    help = (f'write the whole path, here "{os.path.expanduser(path)}", or one from the recipe\'s folder',)
    return Diagnostic("E0303", f"data file `{path}` does not exist", (label,), help)


def _no_files(loaded: LoadedRecipe, path: str, place: Place) -> Diagnostic:
    endings = endings_in(path, loaded.folder)
    if scheme := _REMOTE.match(path):
        label = Label(place, f"{scheme[0]} is not read, here or by prepare_data.py")
        named = re.search(r"huggingface\.co/datasets/([\w.-]+/[\w.-]+)", path)
        help = ('copy the files to a folder, or put them on the Hugging Face Hub: { hub = "owner/name" }',)
        help = (f'for this data set of the Hub, write {{ hub = "{named[1]}" }}',) if named else help
        return Diagnostic("E0303", f"data file `{path}` is not on this machine", (label,), help)
    if path.startswith("~"):
        return _of_home(path, place)
    if endings is None:
        where = "" if Path(path).is_absolute() else f" in {loaded.folder}"
        label = Label(place, f"no file matches{where}" if set(path) & set("*?[") else f"no such file{where}")
        if states_rows(loaded):
            return Diagnostic("W0518", f"the rows of `{path}` are not checked", (label,), (_HELP,), (_NOTE,))
        hub = [f'for a data set of the Hub, write {{ hub = "{path}" }}'] if may_be_on_hub(path) else []
        help = [f"did you mean `{near}`?" for near in _named_alike(path, loaded.folder)] or hub
        return Diagnostic("E0303", f"data file `{path}` does not exist", (label,), tuple(help))
    globs = [f'"{path.rstrip("/")}/*{ending}"' for ending in endings]
    help = [f"name its files: {' or '.join(globs)}"] if globs else []
    held = f"holds {' and '.join(endings)} files" if endings else "holds no data files"
    return Diagnostic("E0303", f"`{path}` is a folder, not a data file", (Label(place, held),), tuple(help))

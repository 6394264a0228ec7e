"""Look at the files that [data] names."""

from __future__ import annotations

import re
from pathlib import Path

from recipec.dataset import ENDINGS, Sample, Unreadable, endings_in, files_of, read_sample
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.recipe import LoadedRecipe

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]*[\w-]")  # owner/name
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")  # s3://, gs://, https://
_STATED = ("format", "examples", "tokens_per_example")  # what a plan needs to know of rows
_NOTE = "recipec plans with `data.format`, `data.examples` and `data.tokens_per_example`, and reads no row"
_HELP = "correct the path, or run `recipec check` where the data are"


def states_rows(loaded: LoadedRecipe) -> bool:
    """Whether the recipe states what a plan needs of its rows: a plan can then be made where they are not."""
    return all(loaded.is_set("data", key) for key in _STATED)


def samples_of(loaded: LoadedRecipe, part: str, report: Report) -> list[Sample] | None:
    """Return a sample of every source of data.PART that is read at compile time; None with E0303 or E0304.

    Files that are not here are no error where the recipe states what they hold: W0518.
    """
    own = Report()
    sources = range(len(getattr(loaded.recipe.data, part)))
    looked = [_look(loaded, part, index, own) for index in sources]
    for finding in own.diagnostics:
        report.add(finding)
    if own.has_errors:
        return None
    return [sample for sample in looked if sample is not None]


def places_of(samples: list[Sample]) -> list[str]:
    """Return "train.jsonl:3" for every sampled row."""
    return [f"{sample.file}:{line}" for sample in samples for line in sample.lines]


def _look(loaded: LoadedRecipe, part: str, index: int, report: Report) -> Sample | None:
    """A sample of one source; None for a source that cannot be read here, or with a diagnostic."""
    source = getattr(loaded.recipe.data, part)[index]
    if source.hub is not None:
        return None
    files = files_of(source.path, loaded.folder)
    place = loaded.place("data", part, index)
    if not files:
        report.add(_no_files(loaded, source.path, place))
        return None
    try:
        return read_sample(files, source.path)
    except Unreadable as error:
        report.add(Diagnostic("E0304", f"`{error.where}` cannot be used", (Label(place, error.reason),)))
        return None


def _no_files(loaded: LoadedRecipe, path: str, place: Place) -> Diagnostic:
    endings = endings_in(path, loaded.folder)
    if scheme := _REMOTE.match(path):
        label = Label(place, f"{scheme[0]} is not read, here or by prepare_data.py")
        help = ('copy the files to a folder, or put them on the Hugging Face Hub: { hub = "owner/name" }',)
        return Diagnostic("E0303", f"data file `{path}` is not on this machine", (label,), help)
    if endings is None:
        label = Label(place, f"no such file in {loaded.folder}")
        if states_rows(loaded):
            return Diagnostic("W0518", f"the rows of `{path}` are not checked", (label,), (_HELP,), (_NOTE,))
        on_hub = _HUB_ID.fullmatch(path) and Path(path).suffix not in ENDINGS
        hub = (f'for the data set of the hub: {{ hub = "{path}" }}',) if on_hub else ()
        return Diagnostic("E0303", f"data file `{path}` does not exist", (label,), hub)
    globs = [f'"{path.rstrip("/")}/*{ending}"' for ending in endings]
    help = [f"name its files: {' or '.join(globs)}"] if globs else []
    held = f"holds {' and '.join(endings)} files" if endings else "holds no data files"
    return Diagnostic("E0303", f"`{path}` is a folder, not a data file", (Label(place, held),), tuple(help))

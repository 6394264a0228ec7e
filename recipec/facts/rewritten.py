"""The files that commands of findings write: none that is there, and what to do with them.

Where a glob of the recipe reads the old file, it would read both. Where commands of two findings rewrite the same file,
the second is to read what the first has written.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import count
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import SECTIONS
from recipec.dataset.commands import free_name, to_free_name, written_by
from recipec.dataset.files import files_of, is_glob
from recipec.diagnostics.model import Diagnostic
from recipec.facts.held_out import PARTS
from recipec.recipe import LoadedRecipe

_PARQUET, _JSON, _LINES = ".parquet", ".json", ".jsonl"
_BARE = re.compile(r"[\w-]+", re.ASCII)  # a key that TOML takes without quotes
_OF_WHOLE = ("take", "examples")  # keys of a source that count the rows of all its files together


class _Read(Struct, frozen=True):
    """A file that a glob of the recipe reads, as commands name it."""

    loaded: LoadedRecipe  # of the task that names the glob
    part: str  # of the data
    at: int  # the source among those of the part
    pattern: str
    old: str
    alone: bool  # the only file of its glob

    def steps(self, new: str) -> str:
        """What is to be done once a command has written the new file."""
        kept = self._kept()
        away = f"mv {shlex.quote(self.old)} {shlex.quote(kept)}"
        if not (put := _in_place(new, self.old)):
            return f"then take the old file out of `{self.pattern}`: `{away}`, and {self._named(new)}"
        done = f"then put the new file in place of the old one, as `{self.pattern}` reads it"
        return f"{done}; `{kept}` keeps the old rows: `{away} && {put}`"

    def _kept(self) -> str:
        """A free name for the old file that the glob does not match; the sign for all matches no hidden file."""
        path = PurePosixPath(self.old)
        hides = "." * fnmatchcase(f"{path.name}.old", PurePosixPath(self.pattern).name)
        names = (str(path.with_name(f"{hides}{path.name}.old{number or ''}")) for number in count())
        return next(name for name in names if not (self.loaded.folder / name).exists())

    def _named(self, new: str) -> str:
        """How the recipe names a new file of another kind, in a source with the keys of the glob's."""
        written = self.loaded.value("data", self.part)
        sources = [*written] if isinstance(written, list) else [written]
        source = sources[self.at]
        paths = (new,) if self.alone else (self._others(), new)
        sources[self.at : self.at + 1] = [_with_path(source, path) for path in paths]
        where = f"for `{self.loaded.task}`" if self.loaded.task else "under [data]"
        counted = [] if self.alone or isinstance(source, str) else [f"`{key}`" for key in _OF_WHOLE if key in source]
        shared = f"; divide {' and '.join(counted)} between both of its entries" if counted else ""
        return f"write `{self.part} = {_toml(sources)}` {where}{shared}"

    def _others(self) -> str:
        """The glob of the other files, which does not match the new one: a source has one kind."""
        return f"{self.pattern}{PurePosixPath(self.old).suffix}" if self.pattern.endswith("*") else self.pattern


def with_new_files(loaded: LoadedRecipe, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings, whose commands write files that are not there yet, with what is to be done once they are."""
    found = [replace(one, help=tuple(to_free_name(line, loaded.folder) for line in one.help)) for one in diagnostics]
    return _one_after_another(_with_old_files_gone(loaded, found))


def _one_after_another(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings; those with a command for a file for which one before them has another command say so."""
    first: dict[str, tuple[str, set[str]]] = {}  # file -> the code of the first finding that writes it, and its lines
    told = []
    for one in diagnostics:
        lines = {file: {line for line in one.help if written_by(line) == file} for file in map(written_by, one.help)}
        others = [file for file, own in lines.items() if file and not own <= first.get(file, ("", own))[1]]
        told.append(replace(one, help=(*one.help, *(_after(first[file][0], file) for file in others))))
        first |= {file: (one.code, own) for file, own in lines.items() if file not in first}
    return told


def _after(code: str, file: str) -> str:
    return (
        f"{code} also prints a command that writes {file}: run one of both, let the recipe read the new file, and run "
        "recipec again, which prints the other command for the new file"
    )


def _with_old_files_gone(loaded: LoadedRecipe, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings; behind commands that rewrite a file of a glob, what has the recipe read the new file alone."""
    ends = {line: written_by(line) for one in diagnostics for line in one.help}
    rewritten = _rewritten(loaded) if any(ends.values()) else {}
    found = [[ends[line] for line in one.help if ends[line] in rewritten] for one in diagnostics]
    steps = [dict.fromkeys(read.steps(new) for read, new in map(rewritten.__getitem__, each)) for each in found]
    return [replace(one, help=(*one.help, *told)) for one, told in zip(diagnostics, steps, strict=True)]


def _rewritten(loaded: LoadedRecipe) -> Mapping[str, tuple[_Read, str]]:
    """The files that commands write for those of the globs, as the shell has their names: each with what it is for."""
    new_files = ((read, free_name(new, loaded.folder)) for read in _read(loaded) for new in _written(read.old))
    return {shlex.quote(new): (read, new) for read, new in new_files}


def _read(loaded: LoadedRecipe) -> Iterator[_Read]:
    for task in loaded.tasks.values():
        for part in (*SECTIONS, *PARTS):
            for at, source in enumerate(getattr(task.recipe.data, part) or ()):
                files = files_of(source.path, task.folder) if source.path and is_glob(source.path) else []
                for file in files:
                    near = file.is_relative_to(task.folder)
                    old = (file.relative_to(task.folder) if near else file).as_posix()
                    yield _Read(task, part, at, source.path or "", old, len(files) == 1)


def _written(old: str) -> set[str]:
    """The files that a command may write for one."""
    path = PurePosixPath(old)
    stem = old.removesuffix(path.suffix)
    return {f"{stem}.new{path.suffix}", f"{stem}.new{_LINES}", f"{old}.new"}


def _in_place(new: str, old: str) -> str:
    """The command that puts a file under the name of the old one; "" for a kind that this name does not go with."""
    kind, made = PurePosixPath(old).suffix, PurePosixPath(new).suffix
    if kind == _PARQUET:
        return _as_parquet(new, old)
    fits = made in (kind, ".new") or (kind, made) == (_JSON, _LINES)  # a file named .json may hold a row a line
    return f"mv {shlex.quote(new)} {shlex.quote(old)}" * fits


def _as_parquet(new: str, old: str) -> str:
    """The command that writes JSON lines as Parquet, and removes them."""
    read, written = (json.dumps(file, ensure_ascii=False) for file in (new, old))
    rows = f'[json.loads(line) for line in open({read}, "rb")]'
    program = "import json, pyarrow, pyarrow.parquet as parquet; "
    program += f"parquet.write_table(pyarrow.Table.from_pylist({rows}), {written})"
    return f"python3 -c {shlex.quote(program)} && rm {shlex.quote(new)}"


def _with_path(source: Any, path: str) -> Any:
    """A source as the recipe writes it, of another path."""
    return path if isinstance(source, str) else {**source, "path": path}


def _toml(value: Any) -> str:
    """A value as a line of TOML has it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    keys = {key: key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in value}
    return f"{{ {', '.join(f'{keys[key]} = {_toml(entry)}' for key, entry in value.items())} }}"

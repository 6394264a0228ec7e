"""What to do with the file that a command writes where a glob of the recipe reads the old one: else both are read."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from recipec.axes import SECTIONS
from recipec.dataset.files import ENDINGS, files_of, is_glob
from recipec.diagnostics.model import Diagnostic
from recipec.facts.held_out import PARTS
from recipec.recipe import LoadedRecipe

_PARQUET = ".parquet"
_WRITES = re.compile(r" > ([^`>]+)`")  # the end of a command


def with_old_files_gone(loaded: LoadedRecipe, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings; behind commands that rewrite a file of a glob, what has the recipe read the new file alone."""
    steps = [dict.fromkeys(step for line in one.help for step in _steps(loaded, line)) for one in diagnostics]
    return [replace(one, help=(*one.help, *told)) for one, told in zip(diagnostics, steps, strict=True)]


def _steps(loaded: LoadedRecipe, line: str) -> Iterator[str]:
    """Yield what is to be done after the command of a line."""
    if not (found := _WRITES.search(line)):
        return
    (new,) = shlex.split(found[1])
    stem = new.rpartition(".")[0].removesuffix(".new")
    old = next((file for ending in ENDINGS if (file := f"{stem}{ending}") != new and file in line), "")
    for part, pattern in _globs(loaded) if old else ():
        files = [file.as_posix() for file in files_of(pattern, loaded.folder)]
        if any(file.endswith(old) for file in files):
            yield _step(loaded, part, pattern, old, new, alone=len(files) == 1)
            return


def _globs(loaded: LoadedRecipe) -> Iterator[tuple[str, str]]:
    """The globs of the recipe, each with the part of the data that it is of."""
    for task in loaded.tasks.values():
        for part in (*SECTIONS, *PARTS):
            paths = [source.path for source in getattr(task.recipe.data, part) or ()]
            yield from ((part, path) for path in paths if path and is_glob(path))


def _step(loaded: LoadedRecipe, part: str, pattern: str, old: str, new: str, *, alone: bool) -> str:
    """The command that puts the new file in place of the old one, of another kind beside the glob."""
    kind = PurePosixPath(old).suffix
    if kind in (_PARQUET, PurePosixPath(new).suffix):
        replaced = _as_parquet(new, old) if kind == _PARQUET else f"mv {shlex.quote(new)} {shlex.quote(old)}"
        return f"then put the new file in place of the old one, as `{pattern}` reads it: `{replaced}`"
    others = () if alone else (f"{pattern}{kind}" if pattern.endswith("*") else pattern,)  # a source has one kind
    paths = [source.path for source in getattr(loaded.recipe.data, part) or () if source.path != pattern]
    listed = json.dumps([*paths, *others, new], ensure_ascii=False)
    away = f"mv {shlex.quote(old)} {shlex.quote(f'{old}.old')}"
    return f"then take the old file out of `{pattern}`, and write `{part} = {listed}` under [data]: `{away}`"


def _as_parquet(new: str, old: str) -> str:
    """The command that writes JSON lines as Parquet, and removes them."""
    read, written = (json.dumps(file, ensure_ascii=False) for file in (new, old))
    rows = f'[json.loads(line) for line in open({read}, "rb")]'
    program = "import json, pyarrow, pyarrow.parquet as parquet; "
    program += f"parquet.write_table(pyarrow.Table.from_pylist({rows}), {written})"
    return f"python3 -c {shlex.quote(program)} && rm {shlex.quote(new)}"

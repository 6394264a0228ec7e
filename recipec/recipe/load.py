"""The front half of the compiler: from a recipe file to a checked recipe with places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recipec.diagnostics.model import Diagnostic, Place, Report
from recipec.recipe.characters import forbidden_in_name, why_forbidden
from recipec.recipe.contradictions import contradictions
from recipec.recipe.document import Document, Located
from recipec.recipe.extends import read_whole
from recipec.recipe.locate import KeyPath
from recipec.recipe.preset import as_preset
from recipec.recipe.schema import Recipe
from recipec.recipe.source import Source
from recipec.recipe.validate import validate
from recipec.recipe.wishes import wishes
from recipec.recipe.written import nearest, value_at
from recipec.rules.core import Wish


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe without errors of its own, and where each of its values was written."""

    recipe: Recipe
    path: Path
    files: tuple[Path, ...]  # every file that was read, the recipe first
    document: Document = field(repr=False)
    names: Mapping[str, str] = field(repr=False)  # a file as diagnostics show it -> relative to the recipe's folder

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def places(self) -> Mapping[KeyPath, Located]:
        return self.document.places

    def is_set(self, *path: str | int) -> bool:
        """Tell whether the recipe, or one that it extends, writes `path`."""
        return self.value(*path) is not None

    def value(self, *path: str | int) -> Any:
        """Return what the recipe writes at `path`, as TOML has it; None when it writes nothing."""
        return value_at(self.document.data, path)

    def place(self, *path: str | int, part: str = "value") -> Place:
        """Return where `path` is written, else its nearest table that is; `part` is "value" or "key"."""
        return getattr(nearest(self.places, path, self.document), part)

    def where(self, *path: str | int) -> str:
        """Return "recipe.toml:14", the file relative to the recipe's folder."""
        place = self.place(*path)
        return f"{self.names[place.file]}:{place.span.line}"

    def wishes(self, stage: str, last: bool) -> dict[str, Wish]:
        """Return the values that the recipe sets for a stage, by recipe key ("train.lora.rank").

        `last` tells whether it is the last stage: what says how it learns in [train] holds for that one only.
        """
        return wishes(self.recipe, self.where, stage, last)

    def allowed(self) -> dict[str, Place]:
        """Return the warnings that the recipe silences, and where it says so."""
        codes = self.recipe.recipe.allow or []
        return {code: self.place("recipe", "allow", index) for index, code in enumerate(codes)}


def load_recipe(path: Path, report: Report) -> LoadedRecipe | None:
    """Read and check the recipe at `path` with all that it extends; None if and only if errors were reported."""
    if (character := forbidden_in_name(path.name)) is not None:
        report.add(_unfit_name(path.name, character))
        return None
    document, sources = read_whole(path, report)
    if document is None:
        return None
    own = Report()
    recipe, written = validate(document, own)
    contradictions(written, own)
    for finding in as_preset(written, own.diagnostics):
        report.add(finding)
    if recipe is None or report.has_errors:
        return None
    names = {source.shown: _name(source, path.parent) for source in sources}
    files = tuple(dict.fromkeys(source.path for source in sources))
    return LoadedRecipe(recipe, path, files, document, names)


def _unfit_name(name: str, character: str) -> Diagnostic:
    title = f"the file name `{name}` holds the forbidden character U+{ord(character):04X}"
    return Diagnostic("E0006", title, (), ("rename the recipe: emitted files name it",), (why_forbidden(character),))


def _name(source: Source, folder: Path) -> str:
    """Name a file relative to the recipe's folder; a shipped recipe by its own name, wherever it is installed."""
    if source.shipped:
        return source.shown
    return Path(os.path.relpath(source.path, folder)).as_posix()

"""Columns of rows that the recipe names, or that make rows those of another format: what goes with what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recipec.axes import METHODS, ROW_FORMATS, RowFormat
from recipec.dataset import DataShape
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.data import DataFacts
from recipec.facts.other_method import asked
from recipec.facts.running import that_read
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import TASK, either

Data = Mapping[str, DataFacts]


def against_columns(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Yield columns that training would leave out though they say something, and names of columns in vain (E0401)."""
    for check in (
        _columns_not_handed_on,
        _columns_of_other_formats,
        _columns_of_no_rows,
        _source_columns_of_no_rows,
    ):
        yield from check(loaded, data)


def _columns_not_handed_on(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A column that the trainer itself would use is not dropped in silence."""
    for section, facts in data.items():
        for name, why in used_by_trainers(loaded, section, data).items():
            if name in (*facts.columns, *facts.unread) and name not in _ignored(loaded):
                lacking = f", except for {facts.gaps[name]}" if name in facts.gaps else ""
                labels = (
                    Label(loaded.place("data", section), f"every row has `{name}`{lacking}"),
                    Label(loaded.place(*TASK), f"recipec does not use it: {why}"),
                )
                title = f"data.{section} has a column `{name}` that training would leave out"
                help = f'remove `{name}` from the rows, or train without it: `ignore = ["{name}"]` under [data]'
                yield Diagnostic("E0401", title, labels, (help,))


def used_by_trainers(loaded: LoadedRecipe, section: str, data: Data) -> dict[str, str]:
    """Columns that the trainers of the stages that run would use, and recipec does not hand on, with what for."""
    return {name: why for row in that_read(section, loaded, data) for name, why in row.unread.items()}


def _ignored(loaded: LoadedRecipe) -> list[str]:
    return loaded.recipe.data.ignore or []


def _columns_of_other_formats(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A column that only rows of another format have would be dropped, and what it says with it."""
    renamed = loaded.recipe.data.columns or {}
    for section, facts in data.items():
        for held, role, name in of_other_formats(facts, renamed):
            if name in facts.some_columns and name not in _ignored(loaded):
                yield _another_format(loaded, section, held, role, name)


def of_other_formats(facts: DataFacts, renamed: Mapping[str, str]) -> Iterator[tuple[RowFormat, str, str]]:
    """Formats of the rows, with a role that only another format has and the column that would be it: nothing reads it.

    The recipe may name that column for a role of the format, as the label of a classifier is what a model answers.
    """
    read = {(shape.format, name) for shape in facts.shapes for name in shape.columns.values()}
    for held in map(ROW_FORMATS.__getitem__, facts.formats):
        for role in held.forbidden:
            if (held.name, name := renamed.get(role, role)) not in read:
                yield held, role, name


def _columns_of_no_rows(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A renamed column that no rows of the recipe have would say nothing."""
    shapes = [(section, shape) for section, facts in data.items() for shape in facts.shapes]
    formats = {section: ROW_FORMATS[shape.format] for section, shape in reversed(shapes)}
    for role, name in (loaded.recipe.data.columns or {}).items():
        having = [(section, shape) for section, shape in shapes if role in _roles(shape)]
        if any(role in row.forbidden for row in formats.values()) or not data:
            continue  # another finding, or none can be made
        if not having:
            yield _no_such_role(loaded, role, formats)
        elif not any(role in shape.columns for _, shape in having):
            section, shape = having[0]
            labels = (
                Label(loaded.place("data", "columns", role), f"no sampled row has `{name}`"),
                Label(loaded.place("data", section), f"{shape.format} rows may leave `{role}` out"),
            )
            title = f"`data.columns.{role}` names the column `{name}`, which the rows do not have"
            yield Diagnostic("E0401", title, labels, ("name a column of the rows, or remove the key",))


def _source_columns_of_no_rows(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A column that a source renames, and that its rows do not have."""
    for section, facts in data.items():
        for index, shape in enumerate(facts.shapes):
            source = getattr(loaded.recipe.data, section)[index]
            for role, name in (source.columns or {}).items():
                if role not in shape.columns:
                    why = (
                        f"no sampled row has `{name}`" if role in _roles(shape) else f"no column of {shape.format} rows"
                    )
                    listed = ", ".join(f"`{part}`" for part in sorted(_roles(shape)))
                    place = loaded.place("data", section, index, "columns", role)
                    labels = (Label(place, why), Label(loaded.place("data", section, index), f"may have {listed}"))
                    title = f"`columns.{role}` of {source.path or source.hub} says nothing of its {shape.format} rows"
                    yield Diagnostic("E0401", title, labels, ("name a column of the rows, or remove the key",))


def _roles(shape: DataShape) -> set[str]:
    return {role.name for role in ROW_FORMATS[shape.format].roles}


def _no_such_role(loaded: LoadedRecipe, role: str, formats: Mapping[str, RowFormat]) -> Diagnostic:
    section, row = next(iter(formats.items()))
    listed = ", ".join(f"`{part.name}`" for part in row.roles)
    labels = (
        Label(loaded.place("data", "columns", role), f"not a column of {row.name} rows"),
        Label(loaded.place("data", section), f"holds {row.name} rows, whose columns are {listed}"),
    )
    held = either(dict.fromkeys(other.name for other in formats.values()), "")
    title = f"`data.columns.{role}` is for other rows than the {held} rows of the recipe"
    return Diagnostic("E0401", title, labels, (f"remove `{role}` from `data.columns`",))


def _another_format(loaded: LoadedRecipe, section: str, held: RowFormat, role: str, name: str) -> Diagnostic:
    """Rows of one format with a column that makes them rows of another."""
    other = next(row for row in ROW_FORMATS.values() if any(part.name == role for part in row.roles))
    method = METHODS[other.usual]
    labels = (
        Label(loaded.place("data", section), f"rows have `{name}` beside the columns of {held.name} rows"),
        Label(loaded.place(*TASK), f"{held.name} rows have no `{role}`, so training would leave it out"),
    )
    task = "".join(f"{step} and " for step in asked(loaded, method))
    remove = f'remove `{name}` from the rows, or train without it: `ignore = ["{name}"]` under [data]'
    if loaded.is_set("data", "columns", role):
        remove = f"remove `{role}` from `data.columns`: training then leaves `{name}` out"
    help = (
        f"{task}name the rows in `data.{method.section}`: {method.name} reads {other.name} rows ({other.recognized})",
        remove,
    )
    title = f"data.{section} has a column `{name}` that {held.name} rows do not have"
    return Diagnostic("E0401", title, labels, help)

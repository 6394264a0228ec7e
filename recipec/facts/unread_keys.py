"""Keys of [data] that no stage of a recipe reads, whatever its rows are: each is refused by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from recipec.axes import SECTIONS, Method, formats_of, readers
from recipec.axes.tasks import AUTO
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import either
from recipec.recipe.schema_data import GENERAL

_BY_TOKENS = "in a recipe that learns texts, such as supervised fine-tuning, they are replayed"


def unread_keys(loaded: LoadedRecipe) -> Iterator[Diagnostic]:
    """Yield E0401 for general rows where no stage learns tokens, and for a format whose rows no stage reads."""
    sections = [name for name in SECTIONS if loaded.is_set("data", name)]
    stages = {section: _stages(loaded, section, sections) for section in sections}
    if not sections or not any(stages.values()):
        return
    yield from _general(loaded, stages)
    yield from _format(loaded, stages)


def _stages(loaded: LoadedRecipe, section: str, sections: Sequence[str]) -> tuple[Method, ...]:
    task = loaded.recipe.goal.task
    return readers(section, sections, task, loaded.method) or readers(section, sections, task)


def _general(loaded: LoadedRecipe, stages: Mapping[str, Sequence[Method]]) -> Iterator[Diagnostic]:
    if any(row.learns_tokens for rows in stages.values() for row in rows):
        return
    names = list(dict.fromkeys(row.name for rows in stages.values() for row in rows))
    why = f"{' and '.join(names)} {'learn' if len(names) > 1 else 'learns'} from whole answers alone"
    for key in (key for key in (GENERAL, "replay") if loaded.is_set("data", key)):
        label = Label(loaded.place("data", key), why)
        help = f"remove `{key}`: {_BY_TOKENS}"
        yield Diagnostic("E0401", f"`data.{key}` has no effect: no stage replays rows", (label,), (help,))


def _format(loaded: LoadedRecipe, stages: Mapping[str, Sequence[Method]]) -> Iterator[Diagnostic]:
    format = loaded.recipe.data.format
    taken = formats_of(row for rows in stages.values() for row in rows)
    if format in (None, AUTO) or not loaded.is_set("data", "format") or format in taken:
        return
    label = Label(loaded.place("data", "format"), f"{' and '.join(f'data.{name}' for name in stages)} has other rows")
    help = f"remove `format`, or write {either(taken)}"
    yield Diagnostic(
        "E0401", f"`data.format` has no effect: no stage of the recipe takes {format} rows", (label,), (help,)
    )

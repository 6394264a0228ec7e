"""A data set of the Hub that a recipe names as if it were a file: the source to write, with all that it needs."""

from __future__ import annotations

import re

from recipec.axes import SECTIONS, formats_of, readers
from recipec.axes.tasks import AUTO
from recipec.dataset import may_be_on_hub
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import either

_ADDRESS = re.compile(r"(?:hf://|https?://(?:www\.)?huggingface\.co/)datasets/([\w.-]+/[\w.-]+)")
_WITH_SPLIT = re.compile(r"([\w.-]+/[\w.-]+):([\w-]+)")


def formats_taken(loaded: LoadedRecipe, section: str) -> tuple[str, ...]:
    """The formats that the stages which read a section take."""
    sections = [name for name in SECTIONS if loaded.is_set("data", name)]
    task, named = loaded.recipe.goal.task, loaded.method
    return formats_of(readers(section, sections, task, named) or readers(section, sections, task))


def source_of_hub(loaded: LoadedRecipe, part: str, path: str) -> tuple[str, ...]:
    """What to write for a path that is the id or the address of a data set of the Hub; () for other paths."""
    id, split = _named(path)
    if not id:
        return ()
    formats = formats_taken(loaded, part) if part in SECTIONS and loaded.recipe.data.format in (None, AUTO) else ()
    ask = len(formats) > 1
    format = f', format = "{formats[0]}"' if ask else ""
    line = f'for a data set of the Hub, write `{{ hub = "{id}", split = "{split}"{format} }}`'
    return (f"{line}; the format of its rows is {either(formats)}",) if ask else (line,)


def _named(path: str) -> tuple[str, str]:
    """The id and the split of a data set of the Hub; "" for what is none."""
    if address := _ADDRESS.match(path):
        return address[1], "train"
    if with_split := _WITH_SPLIT.fullmatch(path):
        return with_split[1], with_split[2]
    return (path, "train") if may_be_on_hub(path) else ("", "")

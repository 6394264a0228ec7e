"""Sampled answers that speak of the tags of thoughts, where the chat template would cut them there (E0309)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recipec.axes import ROW_FORMATS
from recipec.catalog.templates import Template
from recipec.dataset import ASSISTANT, Converted, Message
from recipec.dataset.contents import THOUGHT, parted
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.conversations import REASONING
from recipec.facts.converting import WITHOUT
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_FIRST, _LAST = THOUGHT


def spoken_tags(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield E0309 where sampled answers hold </think> elsewhere than behind a thought that they begin with."""
    if template is None or not template.cuts or loaded.recipe.data.reasoning in WITHOUT:
        return
    found = {place: text for source in sources for place, text in _cut(source)}
    if found:
        place, text = next(iter(found.items()))
        title = f"the model's chat template would cut {len(found)} of {sum(len(one.rows) for one in sources)} sampled "
        label = Label(loaded.place("data", section), f"{place} says {text!r:.60}")
        yield Diagnostic(
            "E0309", f"{title}rows of data.{section} at {_LAST}", (label,), tuple(_ways_out(sources, found.values()))
        )


def _ways_out(sources: Sequence[SampledSource], texts: Iterable[str]) -> Iterator[str]:
    """A text before a first tag is no thought, so that nothing could be taken out of such an answer."""
    yield f"write a thought between {_FIRST} and {_LAST}, once, at the beginning of its answer"
    yield (
        f"where an answer speaks of the tag, write it with a space in it, or remove the row: the template reads "
        f"every {_LAST} as the end of a thought"
    )
    if all(_holds_thoughts(source) for source in sources) and not any(_FIRST in text for text in texts):
        yield f'to take out all that stands before {_LAST}: `reasoning = "strip"` under [data]'


def _holds_thoughts(source: SampledSource) -> bool:
    return REASONING in ROW_FORMATS[source.shape.format].carries


def _cut(source: SampledSource) -> Iterator[tuple[str, str]]:
    """The places of rows with such an answer, and its text."""
    if not ROW_FORMATS[source.shape.format].turns:
        return
    for place, made in zip(source.places, source.made, strict=True):
        if text := next((turn["content"] for turn in _answers(made) if _is_cut(turn["content"])), ""):
            yield place, text


def _answers(made: Converted) -> Iterator[Message]:
    """What the assistant says, in prompts, too; but not beside a thought in a field of its own: it stays as it is."""
    turns = (turn for name, value in made.items() if name != "tools" and isinstance(value, list) for turn in value)
    yield from (turn for turn in turns if turn["role"] == ASSISTANT[0] and "reasoning_content" not in turn)


def _is_cut(text: str) -> bool:
    thought, said = parted(text)
    return _LAST in said or _FIRST in thought

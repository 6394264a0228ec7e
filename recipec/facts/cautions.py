"""What sampled rows hold that can be used, but not as a user may mean it: warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recipec.axes import KINDS, ROW_FORMATS
from recipec.catalog.templates import Template
from recipec.dataset import ASSISTANT, DataShape, thoughts, turns_of
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.conversations import answers_of, without
from recipec.facts.sizes import is_learned
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe
from recipec.units import counted


def cautions(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield messages behind answers (W0532), thoughts in prompts (W0533), and texts that end a turn (W0534).

    `template` is what is known of the chat template of the training.
    """
    yield from _behind_answers(loaded, section, sources)
    if template is not None:
        yield from _ending_turns(loaded, section, sources, template.end)
    if loaded.recipe.data.reasoning is None:
        yield from _thoughts_in_prompts(loaded, section, sources)


def not_compared(loaded: LoadedRecipe, shapes: Mapping[str, DataShape]) -> Iterator[Diagnostic]:
    """Yield W0531 where questions that are held out from one section cannot be looked for in another."""
    turns = {section: ROW_FORMATS[shape.format].turns for section, shape in shapes.items()}
    for section in (name for name, has in turns.items() if not has and any(turns.values())):
        other = next(name for name, has in turns.items() if has)
        format = shapes[section].format
        labels = (
            Label(loaded.place("data", section), f"{format} rows, which do not say what is asked"),
            Label(loaded.place("data", other), "some of these questions are held out"),
        )
        title = f"held-out questions of data.{other} are not looked for in data.{section}"
        help = (
            f"give data.{section} as messages, or as prompts with completions, so that both can be compared",
            "if you know that they have no questions in common, allow this warning",
        )
        yield Diagnostic("W0531", title, labels, help)


def _behind_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Messages behind the last learned answer of a conversation."""
    ignored = set(loaded.recipe.data.ignore or ())
    found = {
        place: count
        for source in sources
        if KINDS[ROW_FORMATS[source.shape.format].kind].masked
        for place, row in zip(source.places, source.rows, strict=True)
        if (count := _behind(turns_of(without(row, ignored)[source.shape.columns["messages"]])))
    }
    if found:
        first = next(iter(found))
        seen = f"{_rows(found, sources)}, the first {first}: {counted(sum(found.values()), 'message')} in all"
        title = f"conversations of data.{section} go on behind their last learned answer"
        help = ("end them with an answer; if they are meant to go on, allow this warning",)
        note = "nothing is learned from these messages; prepare_data.py counts those of all rows"
        yield Diagnostic("W0532", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _behind(turns: Sequence[Mapping[str, Any]]) -> int:
    """How many messages stand behind the last learned answer; 0 where there is none."""
    learned = [place for place, turn in enumerate(turns, 1) if is_learned(turn)]
    return len(turns) - learned[-1] if learned else 0


def _thoughts_in_prompts(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Thoughts in what is asked, of which the chat template decides whether they are shown."""
    ignored = set(loaded.recipe.data.ignore or ())
    found = [
        place
        for source in sources
        for place, row in zip(source.places, source.rows, strict=True)
        if any(map(_thinks, _asked(without(row, ignored), source.shape)))
    ]
    if found:
        title = f"prompts of data.{section} hold thoughts, which are not learned"
        seen = f"{_rows(found, sources)}, the first {found[0]}"
        help = (
            'to take them out, of answers too: `reasoning = "strip"` under [data]',
            "to leave it to the chat template whether they are shown, allow this warning",
        )
        note = "chat templates of models that think, such as Qwen 3, show earlier answers without their thoughts"
        yield Diagnostic("W0533", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _ending_turns(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], turn_end: str
) -> Iterator[Diagnostic]:
    """Texts of messages that hold the token that ends a turn."""
    found = [
        place
        for source in sources
        if ROW_FORMATS[source.shape.format].turns
        for place, row in zip(source.places, source.rows, strict=True)
        if turn_end in json.dumps([row.get(name) for name in source.shape.columns.values()], ensure_ascii=False)
    ]
    if found:
        title = f"texts of data.{section} hold `{turn_end}`, which ends a turn in the chat template"
        seen = f"{_rows(found, sources)}, the first {found[0]}"
        help = ("write it with a space in it, or remove these rows",)
        note = "prepare_data.py refuses such rows where it is a special token of the tokenizer"
        yield Diagnostic("W0534", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _asked(row: Mapping[str, Any], shape: DataShape) -> Iterator[Mapping[str, Any]]:
    """What stands before the answers, where prompt and answer are apart."""
    format = ROW_FORMATS[shape.format]
    if KINDS[format.kind].masked or not format.turns:
        return
    for role, column in shape.columns.items():
        turns, taught = turns_of(row.get(column)), format.role(role).becomes in KINDS[format.kind].taught
        yield from turns[: len(turns) - len(answers_of(turns))] if taught else turns


def _thinks(turn: Mapping[str, Any]) -> bool:
    return turn.get("role", turn.get("from")) in ASSISTANT and bool(thoughts(turn))


def _rows(found: Sequence[str] | Mapping[str, int], sources: Sequence[SampledSource]) -> str:
    return f"{len(found)} of {sum(len(source.rows) for source in sources)} sampled rows"

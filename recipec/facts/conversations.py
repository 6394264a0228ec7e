"""What rows carry beside their text, and whether every answer of a conversation becomes a row of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from recipec.axes import CARRIED, KINDS, ROW_FORMATS, RowFormat
from recipec.axes.row_formats import TEXTS
from recipec.axes.tasks import AUTO
from recipec.dataset import (
    ASSISTANT,
    SPEAKERS,
    Converted,
    DataShape,
    Message,
    carried,
    converted,
    thoughts,
    turns_of,
    written_in,
)
from recipec.dataset.contents import parted
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.converting import KEEP, OFF, reading_of
from recipec.facts.fact import known, stated
from recipec.facts.sources import SKIP, SampledSource, rows_of, states_rows
from recipec.facts.unlearned import LAST_ANSWER
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision
from recipec.units import counted

REASONING = "reasoning"  # of CARRIED
_SHOWN = 60  # characters of a thought


def carries(loaded: LoadedRecipe, source: SampledSource) -> tuple[str, ...]:
    """What the rows carry beside the columns of their format, seen in the sample or named by data.carry.

    What the recipe says to ignore is not carried.
    """
    row, data = ROW_FORMATS[source.shape.format], loaded.recipe.data
    found = {*carried(source.rows, row, list(source.shape.columns.values()), data.ignore or ()), *(data.carry or ())}
    if data.reasoning is not None:
        found.add(REASONING)
    return tuple(name for name in row.carries if name in found)


def think(loaded: LoadedRecipe, sources: Iterable[SampledSource]) -> bool:
    """Whether a sampled answer has a thought, whatever the recipe makes of it."""
    fields = {*CARRIED[REASONING].fields} - {*(loaded.recipe.data.ignore or ())}
    said = (value for source in sources for row in source.rows for value in _taught(row, source.shape))
    return any(_thinks(value, fields) for value in said)


def _taught(row: Mapping[str, Any], shape: DataShape) -> Iterator[Any]:
    """What stands in the columns that are learned."""
    format = ROW_FORMATS[shape.format]
    taught = KINDS[format.kind].taught if format.turns else ()
    yield from (row.get(shape.columns[role.name]) for role in format.required if role.becomes in taught)


def _thinks(value: Any, fields: Iterable[str]) -> bool:
    if isinstance(value, str):
        return parted(value)[1] != value
    answers = (turn for turn in turns_of(value) if turn.get("role", turn.get("from")) in ASSISTANT)
    return any(_is_thinking(turn, fields) for turn in answers)


def _is_thinking(turn: Message, fields: Iterable[str]) -> bool:
    return any(map(turn.get, fields)) or _thinks(str(turn.get("content", turn.get("value"))), ())


def read_columns(shape: DataShape) -> set[str]:
    """The columns that are read beside those of the format."""
    return {name for carry in shape.carries for name in CARRIED[carry].columns}


def read_fields(shape: DataShape) -> set[str]:
    """The fields of messages that are read beside those that say who speaks, and what."""
    return {name for carry in shape.carries for name in CARRIED[carry].fields}


def conversation_facts(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], shape: DataShape, report: Report
) -> Iterator[Decision]:
    """Yield what becomes of thoughts, and whether every answer becomes a row. Reports E0309."""
    answers = _sampled_answers(sources)
    kept = _reasoning(loaded, section, sources, answers, shape, report)
    yield kept
    yield _without_thoughts({} if states_rows(loaded) else answers)
    yield _apart(loaded, sources, shape, kept)
    yield _openings(loaded, sources)


def _openings(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> Decision:
    """What becomes of answers before the first question; the reason counts those of the sample that are left out."""
    said, absent = loaded.recipe.data.opening_answers, "conversations that begin with an answer are refused"
    found = stated(loaded, "opening_answers", said, "data", "opening_answers", absent=absent)
    lost = [count for source in sources for count in _lost_messages(loaded, source)] if said == SKIP else []
    if not any(lost):
        return found
    seen = f"{counted(sum(lost), 'message')} in {sum(map(bool, lost)):,} of {len(lost):,} sampled rows"
    return replace(found, because=f"{found.because}; {seen}")


def _lost_messages(loaded: LoadedRecipe, source: SampledSource) -> list[int]:
    """Of each sampled conversation how many messages stand before its first question."""
    reading = replace(reading_of(loaded, source.shape.carries), opening_answers="learn")
    pairs = zip(source.rows, source.made, strict=True)
    return [
        len(converted(row, source.shape, reading)["messages"]) - len(made["messages"])
        for row, made in pairs
        if "messages" in made
    ]


def against_conversations(
    loaded: LoadedRecipe, shapes: Iterable[DataShape], held_out: Iterable[DataShape] = ()
) -> Iterator[Diagnostic]:
    """Yield the keys of [data] that say something of conversations, where the rows have none of it (E0401)."""
    rows = [ROW_FORMATS[name] for name in dict.fromkeys(shape.format for shape in shapes)]
    carry = {name for shape in held_out for name in shape.carries} | {name for row in rows for name in row.carries}
    answered = any(row.turns and not KINDS[row.kind].taught for row in rows)  # the model thinks, or does not
    useless = {
        "reasoning": "reasoning" not in carry and not (answered and loaded.recipe.data.reasoning == OFF),
        "opening_answers": not any(KINDS[row.kind].masked for row in rows),
        "loss_on": not any(KINDS[row.kind].masked for row in rows),
        "system": not any(row.turns for row in rows),
        "template": not any(row.turns for row in rows) and loaded.recipe.data.template != AUTO,
    }
    for key in (key for key, holds in useless.items() if holds and loaded.is_set("data", key)):
        yield _useless(loaded, rows, f"`data.{key}`", f"remove `{key}`", key)
    for index, name in enumerate(loaded.recipe.data.carry or ()):
        names = {*CARRIED[name].columns, *CARRIED[name].fields}
        if name not in carry:
            yield _useless(loaded, rows, f'"{name}" of `data.carry`', "remove it", "carry", index)
        elif names and names.issubset(loaded.recipe.data.ignore or ()):
            yield _carried_and_ignored(loaded, name, index)


def _useless(loaded: LoadedRecipe, rows: Sequence[RowFormat], what: str, help: str, *place: str | int) -> Diagnostic:
    names = " and ".join(row.name for row in rows)
    label = Label(loaded.place("data", *place), f"the recipe has {names} rows")
    return Diagnostic("E0401", f"{what} has no effect on {names} rows", (label,), (help,))


def _carried_and_ignored(loaded: LoadedRecipe, name: str, index: int) -> Diagnostic:
    """What the recipe says to carry, and to pass over wherever it stands."""
    labels = (
        Label(loaded.place("data", "carry", index), f"carries {CARRIED[name].means}"),
        Label(loaded.place("data", "ignore"), "passes over every name that holds them"),
    )
    help = (f'remove "{name}" from `data.carry`, or a name that rows have from `data.ignore`',)
    return Diagnostic("E0401", f'`data.carry` has "{name}", all of whose names `data.ignore` passes over', labels, help)


_Answers = Mapping[str, Sequence[Message]]  # place of a row -> what the assistant says in it


def _reasoning(
    loaded: LoadedRecipe,
    section: str,
    sources: Sequence[SampledSource],
    answers: _Answers,
    shape: DataShape,
    report: Report,
) -> Decision:
    said = loaded.recipe.data.reasoning
    if said is not None:
        return stated(loaded, "reasoning", said, "data", "reasoning")
    thinking = {place: turns for place, turns in answers.items() if any(map(thoughts, turns))}
    if not thinking:
        # A plan from stated rows says the same where the rows are.
        looked = bool(rows_of(sources)) and not states_rows(loaded)
        seen = "no sampled answer holds a thought" if looked else "the recipe says nothing of thoughts"
        return known("reasoning", "", seen, origin="data")
    for finding in ambiguous_thoughts(loaded, section, sources, shape):
        report.add(finding)
    because = f"the answers of {len(thinking)} sampled rows begin with thoughts, each the only answer of its row"
    return known("reasoning", KEEP, because, origin="data")


def _without_thoughts(answers: _Answers) -> Decision:
    """Share of the sampled answers that hold no thought; None where no answer was read."""
    said = [turn for turns in answers.values() for turn in turns]
    silent = sum(not thoughts(turn) for turn in said)
    because = f"{silent:,} of {len(said):,} sampled answers hold no thought" if said else "no answer was read"
    return known("without_thoughts", silent / len(said) if said else None, because, origin="data")


def _sampled_answers(sources: Sequence[SampledSource]) -> _Answers:
    return {
        place: [*answers_in(made, source.shape)]
        for source in sources
        for place, made in zip(source.places, source.made, strict=True)
    }


def answers_in(made: Converted, shape: DataShape) -> Iterator[Message]:
    """What the assistant says in a row to be learned."""
    format = ROW_FORMATS[shape.format]
    for column in KINDS[format.kind].taught if format.turns else ():
        yield from (message for message in made[column] if message["role"] == ASSISTANT[0])


def ambiguous_thoughts(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], shape: DataShape
) -> Iterator[Diagnostic]:
    """Yield E0309 for conversations of several answers with thoughts, of which the recipe says nothing: what does a
    later answer see of an earlier thought?"""
    if loaded.recipe.data.reasoning is not None or not KINDS[ROW_FORMATS[shape.format].kind].masked:
        return
    said = _sampled_answers(sources)
    several = {place: turns for place, turns in said.items() if len(turns) > 1 and any(map(thoughts, turns))}
    if several:
        yield _ambiguous(loaded, section, several)


def _ambiguous(loaded: LoadedRecipe, section: str, several: _Answers) -> Diagnostic:
    place, answers = next(iter(several.items()))
    index, thought = next((index, text) for index, turn in enumerate(answers, 1) if (text := thoughts(turn)))
    shown = f"{thought[:_SHOWN]}…" if len(thought) > _SHOWN else thought
    which = f"answer {index} of {len(answers)} in {place} thinks {shown!r}"
    help = (
        'reasoning = "keep" under [data]: every answer is learned with its thought, in a row of its own; the answers '
        "before it are shown as the chat template shows them when the model is used, most often without thoughts",
        'reasoning = "template": a conversation is one row, with the thoughts that the chat template of the training '
        "shows",
        'reasoning = "strip": thoughts are taken out ("off": and answers are learned in the mode without thinking)',
    )
    title = f"answers in data.{section} hold thoughts, and it is not said how they are learned"
    return Diagnostic("E0309", title, (Label(loaded.place("data", section), which),), help)


def prompted(source: SampledSource) -> bool:
    """Whether prompts are messages: earlier answers may stand in them, which are shown and not learned."""
    return not KINDS[ROW_FORMATS[source.shape.format].kind].masked and source.shape.content != TEXTS


def answered_prompts(sources: Sequence[SampledSource]) -> str:
    """What is said of prompts that end with answers, which are left out; "" where none does."""
    ended = sum(_ends_with_answer(source, row) for source in sources for row in source.rows)
    said = "end with an answer, which is left out: the model writes its own"
    return f"; {ended} of {sum(len(source.rows) for source in sources)} sampled prompts {said}" if ended else ""


def _ends_with_answer(source: SampledSource, row: Mapping[str, Any]) -> bool:
    format = ROW_FORMATS[source.shape.format]
    if KINDS[format.kind].taught or not (turns := turns_of(row.get(source.shape.columns[format.required[0].name]))):
        return False
    speaker, _ = written_in(source.shape.content)
    return {**SPEAKERS, **dict.fromkeys(ASSISTANT, ASSISTANT[0])}.get(str(turns[-1].get(speaker))) == ASSISTANT[0]


def _apart(loaded: LoadedRecipe, sources: Sequence[SampledSource], shape: DataShape, kept: Decision) -> Decision:
    """Whether each answer becomes a row with the conversation before it as the prompt, as the rows ask."""
    reasons = {
        "some rows have prompts of messages, in which answers are not learned": any(map(prompted, sources)),
        "messages say whether they are learned": any(CARRIED[name].apart for name in shape.carries),
        "every answer is learned with its thought": kept.value == KEEP,
        "every answer is learned after an empty thought": kept.value == OFF,
        "only the last answer is learned": loaded.recipe.data.loss_on == LAST_ANSWER,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    apart = bool(found) and KINDS[ROW_FORMATS[shape.format].kind].masked
    return known("answers_apart", apart, "; ".join(found) if apart else "rows are learned whole", origin="data")

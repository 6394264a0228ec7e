"""Rows that ask what is held out from them: preparation leaves them out and counts them (W0554).

Training rows must not ask what rows of data.eval and data.test ask, nor those of data.eval what the test asks.
templates/data/held_out.py.j2 has the same rule; tests/execution/test_leaks.py holds both together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import normalize

from msgspec import Struct
from msgspec.structs import replace

from recipec.dataset import ASSISTANT, Converted, DataShape
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.converting import as_learned
from recipec.facts.sources import SampledSource, sources_of
from recipec.recipe import LoadedRecipe
from recipec.rules.data import dropped_rows_limit

HELD_OUT = ("eval", "test")
Question = tuple[str, ...]  # what the user says, turn by turn


class _Asked(Struct, frozen=True):
    """What a row asks: in all, and before each of its answers."""

    place: str
    whole: Question
    begun: tuple[Question, ...]


class _Compared(Struct, frozen=True):
    """What is compared of a part of the data."""

    rows: tuple[_Asked, ...]
    whole: bool  # whether these are all rows of its files

    @property
    def told(self) -> str:
        """ "40 rows", or those that were sampled."""
        return f"{len(self.rows)} {'' if self.whole else 'sampled '}rows"


def leaks(
    loaded: LoadedRecipe,
    section: str,
    shapes: Sequence[DataShape],
    learned: DataShape,
    parts: Mapping[str, Sequence[SampledSource]],
) -> Iterator[Diagnostic]:
    """Yield W0554 for every part with rows whose questions the section asks, too, of the rows that were read of both.

    The rows of data.eval choose the checkpoint: they are compared with those of data.test as training rows are.

    `shapes` are those of the sources of the section, `learned` is what their rows become.
    """
    held_out = {part: _compared(loaded, held, learned) for part, held in parts.items()}
    if held_out.keys() >= {*HELD_OUT} and (found := _leaking(held_out["eval"], held_out["test"])):
        yield _told_of_eval(loaded, found, held_out["eval"])
    trained = (sources_of(loaded, section, Report()) or []) if parts else []
    if not trained:
        return
    sources = [replace(source, shape=shape) for source, shape in zip(trained, shapes, strict=True)]
    rows = _compared(loaded, sources, learned)
    for part, held in held_out.items():
        if found := _leaking(rows, held):
            yield _told(loaded, section, part, found, rows)


def _compared(loaded: LoadedRecipe, sources: Sequence[SampledSource], learned: DataShape) -> _Compared:
    return _Compared(tuple(_asked(loaded, sources, learned)), all(map(_whole, sources)))


def _whole(source: SampledSource) -> bool:
    return source.sample is not None and source.sample.whole


def _asked(loaded: LoadedRecipe, sources: Sequence[SampledSource], learned: DataShape) -> Iterator[_Asked]:
    """What the rows ask, each row once; nothing of rows of tokens."""
    seen: set[str] = set()
    for source in (as_learned(loaded, source, learned) for source in sources):
        for place, made in zip(source.places, source.made, strict=True):
            itself = json.dumps(made, sort_keys=True, default=str)
            if itself not in seen and (questions := _questions(made)):
                seen.add(itself)
                yield _Asked(place, questions[-1], questions)


def _questions(made: Converted) -> tuple[Question, ...]:
    """What is asked before each answer, and last what the whole row asks."""
    if "text" in made:
        return ((normalize("NFC", made["text"]).strip(),),)
    turns = made.get("messages") or made.get("prompt") or ()
    asked: list[str] = []
    begun = []
    for turn in turns:
        if turn["role"] == ASSISTANT[0] and "messages" in made:
            begun.append((*asked,))
        elif turn["role"] == "user":
            asked.append(normalize("NFC", turn["content"]).strip())
    return (*begun, (*asked,)) if turns else ()


def _leaking(compared: _Compared, held_out: _Compared) -> list[_Asked]:
    """The rows that are held out, go on from one that is, or begin one, where no other row teaches the beginning.

    Of sampled rows those that begin one are passed over: a row that was not read may teach the beginning.
    """
    rows = compared.rows
    questions = {row.whole for row in held_out.rows}
    beginnings = {question for row in held_out.rows for question in row.begun} if compared.whole else set()

    def shares(row: _Asked, taught: frozenset[Question]) -> bool:
        begins = row.whole in beginnings and row.whole not in taught
        return row.whole in questions or begins or not questions.isdisjoint(row.begun)

    taught = frozenset(question for row in rows if not shares(row, frozenset()) for question in row.begun)
    return [row for row in rows if shares(row, taught)]


def _told(loaded: LoadedRecipe, section: str, part: str, found: Sequence[_Asked], rows: _Compared) -> Diagnostic:
    limit = dropped_rows_limit().value
    title = f"{len(found)} of {rows.told} of data.{section} ask what rows of data.{part} ask"
    labels = (
        Label(loaded.place("data", part), "what these rows ask is not learned"),
        Label(loaded.place("data", section), f"the first that asks it, too, is {found[0].place}"),
    )
    help = [f"remove these questions from data.{part}, or these rows from data.{section}"]
    if len(found) <= limit * len(rows.rows):
        help.append('if training may leave these rows out, write allow = ["W0554"] under [recipe]')
    note = f"prepare_data.py leaves these rows out of training, and stops where they are more than {limit:.0%}"
    return Diagnostic("W0554", title, labels, tuple(help), (note,))


def _told_of_eval(loaded: LoadedRecipe, found: Sequence[_Asked], rows: _Compared) -> Diagnostic:
    title = f"{len(found)} of {rows.told} of data.eval ask what rows of data.test ask"
    labels = (
        Label(loaded.place("data", "test"), "what these rows ask chooses no checkpoint"),
        Label(loaded.place("data", "eval"), f"the first that asks it, too, is {found[0].place}"),
    )
    help = (
        "remove these questions from data.test, or these rows from data.eval",
        'if evaluation may leave these rows out, write allow = ["W0554"] under [recipe]',
    )
    note = "prepare_data.py leaves these rows out of evaluation: the test judges a checkpoint that they did not choose"
    return Diagnostic("W0554", title, labels, help, (note,))

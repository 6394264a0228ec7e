"""Rows that say by their words what must become of each part: learned, shown without being learned, or taken out."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import CARRIED, KINDS, ROW_FORMATS
from recipec.axes.row_formats import FROM_VALUE, IDS, MESSAGES
from recipec.facts.converting import SKIP
from recipec.verify.bundle import BundleStage
from recipec.verify.rows import GOOD, GROUP, TOOL, Example, NoSample, Row, SourceData, SplitColumn, split_value

UNKNOWN = "planted_by_verify"  # a column, and a field of a message, that nothing reads
A_QUESTION = "a question"  # what the word of a question is called
_THINKS = ("keep", "template")  # values of data.reasoning that leave thoughts in the text
LONG = (("question",),) * 2 + (("final", "other", "text"),) * 2  # the parts that are long in the first rows
_SPEAKERS = {"user": "human", "assistant": "gpt"}


class Carrying(Struct, frozen=True):
    """What the plan says of a stage's rows beside the columns of their format."""

    names: tuple[str, ...]  # of recipec.axes.CARRIED
    passed_over: tuple[str, ...]  # columns and fields that the recipe leaves out with open eyes
    thinks: bool  # thoughts stay in the text
    apart: bool  # the plan learns answers one by one: perhaps not all of a conversation
    skips: bool = False  # what is answered before the first question is left out

    def has(self, name: str) -> bool:
        """Whether rows carry it."""
        return name in self.names

    def written(self, names: Sequence[str]) -> str:
        """The first of these names that is not passed over."""
        return next(name for name in names if name not in self.passed_over)


def carrying(stage: BundleStage, source: SourceData, passed_over: Sequence[str]) -> Carrying:
    """What the rows of a source carry, as planned for its stage."""
    facts, takes = stage.decisions, ROW_FORMATS[source.format].carries
    names = tuple(name for name in facts.get("carried") or () if name in takes)
    last_alone = KINDS[ROW_FORMATS[source.format].kind].ends == ROW_FORMATS[facts["data_format"]].kind
    apart = facts["answers_apart"] or last_alone  # the last answer of a conversation, beside rows of one answer
    skips = facts.get("opening_answers") == SKIP and not last_alone
    return Carrying(names, tuple(passed_over), facts["reasoning"] in _THINKS, apart, skips)


class Wanted(Struct, frozen=True):
    """What must become of the words of a row, each with what it is."""

    learned: Mapping[str, str]
    shown: Mapping[str, str]  # without being learned
    absent: Mapping[str, str]
    sides: Mapping[str, int] = {}  # of a row that teaches several answers: which of them has the word
    group: str = ""  # the word that makes rows one conversation or question
    labels: Mapping[str, bool] = {}  # of answers that are wanted or not: whether the one with the word is
    answer: str = ""  # the word of its first answer
    opening: str = ""  # the word with which several conversations begin
    ends: bool = False  # there


class Filling(Struct, frozen=True):
    """Text that makes parts of a row long, so that what cuts them is seen."""

    text: str = ""
    parts: tuple[str, ...] = ()  # the words that stand before it, without their numbers

    def holds(self, part: str) -> bool:
        """Whether this part of the row is long."""
        return bool(self.text) and part in self.parts


PLAIN = Filling()


class Shared(Struct, frozen=True):
    """What a row asks that others ask, too."""

    repeats: int | None = None  # the number of the row whose question, or text, it repeats
    opens: int | None = None  # of the conversations that begin alike
    ends: bool = False  # it has nothing behind that beginning


OWN = Shared()


class Planted(Example):
    """A row whose every part has a word of its own, such as final-0012; a long one has another at its end."""

    def __init__(
        self, data: SourceData, number: int, carries: Carrying, filling: Filling = PLAIN, asked: Shared = OWN
    ) -> None:
        super().__init__(data, number, random.Random(number))
        self.carries, self._number, self.calls, self._filling = carries, number, False, filling
        self._talks, self._shares = "messages" in data.columns, asked
        pair = number if self._talks else number - number % 2  # two rows ask the same
        repeated = asked.repeats
        self._asked, self._topic = (pair, number) if repeated is None else (repeated, repeated)
        self._question = self._said_of("question", self._asked)
        self._opening = self._question if asked.opens is None else self._word("opening", asked.opens)

    def row(self) -> Row:
        """The row in the columns of the user's."""
        if self._data.content == IDS:
            raise NoSample("rows of tokens hold no words that could be planted")
        if missing := [role for role in self._data.columns if not hasattr(self, role)]:
            raise NoSample(f"nothing is known to write as the {missing[0]} of {self._data.format} rows")
        row = {column: getattr(self, role)() for role, column in self._data.columns.items()}
        row |= dict.fromkeys((name for name in self._data.handed if name not in row), self._word("judging"))
        row |= {self._data.hardness: self.hardness()} if self._data.hardness else {}
        if self.carries.has("tools"):
            row[self.carries.written(CARRIED["tools"].columns)] = [TOOL]
        if self.carries.has("system"):
            row[self.carries.written(CARRIED["system"].columns)] = self._word("system", self._asked)
        return row

    def wanted(self) -> Wanted:
        """What must become of its words."""
        learned, shown, absent = self._answers(), self._questions(), {}
        if self._answered or self._greets:
            absent[self._word("given")] = "an answer that is left out, before the first question or behind the last"
        if "input" in self._data.columns:
            shown[self.input()] = "an input"
        if self.carries.has("system"):
            shown[self._word("system", self._asked)] = "a system prompt"
        if self.carries.has("tools"):
            shown[TOOL["description"]] = "a tool"
        if self.carries.has("tools") and self._talks:
            shown[self._word("result")] = "the result of a call"
        if self._talks and self.carries.has("weight") and not self._shares.ends:
            shown[self._word("first")] = "an answer of weight 0"
        if self.carries.has("reasoning") and self._right:
            (learned if self.carries.thinks else absent)[self._word("thought")] = "a thought"
        if not ROW_FORMATS[self._data.format].turns:
            shown = {}
        learned, shown = self._with_ends(learned), self._with_ends(shown)
        if not KINDS[ROW_FORMATS[self._data.format].kind].taught:  # every token of a prompt counts
            return Wanted(shown, {}, absent, group=self._group())
        opening = "" if self._shares.opens is None else self._opening
        first = "first" if self._talks and not self._shares.ends else "final"
        beside = self._labels(), self._word(first), opening, self._shares.ends
        return Wanted(learned, shown, absent, self._sides(), self._group(), *beside)

    def _questions(self) -> dict[str, str]:
        asked = [] if self._shares.ends else [self._word("question", self._asked)]
        begun = [] if self._shares.opens is None else [self._opening]
        return dict.fromkeys([*asked, *begun], A_QUESTION)

    def _labels(self) -> dict[str, bool]:
        """Which of its answers are wanted, where rows are learned one answer at a time."""
        if "label" in self._data.columns:
            return {self._word("final" if self._right else "other"): self._right}
        return {self._word("final"): True, self._word("other"): False} if "rejected" in self._data.columns else {}

    def _with_ends(self, words: Mapping[str, str]) -> dict[str, str]:
        """The words, and those at the ends of long parts."""
        ends = {f"{word}-end": f"the end of {what}" for word, what in words.items() if self._filling.holds(word[:-5])}
        return {**words, **ends}

    def _sides(self) -> dict[str, int]:
        return {self._word("final"): 0, self._word("other"): 1} if "rejected" in self._data.columns else {}

    def _group(self) -> str:
        if not ROW_FORMATS[self._data.format].turns:
            return self._word("text", self._topic)
        return self._word("final") if self._shares.ends else self._word("question", self._asked)

    def _answers(self) -> dict[str, str]:
        """The words that must be learned, but for thoughts; of answers learned apart those that surely are."""
        if not ROW_FORMATS[self._data.format].turns:
            return {self._word("text", self._topic): "a text"}
        if not KINDS[ROW_FORMATS[self._data.format].kind].taught:
            return {}
        wrong = not self._talks and not self._right
        found = {self._word("other" if wrong else "final"): "an answer"}
        if "rejected" in self._data.columns:
            found[self._word("other")] = "a rejected answer"
        if self._talks and not self.carries.apart and not self._shares.ends:
            found[self._word("first")] = "an answer before the last"
        if self._talks and self.carries.has("tools") and (self.carries.has("weight") or not self.carries.apart):
            found[self._word("call")] = "the argument of a call"
        return found

    def text(self) -> str:
        return self._said_of("text", self._topic)

    def input(self) -> str:
        return self._word("input", self._asked)

    def messages(self) -> list[Row]:
        weight = {self.carries.written(CARRIED["weight"].fields): 0} if self.carries.has("weight") else {}
        begun = [
            self._turn("assistant", self._word("first")) | weight,
            self._turn("user", f"again {self._question}"),
        ]
        turns = [
            *([self._turn("assistant", self._word("given"))] if self._greets else []),
            self._turn("user", self._opening),
            *([] if self._shares.ends else begun),
            *(self._called() if self.carries.has("tools") else ()),
            self._turn("assistant", self._parted(self._said_of("final"))),
        ]
        if self.carries.has("reasoning"):
            turns[-1][self.carries.written(CARRIED["reasoning"].fields)] = self._word("thought")
        return turns

    def prompt(self) -> Any:
        asked = super().prompt()
        return [*asked, self._turn("assistant", self._word("given"))] if self._answered else asked

    @property
    def _answered(self) -> bool:
        """Whether it is a conversation of which the model answers the last question anew."""
        return not KINDS[ROW_FORMATS[self._data.format].kind].taught and self._data.content in (MESSAGES, FROM_VALUE)

    @property
    def _greets(self) -> bool:
        """Whether it is a conversation that begins with an answer, as every second one does."""
        return self._talks and self.carries.skips and self._number % 2 == 1

    def _called(self) -> list[Row]:
        call = {"name": TOOL["name"], "arguments": {"word": self._word("call")}}
        if self._data.content == FROM_VALUE:
            spoken = [("function_call", json.dumps(call)), ("observation", self._word("result"))]
            return [{"from": speaker, "value": text} for speaker, text in spoken]
        asked = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
        return [asked, {"role": "tool", "content": self._word("result")}]

    def _parted(self, text: str) -> Any:
        """The text in two parts, where rows carry such."""
        if not self.carries.has("parts"):
            return text
        half = len(text) // 2
        return [{"type": "text", "text": part} for part in (text[:half], text[half:])]

    def _turn(self, role: str, content: Any) -> Row:
        if self._data.content == FROM_VALUE:
            return {"from": _SPEAKERS[role], "value": content}
        return {"role": role, "content": content}

    def _answer(self, words: list[str]) -> str:
        text = self._said_of("final" if words is GOOD else "other")
        thinks = self.carries.has("reasoning") and words is GOOD and not self._hands_over
        return f"<think>\n{self._word('thought')}\n</think>\n\n{text}" if thinks else text

    @property
    def _hands_over(self) -> bool:
        """Whether thoughts stand in a field of messages: some chat templates know no others."""
        return self.carries.thinks and self._data.content in (MESSAGES, FROM_VALUE)

    def _said(self, role: str, text: str) -> Any:
        said = super()._said(role, text)
        if self._hands_over and self.carries.has("reasoning") and text == self._said_of("final"):
            said[-1][self.carries.written(CARRIED["reasoning"].fields)] = self._word("thought")
        return said

    def _said_of(self, kind: str, number: int | None = None) -> str:
        """The word of a part, and what makes the part long."""
        word = self._word(kind, number)
        return f"{word} {self._filling.text} {word}-end" if self._filling.holds(kind) else word

    def _word(self, kind: str, number: int | None = None) -> str:
        return f"{kind}-{self._number if number is None else number:04d}"


def planted(
    data: SourceData, carries: Carrying, numbers: Sequence[int], filler: str = "", asked: Sequence[Shared] = ()
) -> list[Planted]:
    """One row for each number: the first two have a long question, the next two long answers.

    The last ones ask what is `asked` elsewhere, where there are rows enough.
    """
    asked = asked if len(numbers) > len(LONG) + len(asked) else ()
    fillings = [Filling(filler, parts) for parts in LONG] + [PLAIN] * len(numbers)
    plain = [OWN] * (len(numbers) - len(asked))
    return [
        Planted(data, number, carries, filling, of)
        for number, filling, of in zip(numbers, fillings, [*plain, *asked], strict=False)
    ]


def alike(numbers: Sequence[int], most: int) -> list[Shared]:
    """Of so many rows: conversations that begin alike, more of them than the `most` that a split keeps together.

    One of each family ends there: whichever is held out, others would be its leaks if they were trained on.
    """
    size = most + 2
    starts = numbers[: len(numbers) // size * size : size]
    return [Shared(opens=start, ends=place == 0) for start in starts for place in range(size)]


def written(rows: Sequence[Planted], split: SplitColumn | None) -> list[Row]:
    """The rows as the user's file has them, with the column that rows are split by: some pairs are in two groups."""
    by = {} if split is None else {split.column: None}
    return [row.row() | {column: split_value(split, _placed(index)) for column in by} for index, row in enumerate(rows)]


def _placed(index: int) -> int:
    """Where a row stands for its group: that of the next ones for the second row of a group."""
    return index + GROUP if index % GROUP == 1 else index


def unread_names(data: SourceData, carries: Carrying) -> tuple[list[str], list[str]]:
    """Columns, and fields of messages, that nothing reads or passes over, so that each must be refused by its name."""
    others = [CARRIED[name] for name in ROW_FORMATS[data.format].carries if not carries.has(name)]
    columns = [UNKNOWN, *(name for other in others for name in other.columns[:1])]
    fields = [UNKNOWN, *(name for other in others for name in other.fields[:1])]
    known = {*carries.passed_over, *data.columns.values(), *data.handed}
    speaks = data.content in (MESSAGES, FROM_VALUE)
    return [name for name in columns if name not in known], [n for n in fields if n not in known] if speaks else []


def with_columns(row: Row, names: Sequence[str]) -> Row:
    """The row with columns that nothing reads."""
    return row | dict.fromkeys(names, "planted")


def with_fields(row: Row, data: SourceData, names: Sequence[str]) -> Row:
    """The row with fields that nothing reads in the last message of each of its columns that hold messages."""
    spoken = {column: row[column] for column in data.columns.values() if isinstance(row.get(column), list)}
    more = dict.fromkeys(names, "planted")
    return row | {column: [*turns[:-1], turns[-1] | more] for column, turns in spoken.items()}

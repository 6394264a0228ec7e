"""A column beside a text that holds its class, or what is made of it, which a model can learn to answer with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from recipec.axes import RowFormat
from recipec.axes.row_formats import CLASS_WORDS, MADE_WORDS, PROMPT_COMPLETION, SPEAK_FOR, TEXT
from recipec.dataset.column_names import is_filed_under, orders, speaks
from recipec.dataset.commands import text_command
from recipec.dataset.contents import NOTHING, Row, names_in

_COLUMNS = re.compile(r"`(columns = \{.*?\})`")
# A class is short, and rows share it. A column whose name does not say so has few of them. All are recipec's choice.
_MOST_CHARACTERS, _SHARED_BY, _FEW, _FEW_SHARED_BY = 60, 2, 20, 5


def class_columns(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that hold classes, the ones first whose names say so."""
    found = [name for name in names if _holds_classes(rows, name)]
    return sorted(found, key=lambda name: not named_as_class(name))


def named_as_class(name: str) -> bool:
    """Whether the name of a column says that it holds classes."""
    return any(word in name.lower() for word in CLASS_WORDS)


def answers_beside(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that hold answers by their names, as texts that differ, or several classes of each row."""
    return [name for name in names if _holds_answers(rows, name) or _holds_lists_of_classes(rows, name)]


def _holds_answers(rows: Sequence[Row], name: str) -> bool:
    said = [row[name] for row in rows if row.get(name) not in NOTHING]
    texts = len({*said}) > 1 if all(isinstance(value, str) for value in said) else False
    return texts and speaks(name, (*SPEAK_FOR["completion"], *MADE_WORDS)) and not is_filed_under(rows, name)


def _holds_lists_of_classes(rows: Sequence[Row], name: str) -> bool:
    said = [row[name] for row in rows if row.get(name) not in NOTHING]
    lists = all(isinstance(value, list) and all(isinstance(one, str) for one in value) for value in said)
    return bool(said) and lists and named_as_class(name)


def _holds_classes(rows: Sequence[Row], name: str) -> bool:
    said = [row[name] for row in rows if row.get(name) not in NOTHING]
    if not all(isinstance(value, str | int) and len(str(value)) <= _MOST_CHARACTERS for value in said):
        return False
    many = len({str(value) for value in said})
    if named_as_class(name):
        return 0 < many * _SHARED_BY <= len(said)
    if orders(name, said) or is_filed_under(rows, name):
        return False
    return 1 < many <= _FEW and many * _FEW_SHARED_BY <= len(said)


def answered_with(rows: Sequence[Row], place: str, text: str, name: str) -> str:
    """The lines that train a model to answer a text with the class in a column."""
    line = f"to train a model that answers with `{name}`: `columns = {columns_for(text, name)}` under [data]"
    if all(isinstance(row.get(name), str | None) for row in rows):
        return line
    return f"{line}, after {text_command([name], {}, place)}"


def columns_for(text: str, name: str) -> str:
    """The value of data.columns with which a text is the question, and a class the answer."""
    named = answer_columns(text, name).items()
    return f"{{ {', '.join(f'{role} = {json.dumps(column, ensure_ascii=False)}' for role, column in named)} }}"


def answer_columns(text: str, name: str) -> dict[str, str]:
    """The columns of a text as the question, and of a class as the answer."""
    return dict(zip((role.name for role in PROMPT_COMPLETION.required), (text, name), strict=True))


def suggested_answers(rows: Sequence[Row], place: str, formats: Iterable[RowFormat]) -> Iterator[str]:
    """Yield the lines for a class and the one text beside it, where rows may be questions with answers."""
    if PROMPT_COMPLETION in formats and (found := text_and_class(rows)):
        yield answered_with(rows, place, *found)


def each_once(answers: Sequence[str], others: Sequence[str]) -> list[str]:
    """The other lines and those of answers, whose columns are not told once more: the latter may have a command."""
    told = {columns for line in answers for columns in _COLUMNS.findall(line)}
    return [*(line for line in others if told.isdisjoint(_COLUMNS.findall(line))), *answers]


def text_and_class(rows: Sequence[Row]) -> tuple[str, ...]:
    """The column of the one text and that of its class, whose name says so; () where rows have no such two."""
    names = names_in(rows)
    classes = class_columns(rows, filter(named_as_class, names))
    texts = [name for name in names if name not in classes and all(isinstance(row.get(name), str) for row in rows)]
    known = [name for name in texts if name.lower() in TEXT.required[0].aliases] or texts
    return (known[0], classes[0]) if classes and len(known) == 1 else ()


def text_and_answer(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of a text and of the only answer to it, which is a text; () where rows have no such two."""
    names = names_in(rows)
    answers = [
        name for name in answers_beside(rows, names) if all(isinstance(row.get(name), str | None) for row in rows)
    ]
    texts = [name for name in names if name.lower() in TEXT.required[0].aliases]
    return (texts[0], answers[0]) if len(texts) == len(answers) == 1 else ()


def two_readings(row: Row, place: str, columns: Mapping[str, str], name: str) -> str:
    """A row of text with a class beside it, as a question with its answer and as a text alone."""
    text = columns[TEXT.required[0].name]
    asked, answer = (_shown(row[column]) for column in (text, name))
    return f"{place} is the question {asked} with the answer {answer} (`{name}`), or the text {asked} alone"


def _shown(value: object) -> str:
    said = json.dumps(value, ensure_ascii=False, default=str)
    return said if len(said) <= _MOST_CHARACTERS else f"{said[:_MOST_CHARACTERS]}…"

"""What the words of a column's name speak for, and columns that rows are filed under: ids, addresses, dates, counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from recipec.dataset.contents import NOTHING, Row

_STEM = 6  # letters from which on a word may go on, or be the end of another: "userquestion", "categories"
_AGAINST = ("un", "dis", "mis", "non")  # "undesirable" is not desirable
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_LETTERS = re.compile(r"[\W\d_]+")
# Words that say of a name what it is about, anywhere in it or at the end of several: recipec's choice.
_FILED = {"id", "ids", "idx", "index", "uid", "uuid", "guid", "url", "uri", "link", "hash"}
_FILED |= {"date", "datetime", "time", "timestamp", "ts"}
_FILED_AT_END = {"at", "email", "mail", "phone", "name", "count", "token", "tokens", "length", "lang", "language"}
_FILED_AT_END |= {"locale"}
# Words that say in which order rows stand.
_ORDER = ("seq", "sequence", "turn", "step", "position", "pos", "order", "index", "idx", "number", "num", "no", "at")
_ORDER += ("date", "datetime", "time", "timestamp", "ts", "created", "sent")
_SORTS = re.compile(r"\d{4}-\d{2}-\d{2}")
_ID = re.compile(r"(?=\D*\d)[\w.:-]{1,64}", re.ASCII)  # of letters, with a digit: a short prompt may be one word
_NUMBER = re.compile(r"[-+]?[\d.,]*\d%?")
_FILED_VALUE = re.compile(
    r"[^@\s]+@[^@\s]+\.\w+"  # an e-mail address
    r"|https?://\S+"
    r"|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ][\d:.]+( ?[AP]M)?(Z|[-+][\d:]+)?)?"
)


def words_of(name: str) -> list[str]:
    """The words of a name, which spaces, marks, digits or capital letters part."""
    return [word.lower() for word in _NO_LETTERS.split(_CAMEL.sub(" ", name)) if word]


def speaks(name: str, words: Iterable[str]) -> bool:
    """Whether one of the words is in the name as a word, not as letters of another one: "ask" is not in "task"."""
    return any(_is(own, word) for own in words_of(name) for word in words)


def _is(own: str, word: str) -> bool:
    if own in (word, f"{word}s", f"{word}es"):
        return True
    front = own.removesuffix(word)
    return len(word) >= _STEM and (own.startswith(word) or (front != own and front not in _AGAINST))


def is_exactly(name: str, words: Iterable[str]) -> bool:
    """Whether a name is one of the words, however it is written."""
    return "_".join(words_of(name)) in words


def is_filed_under(rows: Sequence[Row], name: str) -> bool:
    """Whether a column holds nothing that is said, by its name or by all that it holds."""
    values = [row[name] for row in rows if row.get(name) not in NOTHING]
    if any(isinstance(value, list | dict) for value in values):
        return False
    return _names_a_thing(words_of(name)) or _all_are(_FILED_VALUE, values)


def _names_a_thing(words: Sequence[str]) -> bool:
    return not _FILED.isdisjoint(words) or (len(words) > 1 and words[-1] in _FILED_AT_END)


def asks(rows: Sequence[Row], name: str) -> bool:
    """Whether a column may hold what is asked, or a text: what is filed, plain numbers and ids such as p17 are not."""
    values = [row[name] for row in rows if row.get(name) not in NOTHING]
    return not (is_filed_under(rows, name) or _all_are(_NUMBER, values) or are_ids(values))


def are_ids(values: Sequence[Any]) -> bool:
    """Whether values only name something: texts such as p17, of letters and digits, no two of which are alike."""
    return _all_are(_ID, values) and len({*values}) == len(values)


def orders(name: str, values: Sequence[Any]) -> bool:
    """Whether a column says in which order rows stand: a number or a date of a name that says so."""
    return speaks(name, _ORDER) and all(isinstance(value, int | float) or _sorts(value) for value in values)


def _sorts(value: Any) -> bool:
    """Whether texts like this one sort as the times or the numbers that they write."""
    return isinstance(value, str) and bool(_NUMBER.fullmatch(value.strip()) or _SORTS.match(value))


def _all_are(pattern: re.Pattern[str], values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) and pattern.fullmatch(value.strip()) for value in values)

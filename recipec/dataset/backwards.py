"""Columns of flags that are true of bad answers, by their names: `thumbs_down`, `is_bad`. A label is true of good ones.

No such column is proposed as a label. The commands write its opposite as `label`; where rows also have a column of the
other name, such as `thumbs_up`, they write a label from both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recipec.axes.row_formats import DIGITS, FLAG_TEXTS, WORDS
from recipec.dataset.commands import file_of, python_command, rows_as_json
from recipec.dataset.contents import Row, flag_of, flag_text, rated_columns

# Pairs whose words do not say what they rate, as "good" and "bad" do: the name of the column does.
PLAIN = WORDS, DIGITS, "1.0 or 0.0", "yes or no"
NAMED_LABEL = ', then name the new file, and write `label = "label"` in `data.columns`'  # where a label has a name
_TEXTS = {text for name in PLAIN for text in FLAG_TEXTS[name]}
_BAD = re.compile(
    r"(?<![a-z])(down(?![a-z])|thumbs?down|downvot|dislik|disapprov|dispref|bad(?![a-z])|poor|wors|los[ei]|flagged|"
    r"reject|declin|negativ|undesir|unaccept|unhelpful|unlik|unsafe|unpref|wrong|incorrect|harmful|toxic|spam|fail|"
    r"error|inappropriate|offensive|hallucinat|reported|complain)"
)
_NOT = re.compile(r"(?<![a-z])(not|non|without)(?![a-z])")
_OPPOSITES = {"down": "up", "dislike": "like", "bad": "good", "negative": "positive", "rejected": "accepted", "un": ""}


def says_bad(name: str) -> bool:
    """Whether the name of a column of flags says that an answer is bad; "not_bad" says the opposite."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return bool(_BAD.search(words)) != bool(_NOT.search(words))


def is_backwards(rows: Sequence[Row], name: str) -> bool:
    """Whether a column of flags is true of bad answers by its name; words such as "good" speak for themselves."""
    said = {flag_text(row.get(name)) for row in rows if flag_of(row.get(name)) is not None}
    return bool(said) and said <= _TEXTS and says_bad(name)


def forward(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that may be a label as they are: neither true of bad answers, nor one of two that rate."""
    listed = [*names]
    bad = [name for name in listed if is_backwards(rows, name)]
    halves = {half for name in bad if (half := other_half(name, rows))}
    return [name for name in listed if name not in bad and name not in halves]


def as_labels(rows: Sequence[Row], place: str, names: Iterable[str]) -> Iterator[str]:
    """Yield, for the columns that are true of bad answers, how to make labels of them: the command, and for which."""
    for name in rated_columns(rows, names):
        if is_backwards(rows, name) and (command := _command(rows, name, place)):
            yield f"{_said(rows, name)}: {command}"


def other_half(name: str, rows: Sequence[Row]) -> str:
    """The column that is true of good answers, beside one that is true of bad ones; "" where there is none."""
    others = (name.replace(bad, good, 1) for bad, good in _OPPOSITES.items() if bad in name)
    return next((other for other in others if any(flag_of(row.get(other)) is not None for row in rows)), "")


def _said(rows: Sequence[Row], name: str) -> str:
    good = other_half(name, rows)
    if not good:
        return f"`{name}` is true of bad answers, and a label is true of good ones; to write its opposite as `label`"
    neither = sum((flag_of(row.get(good)) is True) == (flag_of(row.get(name)) is True) for row in rows)
    lost = f" and leave out rows that say neither or both ({neither:,} of {len(rows):,} sampled)" * bool(neither)
    return f"`{good}` and `{name}` rate together; to write a `label` of both{lost}"


def _command(rows: Sequence[Row], name: str, place: str) -> str:
    """The command that writes rows with a label instead of the columns of flags."""
    good = other_half(name, rows)
    read = json.dumps([*filter(None, [good]), name, "label"], ensure_ascii=False)
    (true, false), bad = pair_of(rows, name), flag_in_python(name)
    label, each = f'{{"{true}": False, "{false}": True}}.get({bad})', "for row in rows"
    if good:
        label = f'{flag_in_python(good)} == "{pair_of(rows, good)[0]}"'
        each = f'for row in rows if ({label}) != ({bad} == "{true}")'
    made = f'{{key: value for key, value in row.items() if key not in {read}}} | {{"label": {label}}}'
    return rows_as_json(made, place, each) if file_of(place).endswith(".csv") else python_command(made, each, place)


def pair_of(rows: Sequence[Row], name: str) -> tuple[str, str]:
    """How a column of flags writes true and false."""
    said = next(flag_text(row.get(name)) for row in rows if flag_of(row.get(name)) is not None)
    return next(pair for pair in FLAG_TEXTS.values() if said in pair)


def as_written(rows: Sequence[Row], name: str) -> tuple[Any, Any]:
    """True and false as a column of flags has them."""
    said = next(row[name] for row in rows if flag_of(row.get(name)) is not None)
    return pair_of(rows, name) if isinstance(said, str) else (type(said)(1), type(said)(0))


def flag_in_python(name: str) -> str:
    """The flag of a row as it is compared, for Python."""
    return f"str(row.get({json.dumps(name, ensure_ascii=False)})).strip().lower()"

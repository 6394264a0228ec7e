"""Answers that follow each other in a conversation, and the command that makes one answer of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes import CARRIED
from recipec.axes.row_formats import MESSAGES
from recipec.dataset.commands import jq, path_of
from recipec.dataset.contents import ASSISTANT, THOUGHT, Row, turns_of
from recipec.dataset.formats import DataShape

_BOTH = f'.[-1].role == "{ASSISTANT[0]}" and $next.role == "{ASSISTANT[0]}"'
_JOINED = '.[-1] + $next + {content: (.[-1].content + "\\n\\n" + $next.content)}'


def answers_joined(rows: Sequence[Row], places: Sequence[str], shape: DataShape) -> Iterator[str]:
    """Yield the command that joins an answer without a thought and the next one, whose thought then stands first.

    None where answers are no texts, or hold thoughts or calls that would stand in the middle of one.
    """
    (name,) = shape.columns.values()
    turns = [turn for row in rows for turn in turns_of(row.get(name))]
    answers = [turn for turn in turns if turn.get("role") == ASSISTANT[0]]
    whole = all(isinstance(turn.get("content"), str) and not turn.get("tool_calls") for turn in answers)
    tagged = any(THOUGHT[1] in str(turn.get("content")) for turn in answers)
    if shape.content == MESSAGES and whole and not tagged:
        fields = [field for field in CARRIED["reasoning"].fields if any(turn.get(field) for turn in answers)]
        silent = "".join(f' and (.[-1]{path_of(field)} // "") == ""' for field in fields)
        program = f"{path_of(name)} |= reduce .[] as $next ([]; if {_BOTH}{silent} then .[-1] = ({_JOINED})"
        if command := jq(f"{program} else . + [$next] end)", places[0]):
            yield f"join answers that follow each other: {command}"

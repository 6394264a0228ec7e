"""Questions whose answer stands beside them: about a passage, as SQuAD has them, or in a column as a reference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.axes.row_formats import SPEAK_FOR
from recipec.dataset.commands import file_of, rows_command
from recipec.dataset.contents import NOTHING, Row, turns_of

PASSAGE = "context"
_REFERENCES = (*SPEAK_FOR["completion"], "truth", "reference", "expected")


def with_passage(rows: Sequence[Row], place: str, asked: str) -> Iterator[str]:
    """Yield the command that puts the passage which a question is about before it, where both are texts."""
    if asked != PASSAGE and all(isinstance(row.get(name), str) for row in rows for name in (PASSAGE, asked)):
        name = json.dumps(asked, ensure_ascii=False)
        whole = f'row | {{{name}: "\\n\\n".join(filter(None, [row["{PASSAGE}"], row[{name}]]))}}'
        made = f'{{key: held for key, held in ({whole}).items() if key != "{PASSAGE}"}}'
        if command := rows_command(made, "for row in rows", place):
            yield f"to ask with `{PASSAGE}` before the question: {command}"


def with_references(rows: Sequence[Row], places: Sequence[str], column: str) -> Iterator[str]:
    """Yield what makes use of answers beside conversations that end with a question, as OpenAI's RFT has them."""
    names = [name for name in rows[0] if name != column and any(word in name.lower() for word in _REFERENCES)]
    names = [name for name in names if all(row.get(name) not in NOTHING for row in rows)]
    turns = [turns_of(row.get(column)) for row in rows]
    if not names or not all(each and "role" in each[0] and each[-1].get("role") == "user" for each in turns):
        return
    name, talk = (json.dumps(text, ensure_ascii=False) for text in (names[0], column))
    if all(isinstance(row[names[0]], str | int | float) for row in rows):
        said = f'row[{talk}] + [{{"role": "assistant", "content": str(row[{name}])}}]'
        made = f"{{key: held for key, held in (row | {{{talk}: {said}}}).items() if key != {name}}}"
        if command := rows_command(made, "for row in rows", places[0]):
            yield f"to learn `{names[0]}` as the answer: {command}"
    yield (
        f"to learn from answers that the model writes and a reward compares with `{names[0]}`: "
        f"`prompts = {json.dumps(file_of(places[0]), ensure_ascii=False)}` in place of `train` and "
        f'`columns = {{ prompt = {talk} }}` under [data], `task = "align"` under [goal], and '
        '`method = "grpo"` and `reward = "FILE.py:FUNCTION"` under [alignment]'
    )

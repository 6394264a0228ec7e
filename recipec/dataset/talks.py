"""Conversations that rows do not hold as lists of messages, but as texts with the turns written out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from shlex import quote

from recipec.dataset.commands import leaving_out, new_file
from recipec.dataset.contents import Row
from recipec.dataset.labeled import in_place_of

# How turns are written in a text: "### Human: " in Guanaco, "\n\nHuman: " in hh-rlhf, and by the marks of templates.
_USER = re.compile(
    r"(?:^|\n|### ?)(?:human|user|instruction)\s*:|<\|im_start\|>user|<start_of_turn>user|\[INST\]"
    r"|<\|start_header_id\|>user",
    re.IGNORECASE,
)
_ASSISTANT = re.compile(
    r"(?:\n|### ?)(?:assistant|gpt|bot|response)\s*:|<\|im_start\|>assistant|<start_of_turn>model|\[/INST\]"
    r"|<\|start_header_id\|>assistant",
    re.IGNORECASE,
)
_GUANACO = "### Human:"
# Whoever speaks, for jq and for Python. A heading such as "### Example:" is a part of what is said.
_MARK = "### *(?:human|user|instruction|assistant|gpt|bot|response|system) *:"
_WHOLE = (
    f'startswith("{_GUANACO}") and ([match("{_MARK}"; "gi").string] | to_entries '
    '| all(.value == (if .key % 2 == 0 then "### Human:" else "### Assistant:" end)))'
)
_TURNS = (
    r'match("### (Human|Assistant): *(.*?)\\s*(?=### (?:Human|Assistant):|$)"; "gp") | .captures '
    r'| {from: (if .[0].string == "Human" then "human" else "gpt" end), value: .[1].string}'
)


def written_out(text: str) -> bool:
    """Whether a text is a conversation with its turns written out."""
    return bool(_USER.search(text) and _ASSISTANT.search(text))


def rewritten(column: str, rows: Sequence[Row], file: str) -> Iterator[str]:
    """Yield the command that makes conversations of such texts, where it takes some of them apart as a whole."""
    whole = [_alternates(str(row.get(column))) for row in rows]
    if any(whole) and file.endswith(".jsonl") and column.isidentifier():
        program = f"select(.{column} | {_WHOLE}) | .conversations = [.{column} | {_TURNS}] | del(.{column})"
        left = {"texts that have more than `### Human:` and `### Assistant:` in turn": whole.count(False)}
        told = in_place_of(rows, ["conversations"]) + leaving_out(left if False in whole else {}, len(rows))
        yield f"make conversations of them{told}: `jq -c {quote(program)} {quote(file)} > {new_file(file)}`"


def _alternates(text: str) -> bool:
    """Whether a text begins with a question, and nobody speaks in it but a human and an assistant in turn.

    A mark that is quoted, or a turn of somebody else, would be taken for the end of what is said.
    """
    marks = re.findall(_MARK, text, re.IGNORECASE)
    asked = (f"### {who}:" for who in cycle(("Human", "Assistant")))
    return text.startswith(_GUANACO) and all(mark == one for mark, one in zip(marks, asked, strict=False))

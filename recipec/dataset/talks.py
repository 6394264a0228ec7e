"""Conversations that rows do not hold as lists of messages: trees of them, and texts with the turns written out.

What is known of either is how to rewrite it; the commands are for jq.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from recipec.dataset.contents import Row

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
_SPEAKER = 'if .role == "prompter" then "user" else .role end'
_TURNS = (
    r'match("### (Human|Assistant): *(.*?)\\s*(?=### (?:Human|Assistant):|$)"; "gp") | .captures '
    r'| {from: (if .[0].string == "Human" then "human" else "gpt" end), value: .[1].string}'
)
# Of messages that name the one which they answer, and of whole trees: a row for each answer, with what came before it.
_OF_MESSAGES = (
    'INDEX(.message_id) as $all | .[] | select(.role == "assistant") |%s '
    f'[recurse($all[.parent_id // ""] // empty) | {{role: ({_SPEAKER}), content: .text}}] | reverse '
    "| {prompt: .[:-1], completion: .[-1:]}"
)
_OF_TREES = (
    f"%sdef rows($before): ($before + [{{role: ({_SPEAKER}), content: .text}}]) as $all "
    '| (select(.role == "assistant") | {prompt: $all[:-1], completion: $all[-1:]}), (.replies[]? | rows($all)); '
    ".prompt | rows([])"
)


def written_out(text: str) -> bool:
    """Whether a text is a conversation with its turns written out."""
    return bool(_USER.search(text) and _ASSISTANT.search(text))


def rewritten(column: str, text: str, file: str) -> Iterator[str]:
    """Yield the command that makes conversations of such texts, where it is known for the way they are written."""
    if text.startswith(_GUANACO) and file.endswith(".jsonl") and column.isidentifier():
        program = f".conversations = [.{column} | {_TURNS}] | del(.{column})"
        new = quote(f"{file.removesuffix('.jsonl')}.new.jsonl")
        yield f"make conversations of them: `jq -c {quote(program)} {quote(file)} > {new}`"


def trees(rows: Sequence[Row], file: str, kept: Sequence[str] = ()) -> Iterator[str]:
    """Yield the command that makes rows of prompts and answers of trees of messages, as those of OASST.

    The columns that are `kept` are in the new rows, too.
    """
    names = [json.dumps(name, ensure_ascii=False) for name in kept if name in rows[0]]
    row = " . as $row |" * bool(names)
    also = f" + {{{', '.join(f'{name}: $row[{name}]' for name in names)}}}" * bool(names)
    new = quote(f"{file.removesuffix('.jsonl')}.new.jsonl")
    if {"message_id", "parent_id", "role", "text"} <= rows[0].keys():
        command = f"jq -sc {quote(_OF_MESSAGES % row + also)} {quote(file)} > {new}"
    elif _is_tree(rows[0].get("prompt")):
        program = _OF_TREES % row.lstrip() + " | ." * bool(also) + also
        command = f"jq -c {quote(program)} {quote(file)} > {new}"
    else:
        return
    made = "make a row of each answer, with what came before it as its prompt"
    yield f"{made}: `{command}`" if file.endswith(".jsonl") else f"write JSON lines, and {made}"


def _is_tree(value: Any) -> bool:
    return isinstance(value, Mapping) and {"text", "role", "replies"} <= value.keys()

"""Conversations that rows do not hold as lists of messages, but as texts with the turns written out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

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
_TURNS = (
    r'match("### (Human|Assistant): *(.*?)\\s*(?=### (?:Human|Assistant):|$)"; "gp") | .captures '
    r'| {from: (if .[0].string == "Human" then "human" else "gpt" end), value: .[1].string}'
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

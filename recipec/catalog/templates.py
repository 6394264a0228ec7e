"""Chat templates by name: how the assistant's tokens are told apart in them, and what ends a turn."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, convert

NO_MARKS, BY_TRL, BY_TURNS = "none", "trl", "turns"  # who marks the assistant's tokens: nobody, TRL, the bundle
MARKED = (BY_TRL, BY_TURNS)
SHOWN, REFUSED, BEFORE_LAST = SYSTEMS = "shown", "refused", "before-last-question"
LOST, BEFORE_ANSWER = "lost", "lost-before-answer"
BESIDE_CALLS = (SHOWN, LOST, BEFORE_ANSWER)
_FILE = Path(__file__).with_suffix(".toml")


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a chat template; its text is the tokenizer's."""

    marks: str  # trl | turns | none: who marks the assistant's tokens in it
    end: str  # the token that ends a turn
    source: str
    checked: date
    empty_thought: bool = False  # it writes an empty thought before an answer that has none
    cuts: bool = False  # what an answer says before </think> is shown as a thought, or is lost
    drops_thoughts: bool = False  # it writes no thought before an answer, wherever a row has it
    told_thoughts: str = ""  # without an empty one it writes those in a field: beside "calls", or before all "answers"
    moves_thought: bool = False  # of answers that follow each other it writes the empty thought before the last alone
    tools: bool = False  # it shows tools, calls and results, and TRL finds the calls in what a model writes
    quiet: bool = False  # a prompt ends with an empty thought unless thinking is asked for
    begins_thought: bool = False  # a prompt ends with <think>, unless thinking is turned off
    unended: bool = False  # nothing ends an answer that comes last, but in TRL's version of it
    keeps_thoughts: bool = False  # TRL's version writes thoughts before earlier answers too, which it leaves out
    system: str = SHOWN  # of SYSTEMS: what becomes of a system message
    alternates: bool = False  # beside system messages, turns of the user and the assistant in turn, and no others
    passes_calls: bool = False  # of turns that alternate it counts no calls of tools, and no results
    one_call: bool = False  # of several calls in one message it writes the first alone, or stops there
    beside_call: str = SHOWN  # of BESIDE_CALLS: what becomes of a text in a message that calls a tool
    no_calls: bool = False  # it writes no calls of tools, or stops at one
    system_first: bool = False  # it refuses or leaves out a system message that is not the first message
    head_tokens: int = 0  # that it writes before the messages of every conversation
    system_tokens: int = 0  # beside them, where a conversation has no system message
    sha256: tuple[str, ...] = ()  # of its texts, where a source has them byte for byte


@cache
def templates() -> Mapping[str, Template]:
    """All templates of the catalog by name; reads the file once in a process."""
    return convert(tomllib.loads(_FILE.read_text(encoding="utf-8")), dict[str, Template])


def template_with(text: str) -> str | None:
    """The name of the template that has this very text; None where no source has it."""
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()  # JSON can write half a character
    return next((name for name, template in templates().items() if digest in template.sha256), None)

"""Thoughts before an answer between other tags than those that chat templates read: the command that renames them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipec.dataset.commands import sed
from recipec.dataset.contents import THOUGHT

# Tags of public data around what is thought, in any case, and those around the answer behind it, which no template has.
_TAGS = {
    THOUGHT: (),
    ("<reasoning>", "</reasoning>"): (),
    ("<thinking>", "</thinking>"): (),
    ("<thought>", "</thought>"): (),
    ("<|begin_of_thought|>", "<|end_of_thought|>"): ("<|begin_of_solution|>", "<|end_of_solution|>"),
}


def thoughts_renamed(text: str, place: str) -> Iterator[str]:
    """Yield what to do with an answer that begins with a thought between other tags: the command that renames them."""
    for first, last, dropped in _other_tags(text):
        renamed = [*zip((first, last), THOUGHT, strict=True), *((tag, "") for tag in dropped)]
        programs = [f"s#{tag}#{then}#g" for tag, then in renamed]
        what = f"answers have thoughts between {first} and {last}, which are learned as parts of the answers"
        yield f"{what}: write {' and '.join(THOUGHT)} instead with {sed(programs, place)}"


def _other_tags(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The tags around a thought that an answer begins with, as it writes them, and those around what it says."""
    for (first, last), around in _TAGS.items():
        begun, ended = re.match(rf"\s*({re.escape(first)})", text, re.I), re.search(re.escape(last), text, re.I)
        if begun and ended and (begun[1], ended[0]) != THOUGHT:
            yield begun[1], ended[0], around

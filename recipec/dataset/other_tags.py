"""Thoughts before an answer between other tags than those that chat templates read: the command that renames them."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.dataset.commands import sed
from recipec.dataset.contents import THOUGHT

# Tags of public data around what is thought, and those around the answer behind it, which no template has.
_TAGS = {
    ("<reasoning>", "</reasoning>"): (),
    ("<thinking>", "</thinking>"): (),
    ("<thought>", "</thought>"): (),
    ("<|begin_of_thought|>", "<|end_of_thought|>"): ("<|begin_of_solution|>", "<|end_of_solution|>"),
}


def thoughts_renamed(text: str, place: str) -> Iterator[str]:
    """Yield what to do with an answer that begins with a thought between other tags: the command that renames them."""
    for tags, dropped in _TAGS.items():
        if text.lstrip().startswith(tags[0]) and tags[1] in text:
            renamed = [*zip(tags, THOUGHT, strict=True), *((tag, "") for tag in dropped)]
            programs = [f"s#{tag}#{then}#g" for tag, then in renamed]
            what = f"answers have thoughts between {tags[0]} and {tags[1]}, which are learned as parts of the answers"
            yield f"{what}: write {' and '.join(THOUGHT)} instead with {sed(programs, place)}"

"""Keys of [alignment] that say something of tools, without any."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS
from recipec.axes.method import ACTED_IN, ENVIRONMENT
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Written

_OF_TOOLS = tuple(dict.fromkeys(own.key for method in METHODS.values() for own in method.acts))


def longer_than_answers(written: Written) -> Iterator[Diagnostic]:
    """A result is part of an answer, and one that fills it is dropped by the trainer."""
    result, whole = (("alignment", "generation", name) for name in ("result_tokens", "max_new_tokens"))
    tokens, most = written.get(*result), written.get(*whole)
    if isinstance(tokens, int) and isinstance(most, int) and tokens >= most:
        labels = (written.label(result, "of one result"), written.label(whole, "of the whole answer"))
        help = f"set `{'.'.join(whole)}` so that calls, results and words of the model find room in it"
        yield Diagnostic("E0401", "a result of a tool is as long as an answer may be", labels, (help,))


def said_of_no_tools(written: Written) -> Iterator[Diagnostic]:
    """Rounds of calls and lengths of results mean nothing where answers are of one turn."""
    if any(written.has("alignment", key) for key in ACTED_IN):
        return
    for path in (("alignment", *key.split(".")) for key in _OF_TOOLS):
        if written.has(*path):
            named = f"`{'.'.join(path)}`"
            help = (f'add alignment.{ENVIRONMENT}, for example {ENVIRONMENT} = "shop.py:Shop"', f"or remove {named}")
            label = written.label(path, "answers are of one turn")
            yield Diagnostic("E0401", f"{named} without tools", (label,), help)

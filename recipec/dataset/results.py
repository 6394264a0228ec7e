"""Results of tools in another order than their calls: ids say which belong together, but most templates write none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from recipec.dataset.commands import python_command
from recipec.dataset.contents import Row, turns_of

# For each message: where the calls stand that it answers, and which of them; the message itself, where it is no result.
_PLACE = (
    'calls = lambda turns, n: max((at for at in range(n + 1) if turns[at]["role"] != "tool"), default=0); '
    "place = lambda turns, n: (at := calls(turns, n), "
    '[call["id"] for call in turns[at]["tool_calls"]].index(turns[n]["tool_call_id"]) if at < n else -1); '
)


def results_in_order(rows: Sequence[Row], place: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the command that writes results in the order of their calls, where every one names its call."""
    for name in names:
        if any(_is_out_of_order(turns_of(row.get(name))) for row in rows):
            column = f"row[{json.dumps(name, ensure_ascii=False)}]"
            ordered = f"[{column}[n] for n in sorted(range(len({column})), key=lambda n: place({column}, n))]"
            made = f"row | {{{json.dumps(name, ensure_ascii=False)}: {ordered}}}"
            if command := python_command(made, "for row in rows", place, _PLACE):
                yield f"write results in the order of their calls: {command}"


def _is_out_of_order(turns: Sequence[dict[str, Any]]) -> bool:
    """Whether the results of some calls are all there, in another order."""
    called: list[Any] = []
    answered: list[Any] = []
    for turn in (*turns, {"role": ""}):
        if turn.get("role") == "tool":
            answered.append(turn.get("tool_call_id"))
            continue
        if answered != called and sorted(map(str, answered)) == sorted(map(str, called)):
            return True
        called, answered = [call.get("id") for call in turn.get("tool_calls") or [] if isinstance(call, dict)], []
    return False

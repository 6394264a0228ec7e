"""Trainer arguments as data: calls printed one argument per line, as `ruff format` leaves them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from recipec.render.literals import py
from recipec.render.prose import comment
from recipec.render.traced import Raw, Traced, columns, fragment, mark, visible

WIDTH = 120  # columns of the emitted Python
_BRACKETS = {list: "[]", tuple: "()"}


class Arg(Struct, frozen=True):
    """One argument, the decisions behind it, and the reason to print beside it; positional when `name` is empty."""

    name: str
    value: Any  # plain or traced data, Raw code, or a Call
    decisions: tuple[str, ...] = ()
    note: str = ""


class Call(Struct, frozen=True):
    """A call of `target`, which is code."""

    target: str
    args: tuple[Arg, ...] | list[Arg] = ()


def render_call(call: Call, indent: int = 0) -> Raw:
    """Print a call whose first line stands at `indent` columns; each argument's lines are credited to its decisions."""
    if not call.args:
        return Raw(f"{call.target}()")
    if len(call.args) == 1 and (short := _one_line(call.target, call.args[0], indent)):
        return short
    lines = "".join(_argument(arg, indent + 4) for arg in call.args)
    return Raw(f"{call.target}(\n{lines}{' ' * indent})")


def assigned(name: str, value: Any) -> Raw:
    """What a constant `name` of a script is set to: on one line where that is long enough, else one item a line."""
    return Raw(_expression(value, 0, columns(f"{name} = ") - 1))  # no comma follows


def _one_line(target: str, arg: Arg, indent: int) -> Raw | None:
    """A call with a single short argument, on one line; None where it needs more."""
    head = f"{arg.name}=" if arg.name else ""
    text = _expression(arg.value, indent, len(target) + len(head) + 1)
    shown = visible(text)
    if arg.note or "\n" in shown or indent + columns(f"{target}({head}{shown}),") > WIDTH:
        return None
    return Raw(f"{target}({fragment(head + text, arg.decisions)})")


def _argument(arg: Arg, indent: int) -> str:
    head = f"{arg.name}=" if arg.name else ""
    code = head + _expression(arg.value, indent, len(head)) + ","
    return fragment(_with_note(code, arg.note, indent), arg.decisions) + "\n"


def _with_note(code: str, note: str, indent: int) -> str:
    """The note beside the code where the line has room, above it where not."""
    pad, text = " " * indent, comment(note)
    shown = visible(code)
    if not text:
        return pad + code
    if "\n" not in shown and indent + columns(f"{shown}  # {text}") <= WIDTH:
        return f"{pad}{code}  # {text}"
    above = textwrap.wrap(text, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{pad}# {line}\n" for line in above) + pad + code


def _expression(value: Any, indent: int, used: int) -> str:
    """A value that starts `used` columns right of `indent`: on that line if it fits, else one item per line."""
    if isinstance(value, Traced):
        return mark(value.id, _expression(value.value, indent, used))
    if isinstance(value, Call):
        return render_call(value, indent)
    if not isinstance(value, Mapping | list | tuple) or not value:
        return py(value)
    if not _holds_call(value):
        line = py(value)
        if indent + used + columns(visible(line)) + 1 <= WIDTH:
            return line
    elif isinstance(value, list) and len(value) == 1 and (short := _one_item(value[0], indent, used)):
        return short
    return _one_per_line(value, indent)


def _one_item(item: Any, indent: int, used: int) -> str | None:
    """A list of one call, on one line; None where it needs more."""
    line = f"[{_expression(item, indent, used + 1)}]"
    shown = visible(line)
    return line if "\n" not in shown and indent + used + columns(shown) + 1 <= WIDTH else None


def _one_per_line(value: Any, indent: int) -> str:
    if isinstance(value, Mapping):
        heads, items, (opening, closing) = [f"{py(key)}: " for key in value], list(value.values()), "{}"
    else:
        heads, items, (opening, closing) = [""] * len(value), list(value), _BRACKETS[type(value)]
    pad = " " * (indent + 4)
    lines = [
        f"{pad}{head}{_expression(item, indent + 4, columns(visible(head)))},\n"
        for head, item in zip(heads, items, strict=True)
    ]
    return f"{opening}\n{''.join(lines)}{' ' * indent}{closing}"


def _holds_call(value: Any) -> bool:
    if isinstance(value, Traced):
        return _holds_call(value.value)
    if isinstance(value, Mapping):
        return any(map(_holds_call, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_call, value))
    return isinstance(value, Call)

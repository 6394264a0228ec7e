"""Words of a value inside shell commands, Markdown, comments and docstrings, where they must stay words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

from recipec.render.characters import checked, escaped, long_escape, shown
from recipec.render.literals import number
from recipec.render.traced import Raw, Traced, mark

_SHELL_WORD = re.compile(r"[A-Za-z0-9_@%+:,./-]+")
_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
# What CommonMark and its GitHub tables and strikethrough would read as markup; an underscore inside a word is not.
# A dollar before a digit is money: no formula ends there.
_MARKUP = re.compile(r"[\\`*\[\]<>|~]|\$(?!\d)|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w*(?:;|$))")
_SPAN = re.compile(r"(`[^`|]+`)")  # of code; a bar would end a table cell
# What would begin a heading, a list, a rule or an underline at the start of a block.
_BLOCK_START = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[#=]|[-+](?:[-\s]|$)))")
_CLOSING_HASHES = re.compile(r"(?<!\\)#(?=#*$)")
_TOUCHING_QUOTE = re.compile(r'^"|"$|(?<=")"|"(?=")')


def sh(value: Any) -> Raw:
    """One POSIX shell word; a list becomes several."""
    if isinstance(_inner(value), list | tuple):
        return _each(value, lambda part: " ".join(map(sh, part)))
    return _each(value, lambda part: _shell_word(_text(part)))


def md(value: Any) -> Raw:
    """Markdown that shows the value's text in a paragraph, a heading or a table cell; a list is joined with commas."""
    if isinstance(_inner(value), list | tuple):
        return _each(value, lambda part: ", ".join(map(md, part)))
    return _each(value, lambda part: _markdown(_text(part)))


def sentence(value: Any) -> Raw:
    """Markdown of a sentence of our own: as `md`, but what stands between backticks is code."""
    return _each(value, lambda part: _sentence(_text(part)))


def comment(value: Any) -> Raw:
    """One line for after `# ` in Python, YAML and shell; what does not show is written as `\\u202e`."""
    return _each(value, lambda part: shown(_text(part), long_escape))


def docstring(value: Any, width: int | None = None, indent: int = 0) -> Raw:
    """Words for inside a triple-quoted Python string; with `width`, wrapped into lines indented by `indent`."""
    return _each(value, lambda part: _wrapped(_docstring_line(_text(part)), width, indent))


def name(value: Any) -> Raw:
    """A word that needs no quoting anywhere (an identifier, a file of the bundle); anything else is a bug."""

    def safe(part: Any) -> str:
        assert _NAME.fullmatch(part), f"{part!r} is not a name"
        return part

    return _each(value, safe)


def code(value: Any) -> Raw:
    """Code chosen in Python (`Raw`), as it is; data is refused."""
    if not isinstance(_inner(value), Raw):
        raise TypeError(f"{value!r} is data, not code")
    return _each(value, str)


def _inner(value: Any) -> Any:
    return value.value if isinstance(value, Traced) else value


def _each(value: Any, write: Callable[[Any], str]) -> Raw:
    """Write a plain, raw or traced value; a trace stays on what is written."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, Traced):
        return mark(value.id, _each(value.value, write))
    return Raw(write(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str | int):
        return str(value)
    raise TypeError(f"{value!r} is not text")


def _shell_word(text: str) -> str:
    if _SHELL_WORD.fullmatch(text):
        return text
    return "'" + checked(text).replace("'", "'\\''") + "'"


def _markdown(text: str) -> str:
    return _in_a_block(_without_markup(shown(text, lambda c: c)))


def _sentence(text: str) -> str:
    parts = _SPAN.split(shown(text, lambda c: c))  # every second one is code
    whole = (part if n % 2 and part.isprintable() else _without_markup(part) for n, part in enumerate(parts))
    return _in_a_block("".join(whole))


def _without_markup(line: str) -> str:
    return _MARKUP.sub(lambda found: "\\" + found[0], line)


def _in_a_block(line: str) -> str:
    line = _BLOCK_START.sub(r"\1\\", line)
    line = _CLOSING_HASHES.sub(r"\\#", line, count=1)
    return "".join(c if c.isprintable() else f"&#x{ord(c):x};" for c in line)


def _docstring_line(text: str) -> str:
    line = escaped(shown(text, lambda c: c), "", long_escape)
    return _TOUCHING_QUOTE.sub(r"\\" + '"', line)


def _wrapped(line: str, width: int | None, indent: int) -> str:
    if width is None:
        return line
    room = max(width - indent, 20)
    lines = textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines)

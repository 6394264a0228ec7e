"""From the text of a data file to numbered rows, for each kind of file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from shlex import quote
from typing import Any

from recipec.axes.row_formats import TEXT
from recipec.dataset.commands import kept_lines, new_file, path_of, with_commas

DOCUMENT = TEXT.roles[0].aliases[0]  # the column of a file that is one text
MAX_DEPTH = 64  # of lists and tables in a row; conversations need 3
MOST_TWICE = 12  # names that a message lists
MOST_LINES = 5  # that a message lists
MAX_FIELD_CHARACTERS = 4 * 2**20  # of a CSV field; Python's own limit of 128 KiB is shorter than some documents

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}  # of files that are called CSV as well

Row = dict[str, Any]
Numbered = Iterator[tuple[int, Row]]


class Unreadable(Exception):
    """A data file cannot be read as rows: `reason` says why, `where` names the file and line, `help` what to do."""

    def __init__(self, where: str, reason: str, help: tuple[str, ...] = ()) -> None:
        super().__init__(f"{where}: {reason}")
        self.where, self.reason, self.help = where, reason, help


def once(pairs: list[tuple[str, Any]]) -> Row:
    """The object, if no key stands in it twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the key {_twice(name for name, _ in pairs)[0]!r:.40} stands twice in it")
    return found


def no_value(constant: str) -> float | None:
    """What JSON does not know and Python reads: NaN, which pandas writes where a value is missing, is no value."""
    return None if constant == "NaN" else float(constant)


def _twice(names: Iterable[str]) -> list[str]:
    """Those that stand among the names more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def listed_twice(names: Iterable[str]) -> str:
    """Those that stand among the names more than once, in the words of a message; "" where none does."""
    return ", ".join(f"`{name}`" for name in sorted(_twice(names))[:MOST_TWICE])


_TOO_LONG = "it holds a whole number of more than 4,300 digits, which Python does not read: write it as a text"
_ASCII_SPACE = " \t\n\r\x0b\x0c"  # what bytes.strip() takes off in prepare_data.py; JSON strings may hold other spaces
_CUT_IN_QUOTES = "unexpected end of data"  # of Python's csv
_OPENING, _COMMA = re.compile(r"\s*\[\s*"), re.compile(r"\s*,\s*")
_DECODER = json.JSONDecoder(object_pairs_hook=once, parse_constant=no_value)


def written_as(ending: str, text: str) -> str:
    """The ending that says how a text is written: a file named .json holds one list, or one object on every line."""
    return ".jsonl" if ending == ".json" and not _OPENING.match(text) else ending


# The first name of a JSON object that holds a list of objects, with plain values alone before it.
_PLAIN_VALUE = r'\s*"[^"]*"\s*:\s*(?:"[^"]*"|[-+.\w]+)\s*,'
_HOLDS_ROWS = re.compile(rf'\s*\{{(?:{_PLAIN_VALUE})*\s*"([^"]+)"\s*:\s*\[\s*\{{')


def wrapped_in(text: str) -> str:
    """The name under which one JSON object holds a list of objects; "" where it begins otherwise."""
    found = _HOLDS_ROWS.match(text)
    return found[1] if found else ""


def unwrapped(name: str, file: str) -> str:
    """The command that writes the rows of such a file one a line, in the words of a hint."""
    return f"write its rows one a line: `jq -c {quote(f'{path_of(name)}[]')} {quote(file)} > {new_file(file)}`"


def json_lines(text: str, shown: str) -> Numbered:
    """Yield the object on every line that is not blank. Only a newline ends a line: JSON strings may hold the rest."""
    broken: list[tuple[Unreadable, str]] = []
    read = 0
    for number, line in enumerate(text.split("\n"), 1):
        if row := line.strip(_ASCII_SPACE).lstrip("\ufeff"):  # files that were put together have marks within
            read += 1
            try:
                found = _object(row, f"{shown}:{number}")
            except Unreadable as error:
                broken.append((error, row))
                continue
            yield number, found
    if broken:
        raise _all_broken(broken, read, shown)


def _all_broken(broken: Sequence[tuple[Unreadable, str]], read: int, shown: str) -> Unreadable:
    """The first line that holds no object, with how many others there are, and what keeps the lines with one."""
    first, others = broken[0][0], [error.where.rpartition(":")[2] for error, _ in broken[1:]]
    if len(broken) == read:
        return first
    more = f"; {len(broken):,} of {read:,} lines read {'are' if others else 'is'} broken"
    if others:
        more += f", also line{'s' * (len(others) > 1)} {', '.join(others[:MOST_LINES])}"
        more += ", …" * (len(others) > MOST_LINES)
    help = "correct them" if others else "correct it"
    if not any(_holds_object(line) for _, line in broken):
        help += f", or keep the other lines: {kept_lines(shown)}"
    return Unreadable(first.where, first.reason + more, (help,))


def _holds_object(line: str) -> bool:
    """Whether the command that keeps lines keeps this one, which has another fault than that it is no object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def json_array(text: str, shown: str) -> Numbered:
    """Yield the objects of one JSON list."""
    try:
        rows = json.loads(text, object_pairs_hook=once, parse_constant=no_value)
    except (ValueError, RecursionError) as error:
        raise Unreadable(shown, f"it is not JSON: {why(error)}") from error
    for number, row in enumerate(rows, 1):
        yield number, _element(row, number, shown)


def _element(row: Any, number: int, shown: str) -> Row:
    """The row, if this element of a JSON list is one."""
    if not isinstance(row, dict):
        said = f"it is not a list of objects: element {number} is {json.dumps(row):.40}"
        raise Unreadable(f"{shown}, row {number}", said)
    return row


def json_beginning(text: str, shown: str) -> tuple[list[tuple[int, Row]], str]:
    """The whole objects of a JSON list that is cut off somewhere, and the text that holds them."""
    rows: list[tuple[int, Row]] = []
    opening = _OPENING.match(text)
    place = end = opening.end() if opening else len(text)
    while place < len(text):
        try:
            row, end = _DECODER.raw_decode(text, place)
        except json.JSONDecodeError as error:
            if _is_of_the_cut(error):
                break
            raise Unreadable(shown, f"it is not JSON: {error}") from error
        except (ValueError, RecursionError) as error:
            raise Unreadable(shown, f"it is not JSON: {why(error)}") from error
        number = len(rows) + 1
        rows.append((number, _element(row, number, shown)))
        comma = _COMMA.match(text, end)
        place = comma.end() if comma else len(text)
    return rows, text[:end]


def _is_of_the_cut(error: json.JSONDecodeError) -> bool:
    """Whether the text only ends too early: within a string, or within what its last few characters begin."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(error.doc) - len("\\uFFFF")


def csv_rows(text: str, shown: str) -> Numbered:
    """Yield the records below the header; the number is that of a record's first line."""
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    _check_separator(text, shown)
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        names = list(reader.fieldnames or ())
        if twice := listed_twice(names):
            raise Unreadable(f"{shown}:1", f"its header names {twice} twice")
        for row in reader:
            if None in row:
                raise Unreadable(f"{shown}:{reader.line_num}", "this line has more fields than the header")
            yield reader.line_num - sum(text.count("\n") for text in row.values() if text), dict(row)
    except csv.Error as error:
        raise Unreadable(f"{shown}:{reader.line_num}", f"it is not CSV: {error}") from error


def _check_separator(text: str, shown: str) -> None:
    """Raise Unreadable where the names of the header have another mark than a comma between them."""
    header = text.partition("\n")[0]
    if "," not in header and (mark := next((mark for mark in SEPARATORS if mark in header), "")):
        said = f"its header is one column, with {SEPARATORS[mark]} where commas would stand between the names"
        raise Unreadable(f"{shown}:1", said, (f"put commas between the fields: {with_commas(shown, mark)}",))


def csv_beginning(text: str, shown: str) -> list[tuple[int, Row]]:
    """The records of a CSV file that is cut off somewhere, without the last: it may go on behind the cut."""
    found = []
    try:
        for row in csv_rows(text, shown):
            found.append(row)
    except Unreadable as error:
        if not error.reason.endswith(_CUT_IN_QUOTES):
            raise
    return found[:-1]


def document(text: str, shown: str) -> Numbered:
    """Yield the whole text as one row."""
    if text.strip():
        yield 1, {DOCUMENT: text}


READERS: dict[str, Callable[[str, str], Numbered]] = {
    ".jsonl": json_lines,
    ".json": json_array,
    ".csv": csv_rows,
    ".txt": document,
}


def _object(line: str, where: str) -> Row:
    if _OPENING.match(line):
        raise Unreadable(where, "a list begins on this line: a file that is one JSON list must be named .json")
    try:
        row = json.loads(line, object_pairs_hook=once, parse_constant=no_value)
    except (ValueError, RecursionError) as error:
        raise Unreadable(where, f"this line is not one JSON object: {why(error)}") from error
    if not isinstance(row, dict):
        raise Unreadable(where, f"this line is {type(row).__name__}, not an object")
    return row


def why(error: Exception) -> str:
    """Why a text is no JSON, without what Python advises its programmers."""
    if isinstance(error, RecursionError):
        return f"it nests more than {MAX_DEPTH} deep"
    return _TOO_LONG if "int_max_str_digits" in str(error) else str(error)


def check_row(row: Row, where: str) -> None:
    """Raise Unreadable where a row nests too deep for what walks it later."""
    if _is_deep(row):
        raise Unreadable(where, f"it nests lists or objects more than {MAX_DEPTH} deep")


def _is_deep(row: Row) -> bool:
    level: list[Any] = [row]
    for _ in range(MAX_DEPTH):
        level = [part for value in level for part in parts_of(value)]
        if not level:
            return False
    return True


NUL = r"a NUL character (\u0000)"


def wrong_character(value: Any) -> str:
    """What the texts of a value hold that no text should, though JSON can write it: half a character, or NUL; or ""."""
    said = json.dumps(value, ensure_ascii=False)
    try:
        said.encode()
    except UnicodeEncodeError as error:
        return f"half a character: {error.object[error.start]!a}"
    return NUL if r"\u0000" in said.replace(r"\\", "") else ""


def parts_of(value: Any) -> list[Any]:
    """What a list or an object holds."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []

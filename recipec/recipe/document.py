"""Parse a recipe file: its values by tomllib, their places by our locator, and both as the checks read them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from recipec.axes.tasks import KL_METHODS
from recipec.characters import forbidden_in_string, why_forbidden
from recipec.diagnostics.model import Diagnostic, Label, Place, Report, Span
from recipec.recipe.locate import KeyPath, dotted, locate
from recipec.recipe.source import Source

OLD_KEYS = {("model", "licences"): "licenses", ("policy", "licences"): "licenses"}  # still read
MAX_DEPTH = 32  # the language needs 6
MAX_INTEGER = 2**63 - 1  # TOML 1.0: 64-bit signed

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
# tomllib needs quadratic time for one long dotted key, so it never gets to see one.
_DEEP_KEY = re.compile(rf"^[ \t\[]*{_KEY}(?:[ \t]*\.[ \t]*{_KEY}){{{MAX_DEPTH}}}", re.MULTILINE)
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class Located(Struct, frozen=True):
    """Where a key and its value were written."""

    key: Place
    value: Place


class Document(Struct, frozen=True):
    """The values of one recipe file, or of several merged, and where each was written."""

    source: Source
    data: dict[str, Any]
    places: Mapping[KeyPath, Located]


def parse(source: Source, report: Report) -> Document | None:
    """Return the document; reports E0006 and E01xx and returns None when the file cannot be used."""
    data = _load(source, report)
    if data is None:
        return None
    if _depth_exceeds(data, MAX_DEPTH):
        report.add(_too_deep(source))
        return None
    places = {
        path: Located(source.place(entry.key), source.place(entry.value)) for path, entry in locate(source.text).items()
    }
    faults = [fault for path, value in _walk(data) if (fault := _fault(path, value, places))]
    for fault in faults:
        report.add(fault)
    return None if faults else _with_new_names(Document(source, data, places))


def _with_new_names(document: Document) -> Document:
    """The document with keys under their present names; their places stay those of the old ones."""
    data, places = document.data, document.places
    for (table, old), new in OLD_KEYS.items():
        keys = data.get(table)
        if isinstance(keys, dict) and old in keys and new not in keys:
            data = data | {table: {new if key == old else key: value for key, value in keys.items()}}
            places = {(table, new, *path[2:]) if path[:2] == (table, old) else path: at for path, at in places.items()}
    return Document(document.source, data, places)


def _load(source: Source, report: Report) -> dict[str, Any] | None:
    if _DEEP_KEY.search(source.text):
        report.add(_too_deep(source))
        return None
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        report.add(_syntax_error(source, str(error)))
    except RecursionError:
        report.add(_too_deep(source))
    except ValueError:  # Python refuses to convert integers of thousands of digits
        report.add(_huge_number(source))
    return None


def _syntax_error(source: Source, message: str) -> Diagnostic:
    """Translate tomllib's message, which ends with its position."""
    match = _POSITION.search(message)
    text = message[: match.start()] if match else message
    text = re.sub(r"\(('[^)]*),?\)", lambda m: "`" + ".".join(re.findall(r"'([^']*)'", m[1])) + "`", text)
    if match and match[1]:
        line, col = int(match[1]), int(match[2])
        place = source.place(Span(line, col, line, col + 1))
    else:
        place = source.end()
    label = Label(place, text[:1].lower() + text[1:])
    help = _of_other_language(source) or _syntax_help(place, text)
    return Diagnostic("E0101", "this is not valid TOML", (label,), help)


# How files of other languages begin, behind empty lines and comments.
_LANGUAGES = {
    "JSON": re.compile(r"[{]"),
    "YAML": re.compile(r"""---|["']?[\w.-]+["']?[ \t]*:([ \t]|$)|- """, re.MULTILINE),
}
_SUFFIXES = {".json": "JSON", ".yaml": "YAML", ".yml": "YAML"}


def _of_other_language(source: Source) -> tuple[str, ...]:
    """What to do with a file that is YAML or JSON, as the recipes of other tools are."""
    text = re.sub(r"\A(?:[ \t]*(?:#[^\n]*)?\r?\n)*", "", source.text)
    begins = next((name for name, begin in _LANGUAGES.items() if begin.match(text)), "")
    language = _SUFFIXES.get(source.path.suffix.lower(), begins)
    return (f"the file looks like {language}; recipes are TOML: `recipec init` writes one",) if language else ()


def _syntax_help(place: Place, message: str) -> tuple[str, ...]:
    if message.startswith("Invalid value"):
        rest = place.text.split("\n")[place.span.line - 1][place.span.col - 1 :]
        if re.match(r"(?i)(true|false)\b", rest):
            return ("TOML writes `true` and `false` in lower case",)
        if re.match(r"[A-Za-z./]", rest):
            return ('put text in quotes: name = "support-assistant"',)
    if message.startswith(("Cannot overwrite", "Cannot declare")):
        return ("each key and each table may be written only once",)
    return ()


def _too_deep(source: Source) -> Diagnostic:
    return Diagnostic("E0102", f"`{source.shown}` nests tables or lists more than {MAX_DEPTH} deep")


def _huge_number(source: Source) -> Diagnostic:
    match = re.search(r"[0-9_]{4000,}", source.text)
    start = match.start() if match else 0
    line = source.text.count("\n", 0, start) + 1
    col = start - (source.text.rfind("\n", 0, start) + 1) + 1
    label = Label(source.place(Span(line, col, line, col + 1)), "thousands of digits")
    return Diagnostic("E0103", "a whole number is larger than 64 bits", (label,))


def _depth_exceeds(data: dict[str, Any], limit: int) -> bool:
    level: list[Any] = [data]
    for _ in range(limit):
        level = [child for value in level for child in _children(value).values()]
        if not level:
            return False
    return True


def _children(value: Any) -> dict[str | int, Any]:
    if isinstance(value, dict):
        return value
    return dict(enumerate(value)) if isinstance(value, list) else {}


def _walk(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every path below `value` with its value, in the order written."""
    for key, child in _children(value).items():
        yield (*path, key), child
        yield from _walk(child, (*path, key))


def _fault(path: KeyPath, value: Any, places: Mapping[KeyPath, Located]) -> Diagnostic | None:
    """Return why a key or value cannot be carried into the emitted files."""
    located = places[path]
    if isinstance(path[-1], str) and (found := forbidden_in_string(path[-1])):
        return _forbidden(found, "this key", located.key)
    if isinstance(value, str) and (found := forbidden_in_string(value)):
        return _forbidden(found, f"`{dotted(path)}`", located.value)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return Diagnostic("E0103", f"`{dotted(path)}` is larger than 64 bits", (Label(located.value),))
    return None


def _forbidden(character: str, where: str, place: Place) -> Diagnostic:
    title = f"{where} holds the forbidden character U+{ord(character):04X}"
    return Diagnostic("E0006", title, (Label(place, why_forbidden(character)),), ("remove the character",))


class Written(Struct, frozen=True):
    """The values of the whole recipe without those that the schema refused, and the places of all of them."""

    data: Mapping[str, Any]
    document: Document
    meant: frozenset[KeyPath] = frozenset()  # what unknown keys stand for: the finding about them names it

    @property
    def places(self) -> Mapping[KeyPath, Located]:
        return self.document.places

    def get(self, *path: str | int) -> Any:
        """Return the value at `path`, None when it is absent or of the wrong type."""
        return value_at(self.data, path)

    @property
    def method(self) -> Any:
        """Return the alignment method that the recipe asks for, by its name or by its KL; None for none."""
        return asked_method(value_at(self.data, ("alignment",)) or {})

    @property
    def asks_method(self) -> KeyPath:
        """Return the key that asks for it."""
        return asks_method(value_at(self.data, ("alignment",)) or {})

    def has(self, *path: str | int) -> bool:
        """Tell whether the recipe writes `path`, rightly or wrongly."""
        return value_at(self.document.data, path) is not None

    def is_empty(self, *path: str | int) -> bool:
        """Tell whether the recipe writes a table at `path`, and nothing in it."""
        return value_at(self.document.data, path) == {}

    def lacks(self, *path: str | int) -> bool:
        """Tell whether the recipe neither writes `path` nor means it by an unknown key."""
        return not self.has(*path) and not stands_for(self.meant, path)

    def is_meant(self, *path: str | int) -> bool:
        """Tell whether an unknown key, which is refused, is all that stands for `path`."""
        return not self.has(*path) and stands_for(self.meant, path)

    def key(self, *path: str | int) -> Place:
        return nearest(self.places, path, self.document).key

    def value(self, *path: str | int) -> Place:
        return nearest(self.places, path, self.document).value

    def label(self, path: KeyPath, message: str = "") -> Label:
        return Label(self.value(*path), message)


def stands_for(meant: frozenset[KeyPath], path: KeyPath) -> bool:
    """Tell whether an unknown key, or a table with an unknown name, stands for `path`."""
    return any(path[:length] in meant for length in range(1, len(path) + 1))


def asked_method(alignment: Mapping[str, Any]) -> Any:
    """Return the alignment method that the table asks for: by its name, or by the level of KL control."""
    level = alignment.get("kl_control")
    return alignment.get("method") or (KL_METHODS.get(level) if isinstance(level, str) else None)


def asks_method(alignment: Mapping[str, Any]) -> KeyPath:
    """Return the key of the table that asks for the method; `alignment.method` where none does."""
    by_level = alignment.get("method") is None and asked_method(alignment)
    return ("alignment", "kl_control") if by_level else ("alignment", "method")


def value_at(data: Any, path: KeyPath) -> Any:
    """Return the value at `path` of nested tables and lists, None when there is none."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def nearest(places: Mapping[KeyPath, Located], path: KeyPath, document: Document) -> Located:
    """Return where `path` is written, else its nearest table that is, else the first table or key of the file."""
    while path and path not in places:
        path = path[:-1]
    if path:
        return places[path]
    own = [at.key for at in document.places.values() if at.key.file == document.source.shown]
    first = min(own, key=lambda place: place.span, default=document.source.below())
    return Located(first, first)

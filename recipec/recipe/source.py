"""Read the text of a recipe file, or say why that is not possible."""

from __future__ import annotations

import codecs
import errno
from pathlib import Path

from msgspec import Struct

from recipec.diagnostics.model import Diagnostic, Label, Place, Report, Span
from recipec.files import read_regular

MAX_BYTES = 256 * 1024  # a recipe is a page of text; more is the wrong file
_BOMS = {codecs.BOM_UTF8: "UTF-8", codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


class Source(Struct, frozen=True):
    """A file that was read: where it lies, how the user knows it, and what it says."""

    path: Path
    shown: str  # as the user wrote the path
    text: str
    shipped: bool = False  # comes with recipec

    @property
    def folder(self) -> Path:
        return self.path.parent

    def place(self, span: Span) -> Place:
        return Place(self.shown, span, self.text)

    def below(self) -> Place:
        """Return the place of the line below the last one, where a missing table would go."""
        text = self.text.rstrip("\r\n") + "\n"
        line = text.count("\n") + 1
        return Place(self.shown, Span(line, 1, line, 1), text)

    def end(self) -> Place:
        """Return the place after the last character."""
        lines = self.text.rstrip("\r\n").split("\n")
        line, col = len(lines), len(lines[-1].removesuffix("\r")) + 1
        return self.place(Span(line, col, line, col))


def read(
    path: Path, shown: str, report: Report, asked_at: Place | None = None, *, shipped: bool = False
) -> Source | None:
    """Return the file's text; reports E0001 to E0005 and returns None when there is none to use.

    `asked_at` is the `extends` value that names the file; a diagnostic points there.
    """
    try:
        content = read_regular(path, MAX_BYTES)
    except OSError as error:
        report.add(_unreadable(path, shown, error, asked_at))
        return None
    except ValueError:  # a path with a NUL in it
        report.add(Diagnostic("E0001", "the path of the recipe holds a NUL character", _labels(asked_at)))
        return None
    return _decoded(Source(path, shown, "", shipped), content, report, asked_at)


def _unreadable(path: Path, shown: str, error: OSError, asked_at: Place | None) -> Diagnostic:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        code = "E0007" if asked_at else "E0001"
        return Diagnostic(code, f"no file `{shown}`", _labels(asked_at, "named here"), _neighbours(path))
    if error.errno == errno.EFBIG:
        help = ("name data by file or glob instead of listing it in the recipe",)
        title = f"`{shown}` is larger than {MAX_BYTES // 1024} KiB"
        return Diagnostic("E0005", title, _labels(asked_at, "named here"), help)
    if isinstance(error, IsADirectoryError):
        title, help = f"`{shown}` is a folder, not a recipe", ("name a .toml file in the folder",)
    else:
        reason = (error.strerror or type(error).__name__).lower()
        title, help = f"cannot read `{shown}`: {reason}", ()
    return Diagnostic("E0002", title, _labels(asked_at, "named here"), help)


def _neighbours(path: Path) -> tuple[str, ...]:
    """Suggest the recipes whose names are near the missing one's."""
    from difflib import get_close_matches

    try:
        names = sorted(entry.name for entry in path.parent.glob("*.toml"))
    except (OSError, ValueError):
        return ()
    near = get_close_matches(path.name, names, n=1)
    return (f"did you mean `{near[0]}`?",) if near else ()


def _decoded(source: Source, content: bytes, report: Report, asked_at: Place | None) -> Source | None:
    for bom, encoding in _BOMS.items():
        if content.startswith(bom):
            report.add(_marked(source.shown, encoding, asked_at))
            return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        report.add(_not_utf8(source, content, error))
        return None
    return Source(source.path, source.shown, text, source.shipped)


def _marked(shown: str, encoding: str, asked_at: Place | None) -> Diagnostic:
    help = ("save it as UTF-8 without a byte order mark (BOM)",)
    if encoding == "UTF-8":
        return Diagnostic("E0004", f"`{shown}` begins with a byte order mark", _labels(asked_at, "named here"), help)
    return Diagnostic("E0003", f"`{shown}` is {encoding}, not UTF-8", _labels(asked_at, "named here"), help)


def _not_utf8(source: Source, content: bytes, error: UnicodeDecodeError) -> Diagnostic:
    """Point at the first byte that is not UTF-8, on the line as far as it can be read."""
    text = content.decode("utf-8", errors="replace")
    before = content[: error.start].decode("utf-8")
    line, col = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    label = Label(Place(source.shown, Span(line, col, line, col + 1), text), f"byte 0x{content[error.start]:02x}")
    return Diagnostic("E0003", f"`{source.shown}` is not UTF-8", (label,), ("save the file as UTF-8",))


def _labels(place: Place | None, message: str = "") -> tuple[Label, ...]:
    return (Label(place, message),) if place else ()

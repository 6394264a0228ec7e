"""The chat template of the training: the file that a recipe brings, or what is known of the model's own."""

from __future__ import annotations

import re

from recipec.axes.tasks import AUTO
from recipec.catalog.models import Model
from recipec.catalog.templates import Template
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.files import read_regular
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import is_path

_MOST_BYTES = 2**20  # templates have 50 KiB at most
_MARKS = re.compile("[\ue000-\uf8ff]")  # private use; some of them mark in the back ends what a line comes from


def template_text(loaded: LoadedRecipe, report: Report) -> str | None:
    """Return the text of the template file that data.template names; None when it names none.

    Reports E0001 to E0003, and E0006 for private-use characters.
    """
    name = loaded.recipe.data.template
    if name is None or not is_path(name):
        return None
    try:
        text = read_regular(loaded.folder / name, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        report.add(_unreadable(loaded, name, error))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{error.object[error.start]:02x} in line {line}"
        report.add(_at(loaded, "E0003", f"`{name}` is not UTF-8", byte, "save the file as UTF-8"))
    else:
        if found := _MARKS.search(text):
            title = f"`{name}` holds the forbidden character U+{ord(found.group()):04X}"
            line = text.count("\n", 0, found.start()) + 1
            report.add(_at(loaded, "E0006", title, f"a private-use character in line {line}", "remove the character"))
        return text
    return None


def template_of(loaded: LoadedRecipe, model: Model | None) -> Template | None:
    """What is known of the chat template of the training; None where it is not the model's own, or nothing is."""
    own = loaded.recipe.data.template in (None, AUTO, "model")
    return model.template if own and model is not None else None


def _unreadable(loaded: LoadedRecipe, name: str, error: OSError) -> Diagnostic:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _at(
            loaded, "E0001", f"no template file `{name}`", "named here", "paths are relative to the recipe's folder"
        )
    reason = "it is a folder" if isinstance(error, IsADirectoryError) else (error.strerror or "unreadable").lower()
    return _at(loaded, "E0002", f"cannot read the template `{name}`", reason, "name a Jinja file")


def _at(loaded: LoadedRecipe, code: str, title: str, label: str, help: str) -> Diagnostic:
    return Diagnostic(code, title, (Label(loaded.place("data", "template"), label),), (help,))

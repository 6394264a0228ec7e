"""Text files that a recipe names: each is read whole, or what is wrong with it is reported."""

from __future__ import annotations

from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.working_folder import path_from_recipe
from recipec.files import read_lines
from recipec.recipe import LoadedRecipe
from recipec.recipe.locate import KeyPath


def own_text(
    loaded: LoadedRecipe, key: KeyPath, name: str, most_bytes: int, what: str, instead: str, report: Report
) -> str | None:
    """The text of the file `name` that a key names; None with E0001 to E0003.

    `what` is the file in words ("template file"), and `instead` is what to name where it is no such file.
    """
    reading = f"cannot read the {what} `{name}`"
    try:
        return read_lines(loaded.folder / name, most_bytes)
    except (FileNotFoundError, NotADirectoryError):
        (help,) = path_from_recipe(name, loaded.folder) or (f"paths are relative to the recipe's folder; {instead}",)
        found = "E0001", f"no {what} `{name}`", "named here", help
    except IsADirectoryError:
        found = "E0002", reading, "it is a folder", instead
    except OSError as error:
        found = "E0002", reading, (error.strerror or "unreadable").lower(), instead
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{error.object[error.start]:02x} in line {line}"
        found = "E0003", f"`{name}` is not UTF-8", byte, "save the file as UTF-8"
    code, title, label, help = found
    report.add(Diagnostic(code, title, (Label(loaded.place(*key), label),), (help,)))
    return None

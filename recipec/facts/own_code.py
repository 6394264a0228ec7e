"""Python files that a recipe names: read as text and never run, and what their functions read by their parameters."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Sequence
from keyword import iskeyword
from pathlib import Path, PurePosixPath

from msgspec import Struct

from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.working_folder import path_from_recipe
from recipec.files import read_lines
from recipec.recipe import LoadedRecipe

_MOST_BYTES = 2**20
_FROM_ROOT = (
    "write what it reads into the same file, or read it from the recipe's folder, as the bundle does: "
    '`Path(os.environ.get("DATA_ROOT", ".")) / "FILE"`'
)
Arguments = ast.FunctionDef | ast.AsyncFunctionDef


class Reads(Struct, frozen=True):
    """What a function reads, by its parameters and by what it takes out of `**kwargs`."""

    given: tuple[str, ...]  # what the trainer gives it
    columns: tuple[str, ...]  # of the rows, without which it cannot judge
    optional: tuple[str, ...]  # columns that it does without where no row has them
    all_columns: bool  # `**kwargs` is used as a whole

    def handed(self, held: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that it is handed, where rows hold these beside what is asked; None: no row was looked at."""
        if held is None:
            return (*self.columns, *self.optional)
        optional = held if self.all_columns else (name for name in self.optional if name in held)
        return tuple(dict.fromkeys((*self.columns, *optional)))


def modules_of(files: Sequence[str], taken: Collection[str], kind: str) -> dict[str, str]:
    """File -> a name that Python can import, each once; `kind` follows one that is among `taken`."""
    found: dict[str, str] = {}
    for file in dict.fromkeys(files):
        stem = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in PurePosixPath(file).stem)
        stem = f"_{stem}" if not stem or stem[0].isdigit() else stem
        meant = iskeyword(stem) or stem in dir(builtins) or stem.startswith("__")
        stem = f"{stem.strip('_') or 'file'}_{kind}" if meant or stem in taken else stem
        names = (stem, *(f"{stem}_{number}" for number in range(2, len(files) + 2)))
        found[file] = next(name for name in names if name not in found.values())
    return found


def parsed(
    loaded: LoadedRecipe, file: str, place: Place, texts: dict[str, str], code: str, report: Report
) -> ast.Module | None:
    """The file as Python, which is not run; None with a diagnostic `code`."""
    try:
        texts[file] = texts.get(file) or read_lines(loaded.folder / file, _MOST_BYTES)
        return ast.parse(texts[file], filename=file)
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        (help,) = path_from_recipe(file, loaded.folder) or ("paths are relative to the recipe's folder",)
        report.add(unusable(code, f"`{file}` cannot be read", place, reason, help))
    except UnicodeDecodeError:
        report.add(unusable(code, f"`{file}` is not UTF-8", place, "named here", "save the file as UTF-8"))
    except SyntaxError as error:
        where = f"line {error.lineno}: {error.msg}"
        report.add(unusable(code, f"`{file}` is no Python of this version", place, where, "correct the file"))
    except ValueError as error:
        report.add(unusable(code, f"`{file}` is no Python", place, str(error), "correct the file"))
    except (RecursionError, MemoryError):
        title, help = f"`{file}` cannot be read as Python", "split its longest expression into several"
        report.add(unusable(code, title, place, "an expression nests too deep", help))
    return None


def bound(node: ast.stmt) -> set[str]:
    """The names that a statement at the top of a file gives a meaning."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    imported = {alias.asname or alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)}
    stored = (part for part in ast.walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load))
    return imported | {part.id for part in stored}


def beside(tree: ast.Module, file: Path) -> tuple[str, ...]:
    """What a file takes from beside it, which the bundle would not have: an import, or its own place; else empty."""
    imported = [*_run_when_imported(tree)]
    for node in imported:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [f"{'.' * node.level}{node.module or ''}"] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            first = file.parent / name.split(".")[0]
            if name.startswith(".") or first.with_suffix(".py").is_file() or any(first.glob("*.py")):
                help = "write what it uses into the same file, or install it as a package"
                return f"`{file.name}` imports `{name}`, a file beside it", "the bundle copies this file alone", help
    if any(isinstance(node, ast.Name) and node.id == "__file__" for node in imported):
        return (
            f"`{file.name}` looks for files beside it with `__file__`",
            "the bundle copies this file alone",
            _FROM_ROOT,
        )
    return ()


def _run_when_imported(tree: ast.Module) -> Iterator[ast.AST]:
    """The parts of a file that count where it is imported: not those under `if __name__ == "__main__":`."""
    for statement in tree.body:
        match statement:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value="__main__")])):
                parts = statement.orelse
            case _:
                parts = [statement]
        yield from (node for part in parts for node in ast.walk(part))


def reads_of(function: Arguments, given: Sequence[str]) -> Reads:
    """What a function reads; `given` are the names that are no columns of rows."""
    arguments = function.args
    plain = [argument.arg for argument in arguments.args]
    pairs = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    needed = plain[: len(plain) - len(arguments.defaults)]
    needed += [argument.arg for argument, default in pairs if default is None]
    optional = plain[len(plain) - len(arguments.defaults) :]
    optional += [argument.arg for argument, default in pairs if default is not None]
    rest = _taken_from(function, arguments.kwarg.arg) if arguments.kwarg else Reads((), (), (), all_columns=False)
    named = dict.fromkeys((*needed, *optional, *rest.columns, *rest.optional))
    return Reads(
        tuple(given) if rest.all_columns else tuple(name for name in named if name in given),
        tuple(name for name in dict.fromkeys((*needed, *rest.columns)) if name not in given),
        tuple(name for name in dict.fromkeys((*optional, *rest.optional)) if name not in given),
        rest.all_columns,
    )


def _taken_from(function: Arguments, kwargs: str) -> Reads:
    """What is taken by `kwargs["answer"]`, by `kwargs.get("answer")`, or by any other use, which may be of all."""
    columns, optional, known = [], [], 0
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == kwargs:
                columns, known = [*columns, key], known + 1
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key)), *_]
            ) if name == kwargs:
                optional, known = [*optional, key], known + 1
    uses = sum(isinstance(node, ast.Name) and node.id == kwargs for node in ast.walk(function))
    return Reads((), tuple(columns), tuple(optional), all_columns=uses > known)


def unusable(code: str, title: str, place: Place, label: str, help: str) -> Diagnostic:
    """What is wrong with a file or what it defines, and how to correct it."""
    return Diagnostic(code, title, (Label(place, label),), (help,))

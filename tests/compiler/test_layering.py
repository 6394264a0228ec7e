"""Who may import whom, and how long functions and files may be."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "recipec"
ARCHITECTURE = PACKAGE.parent / "ARCHITECTURE.md"
FRAMEWORKS = frozenset(
    ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed", "datasets", "bitsandbytes", "safetensors")
)

# Package (or top-level module) -> what it may import of recipec: the table of ARCHITECTURE.md.
EDGES = {
    name: set() if cells == "nothing" else set(cells.split(", "))
    for name, cells in re.findall(r"^\| `(\w+)(?:/|\.py)` \| .* \| (.*) \|$", ARCHITECTURE.read_text(), re.MULTILINE)
}
RECORDS = "msgspec"  # everywhere: what dataclasses would be
LIBRARIES = {
    "cli": {"click"},
    "recipe": {"pydantic", "pydantic_core"},
    "render": {"jinja2"},
    "dataset": {"pyarrow", "tokenizers"},
}
RUN_THINGS = ("verify", "simulate", "probe")  # these alone load frameworks
WRITERS = ("bundle", "cli", *RUN_THINGS)  # these alone write files; render writes jinja2's cache through jinja2
WRITES = frozenset(("write_text", "write_bytes", "mkdir", "unlink", "rmtree", "rename", "touch", "chmod"))
CACHES = ("render/cache.py",)

FILES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
OURS = {path: tree for path, tree in FILES.items() if "shim" not in path.parts}  # the shim takes the shapes it patches


def _part(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"recipec.{name.name}" for name in node.names) if node.module == "recipec" else (node.module,)


@pytest.mark.parametrize("part", EDGES)
def test_a_package_imports_only_what_it_may(part: str) -> None:
    found = {name for path, tree in FILES.items() if _part(path) == part for name in _imports(tree)}
    inside = {name.split(".")[1] for name in found if name.startswith("recipec.")} - {part, "__version__"}
    outside = {name.split(".")[0] for name in found if name.split(".")[0] not in ("recipec", *sys.stdlib_module_names)}
    assert inside == EDGES[part]
    assert part in RUN_THINGS or outside <= {RECORDS, *LIBRARIES.get(part, ())}
    assert part in RUN_THINGS or not outside & FRAMEWORKS


def test_every_package_is_in_the_table() -> None:
    assert {_part(path) for path in FILES} - {"__init__"} == EDGES.keys()


def test_only_the_bundle_and_the_commands_write_files() -> None:
    calls = {
        f"{path.relative_to(PACKAGE)}: {node.func.attr}"
        for path, tree in FILES.items()
        if _part(path) not in WRITERS and path.relative_to(PACKAGE).as_posix() not in CACHES
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES
    }
    assert not calls


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _lines(function: ast.FunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_functions_and_files_are_short() -> None:
    functions = [(path, function) for path, tree in OURS.items() for function in _functions(tree)]
    assert statistics.median(_lines(function) for _, function in functions) <= 10
    assert not [f"{path}: {function.name}" for path, function in functions if _lines(function) > 60]
    assert not [str(path) for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) > 400]


def _public() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of a module that others may call; properties and methods are told by their class."""
    for path, tree in OURS.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{path.relative_to(PACKAGE)}: {node.name}", node


def test_public_functions_say_what_they_do() -> None:
    assert not [name for name, function in _public() if not ast.get_docstring(function)]


def test_public_functions_are_annotated() -> None:
    assert not [name for name, function in _public() if function.returns is None]
    given = [(name, part) for name, function in _public() for part in (*function.args.args, *function.args.kwonlyargs)]
    assert not [f"{name}({part.arg})" for name, part in given if part.annotation is None]


def test_modules_of_the_dataset_need_each_other_in_one_direction() -> None:
    """Also for their types alone."""
    needs = {path.stem: {name.rpartition(".")[2] for name in _imports(tree)} for path, tree in FILES.items()
             if _part(path) == "dataset" and path.stem != "__init__"}  # fmt: skip
    TopologicalSorter({name: others & needs.keys() for name, others in needs.items()}).prepare()

"""Who may import whom, and how long functions and files may be."""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "recipec"
FRAMEWORKS = frozenset(
    ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed", "datasets", "bitsandbytes", "safetensors")
)

# Package (or top-level module) -> what it imports of recipec, and of others' libraries. What is not here is not allowed.
EDGES: dict[str, str] = {
    "__main__": "cli",
    "backends": "catalog dataset facts methods planner recipe render rules sharders",
    "bundle": "diagnostics render",
    "catalog": "",
    "cli": "bundle catalog compiler dataset diagnostics estimate facts methods planner recipe rules sharders simulate verify",
    "compiler": "backends bundle catalog diagnostics facts planner recipe render",
    "dataset": "",
    "diagnostics": "",
    "estimate": "catalog layout",
    "facts": "catalog dataset diagnostics recipe rules",
    "layout": "",
    "methods": "",
    "planner": "catalog dataset diagnostics estimate facts layout recipe rules",
    "recipe": "diagnostics rules",
    "render": "",
    "rules": "",
    "sharders": "catalog layout render",
    "simulate": "catalog estimate layout",
    "verify": "catalog facts methods planner recipe sharders",
}
LIBRARIES = {"cli": {"click"}, "recipe": {"pydantic", "pydantic_core"}, "render": {"jinja2"}}
RUN_THINGS = ("verify", "simulate")  # these alone load frameworks
WRITERS = ("bundle", "cli", *RUN_THINGS)  # these alone write files; render writes jinja2's cache through jinja2
WRITES = frozenset(
    ("write_text", "write_bytes", "mkdir", "unlink", "rmtree", "rename", "replace_file", "touch", "chmod")
)
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
    assert inside <= set(EDGES[part].split())
    assert part in RUN_THINGS or outside <= LIBRARIES.get(part, set())
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


def test_functions_and_files_are_short() -> None:
    lengths = {
        f"{path.relative_to(PACKAGE)}:{f.name}": f.end_lineno - f.lineno + 1
        for path, tree in OURS.items()
        for f in _functions(tree)
    }  # type: ignore[operator]
    assert statistics.median(lengths.values()) <= 10
    assert not {name: length for name, length in lengths.items() if length > 60}
    counts = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert not {name: count for name, count in counts.items() if count > 260}


def _public(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions of a module that another may call; properties, methods and local functions are told by their class."""
    return (node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))


def test_public_functions_say_what_they_do() -> None:
    silent = [
        f"{path.relative_to(PACKAGE)}:{f.name}"
        for path, tree in OURS.items()
        for f in _public(tree)
        if not ast.get_docstring(f)
    ]
    assert not silent


def test_public_functions_are_annotated() -> None:
    bare = [
        f"{path.relative_to(PACKAGE)}:{f.name}"
        for path, tree in OURS.items()
        for f in _public(tree)
        if f.returns is None or any(a.annotation is None for a in (*f.args.args, *f.args.kwonlyargs))
    ]
    assert not bare

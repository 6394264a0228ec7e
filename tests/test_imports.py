"""The house stands on floors: no file of the package needs, by whatever way, a file that needs it."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in ROOT.glob("recipec/**/*.py")}


def imports(file: Path) -> set[str]:
    """The modules of the package that a file imports, in functions and for type checkers, too."""
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module]
    named = {f"{node.module}.{name.name}" for node in nodes for name in node.names}
    return (named | {node.module for node in nodes if node.module}) & set(FILES)


def test_no_file_needs_itself_through_others():
    assert len(FILES) > 400
    order = TopologicalSorter({name: imports(file) for name, file in FILES.items()}).static_order()
    assert set(order) == set(FILES)  # a circle raises CycleError and names its files

"""Nothing but a row, and the one back-end file behind it, knows a method, strategy, adaptation, base or format by name.

What has to be known about one of them is a field of its row; what compares names would have to be found and changed
for every row that is added.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import nodes

from recipec.axes import ADAPTATIONS, BASES, LORA_VARIANTS, METHODS, ROW_FORMATS, STRATEGIES
from recipec.render.environment import template_environment, templates_folder

ROOT = Path(__file__).parents[2]
AXES = {
    "method": METHODS,
    "strategy": STRATEGIES,
    "adaptation": ADAPTATIONS,
    "variant": LORA_VARIANTS,
    "base": BASES,
    "format": ROW_FORMATS,
}

# What code calls a value of the axis: an ordinary word is a name of it only beside one of these.
CALLED = {
    "method": re.compile("method|stage|task", re.IGNORECASE),
    "strategy": re.compile("strateg|spreads|engine", re.IGNORECASE),
    "adaptation": re.compile("adapt|family", re.IGNORECASE),
    "variant": re.compile("variant", re.IGNORECASE),
    "base": re.compile(r"quantization|\bbases?\b", re.IGNORECASE),
    "format": re.compile("format", re.IGNORECASE),
}
ORDINARY = {"text", "chat", "instruction", "full", "single", "none", "reward", "standard"}

# (file, name): why it may stand there.
ALLOWED = {
    ("recipe/foreign.py", "fusion"): "a table of the recipe, in the list of what other tools call its keys",
    ("recipe/kept_arguments.py", "fsdp"): "an argument of transformers.TrainingArguments, which recipec decides",
}


def _axes_of(name: object) -> list[str]:
    return [axis for axis, rows in AXES.items() if isinstance(name, str) and name in rows]


def _home(path: str) -> str:
    """The name that a file may have: that of the row which it is the back end of; "" for other files."""
    folder, _, file = path.rpartition("/")
    return Path(file).stem if folder in ("backends/methods", "backends/adaptations", "backends/engines") else ""


def literals(path: str, source: str) -> Iterator[tuple[int, str]]:
    """The lines of a file of recipec where an axis's name stands, and the name."""
    tree = ast.parse(source)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node.value not in _refused_in(path, node.value):
            continue
        parent = parents[node]
        if isinstance(parent, ast.Expr | ast.JoinedStr) or _exports(parents, node):
            continue
        if node.value not in ORDINARY or _means_the_row(node, parent, parents.get(parent)):
            yield node.lineno, node.value


def _refused_in(path: str, name: object) -> set[object]:
    """The name, if it is an axis's and not that of the file's own row."""
    return {name} if _axes_of(name) and str(name).replace("-", "_") != _home(path) else set()


def _exports(parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether it stands in __all__, which names modules and functions."""
    outer = parents.get(parents[node])
    return isinstance(outer, ast.Assign) and ast.unparse(outer.targets[0]) == "__all__"


def _means_the_row(node: ast.Constant, parent: ast.AST, outer: ast.AST | None) -> bool:
    """Whether an ordinary word is compared with, looked up by or handed over as a value of its axis."""
    axis = _axes_of(node.value)[0]
    match parent:
        case ast.Dict() | ast.Set() | ast.List() | ast.Tuple():
            entries = parent.keys if isinstance(parent, ast.Dict) else parent.elts
            beside = [entry.value for entry in entries if isinstance(entry, ast.Constant) and entry is not node]
            if node in entries and any(axis in _axes_of(name) for name in beside):
                return True
            return isinstance(outer, ast.Compare) and _is_called(axis, outer)
        case ast.keyword(arg=str(name)):
            return bool(CALLED[axis].search(name))
        case ast.Compare() | ast.Subscript():
            return _is_called(axis, parent)
        case ast.MatchValue():
            return True
    return False


def _is_called(axis: str, node: ast.AST) -> bool:
    """Whether the code names a value of the axis, its strings aside."""
    words = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    words += [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    keys = [part.slice.value for part in ast.walk(node) if isinstance(part, ast.Subscript) and _is_text(part.slice)]
    asked = [call.args[0].value for call in ast.walk(node) if isinstance(call, ast.Call) and _first_is_text(call)]
    return any(CALLED[axis].search(word) for word in [*words, *keys, *asked])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _first_is_text(call: ast.Call) -> bool:
    return bool(call.args) and _is_text(call.args[0])


def in_templates(source: str) -> list[tuple[int, str]]:
    """The lines of a template where a tag or an expression has an axis's name; ordinary words only in a test."""
    tree = template_environment(templates_folder()).parse(source)
    tested = [part for test in tree.find_all(nodes.Compare) for part in test.find_all(nodes.Const)]
    found = [const for const in tree.find_all(nodes.Const) if const.value not in ORDINARY] + tested
    return sorted({(const.lineno, const.value) for const in found if _axes_of(const.value)})


FILES = {
    path.relative_to(ROOT / "recipec").as_posix(): path
    for path in sorted((ROOT / "recipec").rglob("*.py"))
    if not path.is_relative_to(ROOT / "recipec" / "axes")
}


@pytest.mark.parametrize("path", FILES)
def test_no_file_knows_a_row_by_name(path: str) -> None:
    found = literals(path, FILES[path].read_text(encoding="utf-8"))
    assert [(line, name) for line, name in found if (path, name) not in ALLOWED] == []


def test_what_is_allowed_is_still_there() -> None:
    found = {(path, name) for path in FILES for _, name in literals(path, FILES[path].read_text(encoding="utf-8"))}
    assert set(ALLOWED) <= found


def test_no_template_knows_a_row_by_name() -> None:
    templates = sorted(path for path in templates_folder().rglob("*.j2"))
    found = {path.name: in_templates(path.read_text(encoding="utf-8")) for path in templates}
    assert len(templates) > 20 and {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        'if stage.name == "dpo": pass',
        'waits = layout.strategy in ("zero3", "fsdp")',
        'RANKS = {"single": 0, "ddp": 1}',
        'rate = RATES["sft"]',
        'rule.strategy("ddp", peak)',
        'match layout.strategy:\n    case "single": pass',
        'if layout.adaptation == "full": pass',
        'if choice["adaptation"] == "full": pass',
        'if layout.quantization != "none": pass',
        'if values.get("data_format") == "text": pass',
        'if stage.format in ("text", other): pass',
        'Layout(adaptation="full")',
        'ORDER = ("chat", "text")',
    ],
)
def test_a_name_outside_its_row_is_found(code: str) -> None:
    assert list(literals("planner/search/fit.py", code))


@pytest.mark.parametrize(
    "code",
    [
        '"""sft"""',
        'f"{name}: none"',
        'line["text"]',
        'if layout.offload == "none": pass',
        'if model.kind == "chat": pass',
        'key(default="none")',
        '__all__ = ["lora", "strategy"]',
    ],
)
def test_an_ordinary_word_is_none(code: str) -> None:
    assert not list(literals("planner/search/fit.py", code))


def test_a_row_has_one_file_behind_it() -> None:
    assert not list(literals("backends/methods/dpo.py", 'FOLDER = "dpo"'))
    assert list(literals("backends/methods/dpo.py", 'FOLDER = "sft"'))


def test_a_name_in_a_test_of_a_template_is_found() -> None:
    assert in_templates('a\n{% if stage.name == "dpo" %}b{% endif %}') == [(2, "dpo")]
    assert in_templates("{% if format == 'text' %}b{% endif %}") == [(1, "text")]
    assert in_templates('if method == "dpo":\n    {{ "text" | py }}') == []

"""The templates read as the output with holes: no logic, shallow, short, every value through a literal filter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

from recipec.render.environment import FILTERS, templates_folder

TEMPLATES = sorted(templates_folder().rglob("*.j2"))
FORBIDDEN = (
    nodes.Assign, nodes.AssignBlock, nodes.Macro, nodes.CallBlock, nodes.Import, nodes.FromImport, nodes.Call,
    nodes.BinExpr, nodes.Concat, nodes.CondExpr, nodes.FilterBlock, nodes.Extends, nodes.Block, nodes.With,
)  # fmt: skip
LOGIC = (nodes.And, nodes.Or)  # BinExpr to Jinja, but words to a reader
MAX_LINES, MAX_DEPTH = 250, 2


def findings(source: str, python: bool = True) -> list[str]:
    """What breaks the rules for templates, in words."""
    tree = Environment().parse(source)
    found = [
        f"line {node.lineno}: {type(node).__name__}" for node in tree.find_all(FORBIDDEN) if not isinstance(node, LOGIC)
    ]
    printed = [part for output in tree.find_all(nodes.Output) for part in output.nodes]
    found += [f"line {part.lineno}: no literal filter at the end" for part in printed if not _is_literal(part)]
    found += [f"{len(source.splitlines())} lines"] if len(source.splitlines()) > MAX_LINES else []
    found += [f"nested {_depth(tree)} deep"] if _depth(tree) > MAX_DEPTH else []
    found += [f"{c!r} is a mark" for c in re.findall("[\ue000-\uf8ff]", source)]
    return found + (_coding_comments(source) if python else [])


def _is_literal(printed: nodes.Node) -> bool:
    return isinstance(printed, nodes.TemplateData) or (isinstance(printed, nodes.Filter) and printed.name in FILTERS)


def _depth(node: nodes.Node, depth: int = 0) -> int:
    """How deep `if` and `for` are nested; the links of an elif chain stand beside each other."""
    below = depth + isinstance(node, nodes.If | nodes.For)
    links = [part for link in getattr(node, "elif_", []) for part in link.iter_child_nodes()]
    children = [child for child in node.iter_child_nodes() if child not in getattr(node, "elif_", [])]
    return max([below, *(_depth(child, below) for child in children + links)])


def _coding_comments(source: str) -> list[str]:
    """Python reads an encoding from a comment in its first two lines, so no recipe text may stand there."""
    return ["a comment from a recipe in the first two lines"] if "comment" in "".join(source.splitlines()[:2]) else []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.relative_to(templates_folder()).as_posix())
def test_template_keeps_the_rules(template: Path) -> None:
    assert findings(template.read_text(encoding="utf-8"), template.name.endswith(".py.j2")) == []


_SAID = re.compile(r"""(?:SystemExit|Error)\(\s*f?(["'])(.*?)\1\s*\)""", re.S)


RUNS = [path for path in TEMPLATES if "data" not in path.relative_to(templates_folder()).parts]


@pytest.mark.parametrize("template", RUNS, ids=lambda path: path.relative_to(templates_folder()).as_posix())
def test_what_ends_a_run_is_said_in_whole_sentences(template: Path) -> None:
    """It begins with a capital letter or a name, and ends with a full stop or what a library said."""
    said = [text for _, text in _SAID.findall(template.read_text(encoding="utf-8"))]
    assert [text for text in said if text[0].islower() or not text.endswith((".", "{what}", "{error}", "{last}"))] == []


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("{% set x = 1 %}", "Assign"), ("{% macro m() %}{% endmacro %}", "Macro"), ("{{ (a + 1) | py }}", "Add"),
        ("{{ a.b() | py }}", "Call"), ("{{ a }}", "no literal filter"), ("{{ a | upper }}", "no literal filter"),
        ("{{ (a if b else c) | py }}", "CondExpr"), ("{{ (a ~ b) | py }}", "Concat"), ("x\n" * 251, "251 lines"),
        ("{% if a %}{% for b in c %}{% if b %}{% endif %}{% endfor %}{% endif %}", "nested 3 deep"),
        ("# {{ a | comment }}\n", "a comment from a recipe"),
    ],
)  # fmt: skip
def test_the_rules_are_checked(source: str, finding: str) -> None:
    assert any(finding in found for found in findings(source))


def test_what_is_allowed_is_not_reported() -> None:
    source = (
        "a\nb\n{% if a and not b %}\n{{ a.b | py }}\n{% elif c > 1 %}\nx\n{% else %}\n{% include 'x.j2' %}\n{% endif %}"
    )
    assert findings(source) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.relative_to(templates_folder()).as_posix())
def test_texts_are_read_and_written_in_utf_8(template: Path) -> None:
    """Whatever the locale is: a chat template or a sample has letters that ASCII and Latin-1 lack."""
    lines = template.read_text(encoding="utf-8").splitlines()
    touching = [line for line in lines if re.search(r"\.read_text\(|\.write_text\(|\.open\(\"w\"", line)]
    assert [line for line in touching if "encoding=" not in line] == []

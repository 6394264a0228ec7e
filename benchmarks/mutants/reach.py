"""A pytest plugin for a run without a mutant: how long each test takes, whether it passes, and what it reaches.

The statements of recipec that a test runs are those whose mutants it can notice. Each function's statements report
themselves; caches are emptied before each test, so that it reaches what it would reach if it ran alone.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

import pytest

ROOT = os.environ["MUTANTS_ROOT"] + "/"

tests: dict[str, dict[str, Any]] = {}
shared: dict[str, set[str]] = defaultdict(set)  # what the fixtures of a file reach, for all of its tests
imported: set[str] = set()  # what runs before the first test
current = imported


class _Reporting(ast.NodeTransformer):
    """Puts a report before each statement of each function."""

    def __init__(self, path: str) -> None:
        self.path = path

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        for inner in ast.walk(node):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(inner, field, None)
                if isinstance(block, list):
                    text = block[:1] if field == "body" and _docstring(inner) else []
                    rest = [new for old in block[len(text) :] for new in (self._report(old), old)]
                    setattr(inner, field, text + rest)
        return node

    def _report(self, node: ast.stmt) -> ast.Expr:
        call = ast.Call(ast.Name("__reached__", ast.Load()), [ast.Constant(f"{self.path}:{node.lineno}")], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def _docstring(node: ast.AST) -> str | None:
    return ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def _source_to_code(self: SourceFileLoader, data: Any, path: Any, **more: Any) -> CodeType:
    if str(path).startswith(f"{ROOT}recipec/"):
        data = _Reporting(str(path).removeprefix(ROOT)).visit(ast.parse(data))
    return _compiled(self, data, path, **more)


def _reached(name: str) -> None:
    current.add(name)


builtins.__reached__ = _reached  # type: ignore[attr-defined]
_compiled, SourceFileLoader.source_to_code = SourceFileLoader.source_to_code, _source_to_code  # type: ignore[assignment]


def _empty_caches() -> None:
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) and str(module.__file__).startswith(ROOT):
            for thing in list(vars(module).values()):
                if isinstance(thing, functools._lru_cache_wrapper):
                    thing.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global current
    _empty_caches()
    tests[item.nodeid] = {"seconds": 0.0, "passed": True, "reaches": set()}
    current = shared[item.nodeid.partition("::")[0]]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    global current
    outer, current = current, tests[item.nodeid]["reaches"]
    began = time.process_time()
    try:
        return (yield)
    finally:
        tests[item.nodeid]["seconds"] = time.process_time() - began
        current = outer


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.passed:
        tests[report.nodeid]["passed"] = False


def pytest_sessionfinish() -> None:
    for id, test in tests.items():
        test["reaches"] = sorted(test["reaches"] | shared[id.partition("::")[0]])
    with open(os.environ["MUTANTS_REACH"], "w", encoding="utf-8") as file:
        json.dump({"imported": sorted(imported), "tests": tests}, file)

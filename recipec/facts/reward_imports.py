"""What files of reward functions and of tools import that a bundle does not install (W0538)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from recipec.catalog.stack import modules
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.acting import Acting
from recipec.facts.rewards import Rewards


def against_stack(rewards: Rewards, acting: Acting) -> Iterator[Diagnostic]:
    """Yield, once for each file, the imports that neither Python nor requirements.txt has (W0538)."""
    for module, text in (acting.files | rewards.files).items():
        names = dict.fromkeys(name for name in _imported(ast.parse(text)) if name not in _installed())
        entries = (*rewards.functions, *acting.functions, *filter(None, [acting.environment]))
        named = next(entry for entry in entries if entry.module == module)
        if names:
            listed = " and ".join(f"`{name}`" for name in names)
            label = Label(named.place, f"{named.file} imports {listed}")
            help = (
                "install it beside requirements.txt where the bundle runs, or write the code into the file",
                'to say that this is done: `allow = ["W0538"]` under [recipe]',
            )
            note = "a bundle copies such a file alone, and installs no packages of its own"
            title = f"a bundle does not install {listed}"
            yield Diagnostic("W0538", title, (label,), help, (note,))


def _installed() -> frozenset[str]:
    return sys.stdlib_module_names | modules()


def _imported(node: ast.AST) -> Iterator[str]:
    """The first parts of the names that are imported, but where a failed import is caught."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
    tried = node.body if isinstance(node, ast.Try) and node.handlers else []
    for child in ast.iter_child_nodes(node):
        if child not in tried:
            yield from _imported(child)

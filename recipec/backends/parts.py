"""What the emitted Python is put together from: each side of a stage brings its part, a skeleton gives them places."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from recipec.render.call import WIDTH, Arg, Call, render_call
from recipec.render.traced import Raw, fragment


class Import(Struct, frozen=True):
    """A module, or a name from it, and the decisions that need it."""

    module: str
    name: str = ""  # empty: the module itself
    decisions: tuple[str, ...] = ()
    left_out: bool = False  # by its decisions: the statement for its module is also theirs


class Part(Struct, frozen=True, kw_only=True):
    """What one side of a stage (its method, adaptation, engine, device or model) brings to train.py."""

    imports: tuple[Import, ...] = ()
    own_imports: tuple[Import, ...] = ()  # from the files beside train.py
    constants: tuple[Raw, ...] = ()
    functions: tuple[Raw, ...] = ()
    before_trainer: tuple[Raw, ...] = ()  # lines of main(), in the order of these fields
    arguments: tuple[Arg, ...] = ()  # of the trainer
    after_trainer: tuple[Raw, ...] = ()
    before_training: tuple[Raw, ...] = ()
    before_saving: tuple[Raw, ...] = ()
    after_model: tuple[Raw, ...] = ()  # the result is saved, and not yet marked as whole
    after_saving: tuple[Raw, ...] = ()


def joined(parts: Iterable[Part]) -> Part:
    """All parts as one, in their order."""
    listed = list(parts)
    return Part(
        **{name: tuple(chain.from_iterable(getattr(p, name) for p in listed)) for name in Part.__struct_fields__}
    )


def lines(ids: Iterable[str], *texts: str) -> tuple[Raw, ...]:
    """Lines of code, each credited to the decisions that brought them."""
    credited = tuple(ids)
    return tuple(fragment(text, credited) for text in texts)


def returning(function: str, type: str, call: Call, ids: Iterable[str], first: str = "") -> Raw:
    """A function without arguments that returns one call, behind a statement where one comes `first`."""
    body = [*[first] * bool(first), f"return {render_call(call, indent=4)}"]
    return fragment("\n    ".join([f"def {function}() -> {type}:", *body]), ids)


def import_blocks(imports: Iterable[Import]) -> tuple[list[Raw], list[Raw]]:
    """The statements for the standard library and those for installed packages, sorted as ruff's isort does."""
    found: dict[tuple[bool, str], list[Import]] = {}  # (is it `from MODULE import`, MODULE) -> what is imported
    for item in imports:
        found.setdefault((bool(item.name), item.module), []).append(item)
    blocks: tuple[list[Raw], list[Raw]] = [], []
    for key in sorted(key for key, items in found.items() if not all(item.left_out for item in items)):
        blocks[_package(key[1]) not in sys.stdlib_module_names].append(_statement(found[key]))
    return blocks


def import_lines(imports: Iterable[Import]) -> list[Raw]:
    """The statements of a single block."""
    standard, other = import_blocks(imports)
    return standard + other


def _package(module: str) -> str:
    return module.partition(".")[0]


def _statement(items: list[Import]) -> Raw:
    """One statement for all names of a module; one name per line where one line is too short."""
    ids = dict.fromkeys(id for item in items for id in item.decisions)
    module, names = items[0].module, sorted({item.name for item in items if not item.left_out}, key=_constants_first)
    line = f"from {module} import {', '.join(names)}" if names[0] else f"import {module}"
    if len(line) > WIDTH:
        line = f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
    return fragment(line, ids)


def _constants_first(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions."""
    return not name.isupper(), not name[:1].isupper(), name.lower()

"""`recipec diff`: what differs between two recipes or two bundles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from recipec.cli.inputs import AnyPath, RecipePath, files_on_disk, open_bundle
from recipec.cli.output import FINE, FOUND, formats, print_json, strong, table
from recipec.cli.provenance import changed_decisions
from recipec.diagnostics.printable import printable
from recipec.units import duration, gib, usd, value_text


@click.command("diff")
@click.argument("a", type=AnyPath())
@click.argument("b", type=AnyPath())
@formats("human", "json")
def command(a: Path, b: Path, format: str) -> int:
    """Show the differences of two recipes or two bundles in decisions, memory, time, cost and files.

    The exit code is 1 when anything differs. The files of a bundle are compared as they are now, with your edits.
    """
    document = diff_document(_side(a, b, format), _side(b, a, format))
    if format == "json":
        print_json(document)
    else:
        click.echo(diff_text(document), nl=False)
    return FINE if document["identical"] else FOUND


def _side(path: Path, other: Path, format: str) -> Side:
    """A bundle as it is, or a recipe as it is compiled: for the bundle that it is compared with."""
    if path.is_dir():
        bundle = open_bundle(path)
        return Side(str(path), bundle.plan, files_on_disk(bundle))
    from recipec.cli.compiling import compiled  # bundles are compared without the compiler

    out = other if other.is_dir() else None
    compilation = compiled(RecipePath().convert(path, None, None), format, out=out)
    return Side(str(path), json.loads(compilation.plan_json), {file.path: file.text for file in compilation.files})


SCHEMA_VERSION = 1

Document = dict[str, Any]


class Side(Struct, frozen=True):
    """One of the two: its name on the command line, its plan and its files."""

    name: str
    plan: Document
    files: Mapping[str, str]


def diff_document(a: Side, b: Side) -> Document:
    """The JSON model: decisions with both values and reasons, figures of each stage, and a unified diff per file."""
    decisions, files = changed_decisions(a.plan, b.plan), _files(a.files, b.files)
    stages = _stages(a.plan, b.plan)
    return {
        "schema_version": SCHEMA_VERSION,
        "a": a.name,
        "b": b.name,
        "identical": not (decisions or files or any(stage["a"] != stage["b"] for stage in stages)),
        "decisions": decisions,
        "stages": stages,
        "files": files,
    }


def _stages(a: Document, b: Document) -> list[Document]:
    one, other = ({stage["name"]: stage for stage in plan["stages"]} for plan in (a, b))
    names = dict.fromkeys([*one, *other])
    return [{"name": name, "a": _figures(one.get(name)), "b": _figures(other.get(name))} for name in names]


def _figures(stage: Document | None) -> Document | None:
    if stage is None:
        return None
    memory = stage["memory"]
    return {
        "peak_allocated_bytes": memory["peak_allocated_bytes"],
        "usable_bytes": memory["usable_bytes"],
        "seconds": stage["time"]["seconds"],
        "usd": stage["cost"]["usd"],
    }


def _files(a: Mapping[str, str], b: Mapping[str, str]) -> list[Document]:
    paths = [path for path in dict.fromkeys([*a, *b]) if a.get(path) != b.get(path)]
    return [{"path": path, "change": _change(path, a, b), "diff": _unified(path, a, b)} for path in sorted(paths)]


def _change(path: str, a: Mapping[str, str], b: Mapping[str, str]) -> str:
    if path not in a:
        return "added"
    return "changed" if path in b else "removed"


def _unified(path: str, a: Mapping[str, str], b: Mapping[str, str]) -> str:
    from difflib import unified_diff

    old, new = a.get(path, "").split("\n"), b.get(path, "").split("\n")
    return "\n".join(unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="", n=2))


def diff_text(document: Document) -> str:
    """Decisions first, then figures, then text; one line when nothing differs."""
    if document["identical"]:
        return "no differences\n"
    parts = [_decisions(document), _all_figures(document), *(_file(file) for file in document["files"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _decisions(document: Document) -> str:
    return "\n".join(_decision(row) for row in document["decisions"])


def _decision(row: Document) -> str:
    values = " -> ".join("absent" if side is None else value_text(side["value"]) for side in (row["a"], row["b"]))
    reasons = [(mark, side["because"]) for mark, side in (("-", row["a"]), ("+", row["b"])) if side]
    lines = [_toned(mark, f"    {mark} {printable(because)}") for mark, because in reasons]
    return "\n".join([f"{strong(row['id'])}: {printable(values)}", *lines])


def _all_figures(document: Document) -> str:
    stages = [stage for stage in document["stages"] if stage["a"] != stage["b"]]
    rows = [("stage", "", "peak of usable memory", "training time", "cost of the whole run")]
    for stage in stages:
        rows += [(stage["name"], mark, *_shown(stage[side])) for mark, side in (("-", "a"), ("+", "b")) if stage[side]]
    return "\n".join(table(rows, numbers=[2, 3, 4])) if stages else ""


def _shown(figures: Document) -> tuple[str, str, str]:
    memory = f"{gib(figures['peak_allocated_bytes'])} of {gib(figures['usable_bytes'])}"
    return memory, duration(figures["seconds"]), usd(figures["usd"])


def _file(file: Document) -> str:
    return "\n".join(_toned(line[:1], printable(line)) for line in file["diff"].split("\n"))


def _toned(mark: str, line: str) -> str:
    color = {"-": "red", "+": "green", "@": "cyan"}.get(mark)
    return click.style(line, fg=color) if color else line

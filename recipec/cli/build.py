"""`recipec build`: compile a recipe and write its bundle."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from recipec.bundle.build import FINE, UNUSABLE, WriteResult, write_bundle
from recipec.bundle.changes import Action, FileChange, OnConflict
from recipec.cli.compiling import compiled, tell
from recipec.cli.edits import edits_in, edits_text
from recipec.cli.inputs import AnyPath, RecipePath, plan_if_any
from recipec.cli.output import Failure, dim, formats, print_json, strong, tone
from recipec.cli.provenance import changed_decisions
from recipec.compiler import Compilation
from recipec.diagnostics.printable import printable
from recipec.units import counted, value_text


@click.command("build")
@click.argument("recipe", type=RecipePath())
@click.option("-o", "--out", required=True, type=AnyPath(), metavar="OUT", help="Output folder of the bundle.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if OUT is out of date (for CI).")
@click.option("--dry-run", is_flag=True, help="Show what would be written, without writing.")
@click.option("--force", is_flag=True, help="Discard all your edits in OUT, and write deleted files again.")
@click.option(
    "--restore",
    multiple=True,
    metavar="FILE",
    help="Write this file of OUT as it is built: discards your edits of it, or writes it again. Repeatable.",
)
@click.option(
    "--conflict",
    type=click.Choice([choice.value for choice in OnConflict]),
    default=OnConflict.MARKERS.value,
    show_default=True,
    help="If you and the new build changed the same lines: write conflict markers, keep your version, or stop.",
)
@formats("human", "concise", "json")
def command(
    recipe: Path,
    out: Path,
    check: bool,
    dry_run: bool,
    force: bool,
    restore: tuple[str, ...],
    conflict: str,
    format: str,
) -> int:
    """Write the bundle of a recipe to OUT. Your edits of an earlier bundle are merged."""
    compilation = compiled(recipe, format, out=out)
    assert compilation.lock is not None
    plan, before = compilation.plan_json, plan_if_any(out)
    result = write_bundle(
        out,
        compilation.files,
        plan,
        compilation.lock,
        conflict=conflict,
        force=force,
        restore=_files_of(out, restore, [file.path for file in compilation.files]),
        dry_run=dry_run,
        check=check,
    )
    edits = edits_in(out) if before and result.exit_code != UNUSABLE else []
    document = build_document(recipe, out, plan, before, result, edits, next_commands(recipe, out, compilation))
    if format == "json":
        print_json(document)
    elif document["changes"]:
        click.echo(build_text(document, brief=format == "concise"), nl=False)
    tell(result.diagnostics, format)
    return result.exit_code


def _files_of(out: Path, named: tuple[str, ...], files: Sequence[str]) -> set[str]:
    """The files of the bundle that --restore names: as they are called in OUT, or with OUT before them."""
    whole = Path(os.path.abspath(out))
    given = {name: Path(os.path.abspath(name)) for name in named}
    found = {
        name: path.relative_to(whole) if name not in files and path.is_relative_to(whole) else Path(name)
        for name, path in given.items()
    }
    for name, path in sorted(found.items()):
        if path.as_posix() not in files:
            near = get_close_matches(path.as_posix(), files, 1)
            help = f"did you mean {near[0]}?" if near else f"its files: {', '.join(files)}"
            raise Failure(f"the bundle has no file `{name}`", help, exit_code=UNUSABLE)
    return {path.as_posix() for path in found.values()}


SCHEMA_VERSION = 1
_MARKS = {
    Action.CREATE: "+",
    Action.OVERWRITE: "~",
    Action.MERGE: "~",
    Action.DELETE: "-",
    Action.CONFLICT: "!",
    Action.REFUSE: "!",
}
_COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "red"}
_COUNTED = {"+": ("created", "to create"), "~": ("updated", "to update"), "-": ("deleted", "to delete")}
_WORDS = {
    Action.MERGE: "merged with your edits",
    Action.KEEP_EDIT: "your version kept",
    Action.STAYS_DELETED: "still deleted",
}

Document = dict[str, Any]


def build_document(
    recipe: Path,
    out: Path,
    plan_json: bytes,
    before: Document | None,
    result: WriteResult,
    edits: list[Document],
    commands: list[str],
) -> Document:
    """The JSON model: each file with its action, the decisions that changed, the user's edits, what to do next."""
    return {
        "schema_version": SCHEMA_VERSION,
        "recipe": str(recipe),
        "out": str(out),
        "written": result.written,
        "stale": result.stale,
        "changes": [_change(change) for change in result.changes],
        "decisions": changed_decisions(before, json.loads(plan_json)) if before else [],
        "edits": edits,
        "next": commands if result.exit_code == FINE and (result.written or not result.stale) else [],
    }


def _change(change: FileChange) -> Document:
    mark = _MARKS.get(change.action, "=")
    note = change.note or _WORDS.get(change.action, "")
    return {"mark": mark, "path": change.path, "action": change.action.value, "note": note}


def next_commands(recipe: Path, out: Path, compilation: Compilation) -> list[str]:
    """The two commands that most people want now, the second after a comment where several nodes start it; data paths
    count from the recipe's folder."""
    start = compilation.start
    assert start is not None
    root, shown = printable(str(recipe.parent)), printable(str(out))
    here = "" if root == "." else f"DATA_ROOT={_quoted(root)} "
    run = f"{here}{start.command} {_quoted(f'{shown}/{start.script}')} {start.short}".rstrip()
    each = f"# on each of the {start.nodes} nodes, which share {shown}; NODE_RANK is 0 on the first, 1 on the next"
    return [f"recipec verify {_quoted(shown)}", *[each] * (start.nodes > 1), run]


def _quoted(path: str) -> str:
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def build_text(document: Document, *, brief: bool = False) -> str:
    """The changes with their marks, a summary line, and unless `brief` where to go from here."""
    heading = f"{strong(printable(document['recipe']))} -> {strong(printable(document['out']))}"
    edits = ["", *edits_text(document["edits"])] if document["edits"] else []
    lines = [heading, "", *_changes(document), *_decisions(document), *edits, "", _summary(document)]
    return "\n".join(lines if brief else [*lines, *_ending(document)]) + "\n"


def _changes(document: Document) -> list[str]:
    rows = [change for change in document["changes"] if change["mark"] != "=" or change["note"]]
    wide = max((len(change["path"]) for change in rows), default=0)
    unchanged = len(document["changes"]) - len(rows)
    rest = [dim(f"  = {unchanged} unchanged")] if unchanged else []
    return [_line(change, wide) for change in rows] + rest


def _line(change: Document, wide: int) -> str:
    mark = change["mark"]
    shown = tone(mark, _COLOURS[mark]) if mark in _COLOURS else mark
    return f"  {shown} {printable(change['path']):<{wide}}  {printable(change['note'])}".rstrip()


def _decisions(document: Document) -> list[str]:
    """Why the files change, where a decision is the reason."""
    whole = _whole_stages(document["decisions"])
    counts = Counter(_stage(row) for row in document["decisions"])
    folded = [f"  {stage}: {what}, with {counted(counts[stage], 'decision')}" for stage, what in whole.items()]
    others = (row for row in document["decisions"] if _stage(row) not in whole)
    rows = [f"  {row['id']}: {_side(row['a'])} -> {_side(row['b'])}{_because(row)}" for row in others]
    return ["", "because these decisions changed:", *folded, *rows] if folded or rows else []


def _whole_stages(rows: list[Document]) -> dict[str, str]:
    """What became of the stages of which one of the two plans has nothing."""
    own = [row for row in rows if row["id"] == f"{_stage(row)}.stage" and None in (row["a"], row["b"])]
    return {_stage(row): "a new stage" if row["a"] is None else "no longer a stage" for row in own}


def _stage(row: Document) -> str:
    return str(row["id"].partition(".")[0])


def _side(decision: Document | None) -> str:
    return "absent" if decision is None else printable(value_text(decision["value"]))


def _because(row: Document) -> str:
    return f"  ({printable(row['b']['because'])})" if row["b"] else ""


def _summary(document: Document) -> str:
    marks = Counter(change["mark"] for change in document["changes"])
    words = {mark: done if document["written"] else to_do for mark, (done, to_do) in _COUNTED.items()}
    parts = [f"{marks[mark]} {said}" for mark, said in (words | {"=": "unchanged"}).items() if marks[mark]]
    if marks["!"]:
        parts.append(counted(marks["!"], "conflict"))
    return f"Files: {', '.join(parts)}."


def _ending(document: Document) -> list[str]:
    out = printable(document["out"])
    if document["next"]:
        state = f"The bundle is in {out}." if document["written"] else f"The bundle in {out} was up to date."
        return [state, "", "Next:", *(f"  {command}" for command in document["next"])]
    if document["written"]:
        return [f"The bundle is in {out}."]
    if held := [printable(row["path"]) for row in document["changes"] if row["action"] == Action.CONFLICT.value]:
        ways = "resolve them and build again, or take recipec's version with --force"
        return [f"Nothing was written. Conflicts are open in {', '.join(held)}: {ways}."]
    record = document["stale"] and not any(change["mark"] in _COUNTED for change in document["changes"])
    noted = ["Only the records of recipec in the folder are out of date; a build updates them."] if record else []
    return [*noted, "Nothing was written."]

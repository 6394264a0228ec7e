"""`recipec why`: from a line or a key to the decision, its reason and what that rests on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from recipec.cli.inputs import AnyPath, RecipePath, is_bundle, open_bundle
from recipec.cli.output import Failure, dim, formats, print_json, strong
from recipec.cli.provenance import Emitted, explain_key, explain_line
from recipec.diagnostics.printable import printable
from recipec.units import counted, duration, gib, usd, value_text

Document = dict[str, Any]

_LINE = re.compile(r"(.+):([0-9]{1,9})", re.DOTALL)


@click.command("why")
@click.argument("target", metavar="OUT/FILE:LINE | OUT | RECIPE", type=AnyPath())
@click.argument("key", required=False)
@click.option(
    "--full", is_flag=True, help="Show everything that a decision depends on, down to the recipe and the catalog."
)
@formats("human", "json")
def command(target: Path, key: str | None, full: bool, format: str) -> None:
    """Explain a line of generated code or a decision.

    \b
      recipec why out/train.py:57       a line of generated code, also of an edited file
      recipec why out learning_rate     a decision in a bundle
      recipec why recipe.toml dpo.beta  a decision of a recipe, for its stage dpo
    """
    document = _of_line(target) if key is None else explain_key(key, _emitted(target, format))
    if format == "json":
        print_json(document)  # always in full
    else:
        click.echo(line_text(document, full) if key is None else key_text(document, full), nl=False)


def _of_line(target: Path) -> Document:
    match = _LINE.fullmatch(str(target))
    if match is None:
        raise click.UsageError("give a line (out/train.py:57), or a folder and a key (out learning_rate)")
    return explain_line(*_bundle_around(Path(match[1])), int(match[2]))


def _bundle_around(file: Path) -> tuple[Path, str]:
    """The nearest folder above `file` that is a bundle, and the file's path in it."""
    absolute = Path(os.path.abspath(file))
    for folder in absolute.parents:
        if is_bundle(folder):
            shown = Path(os.path.relpath(folder)) if not file.is_absolute() else folder
            return shown, absolute.relative_to(folder).as_posix()
    raise Failure(f"`{file}` is not inside a bundle", "name a file in a folder written by `recipec build`", exit_code=2)


def _emitted(target: Path, format: str) -> Emitted:
    """What a bundle holds, or what a recipe would build."""
    if target.is_dir():
        return Emitted.in_bundle(open_bundle(target))
    import json

    from recipec.cli.compiling import compiled

    compilation = compiled(RecipePath().convert(target, None, None), format)
    return Emitted(json.loads(compilation.plan_json), compilation.source_map)


_SHOWN_LINES = 12
_SHOWN_DECISIONS, _SHOWN_INPUTS = 6, 5  # of a line


def line_text(document: Document, full: bool = False) -> str:
    """The line, the decisions on it nearest first, and what put the file there; all that they rest on if `full`."""
    head = [f"{strong(printable(document['file']))}:{document['line']}", f"  {printable(document['text'].strip())}"]
    blocks = [
        "\n".join([*head, *_history(document)]),
        *(map(decision_text, document["decisions"]) if full else _behind(document)),
    ]
    placed = ", ".join(_assignment(decision) for decision in document["file_decided_by"])
    if placed and document["kind"] == "decided":
        blocks.append(dim(f"the file exists because of {placed}"))
    return "\n\n".join(blocks) + "\n"


def _behind(document: Document) -> list[str]:
    """The decision that the line holds with what it was made from; of several the reasons, and where to read on."""
    decisions = document["decisions"]
    if document["kind"] == "decided" and len(decisions) == 1:
        return [_reason_text(decisions[0], "source", "watch") + _top(decisions[0]["from"]), *_read_on(decisions[0])]
    shown = [_reason_text(decision) for decision in decisions[:_SHOWN_DECISIONS]]
    left = len(decisions) - len(shown)
    more = [dim(f"and {counted(left, 'more decision')}")] if left else []
    return [*shown, *more, *(_read_on(decisions[0]) if decisions else [])]


def _top(inputs: list[Document]) -> str:
    """The first of the decisions that one was made from, and how many more there are."""
    shown = [f"    {printable(_assignment(each))}: {printable(each['because'])}" for each in inputs[:_SHOWN_INPUTS]]
    left = len(inputs) - len(shown)
    return "\n".join(["", *(["  from"] if shown else []), *shown, *([f"    and {left} more"] if left else [])]).rstrip()


def _read_on(decision: Document) -> list[str]:
    return [dim(f"`recipec why OUT {decision['id']} --full` shows everything that it depends on")]


def _history(document: Document) -> list[str]:
    """What the user did to the line, and where its text comes from."""
    if document["conflict"]:
        found = f"{document['conflict']}, in a conflict that is not resolved"
        return [f"{found}: keep the lines that should stay, and delete the others and the markers"]
    if document["kind"] == "yours":
        return ["you added this line; rebuilds keep it"]
    lines = [f"you changed this line; it was generated as: {printable(document['built']['text'].strip())}"]
    lines = lines if document["edited"] else []
    if document["kind"] == "copied":
        lines.append(f"copied from your file {document['copied_from']}: edit that one, and build again")
    if document["kind"] == "left":
        lines.append(
            f"{printable(document['file'])} is no longer part of the bundle; rebuilds keep it as you edited it"
        )
    if document["kind"] == "fixed":
        chosen = ", ".join(_assignment(decision) for decision in document["decisions"])
        lines.append(f"fixed text of the template{f', chosen by {chosen}' if chosen else ', the same in every bundle'}")
    return lines


def key_text(document: Document, full: bool = False) -> str:
    """The decision in each stage, with the lines it reaches; with all that it rests on if `full`."""
    decisions = document["decisions"]
    if full:
        return "\n\n".join(f"{decision_text(each)}{_reach(each)}" for each in decisions) + "\n"
    blocks = [f"{_reason_text(each, 'source', 'watch')}{_top(each['from'])}{_reach(each)}" for each in decisions]
    deeper = next((each for each in decisions if each["from"]), None)
    return "\n\n".join([*blocks, *(_read_on(deeper) if deeper else [])]) + "\n"


def decision_text(decision: Document) -> str:
    """A decision with its reason, where to change and watch it, and the tree of what it rests on."""
    tree = ["  from", *_tree(decision["from"], "    ")] if decision["from"] else []
    return "\n".join([_reason_text(decision, "source", "watch"), *tree])


def _reason_text(decision: Document, *more: str) -> str:
    """A decision with its reason and where to change it, and `more` of what is known of it."""
    rows = [
        ("because", decision["because"]),
        ("dissent", decision["dissent"]),
        ("rule", decision["rule"] and f"{decision['rule']} (recipec explain {decision['rule']})"),
        *((name, decision[name]) for name in more),
        ("change", decision["key"] and f"`{decision['key']}` in the recipe{_set_at(decision)}"),
    ]
    lines = [strong(printable(_assignment(decision))), *(f"  {name:<8} {printable(v)}" for name, v in rows if v)]
    return "\n".join(lines)


def _set_at(decision: Document) -> str:
    return f", set at {decision['where']}" if decision["where"] else ""


def _tree(inputs: list[Document], margin: str) -> list[str]:
    lines = []
    for decision in inputs:
        source = f" [{decision['source']}]" if decision["origin"] == "catalog" and decision["source"] else ""
        line = printable(f"{_assignment(decision)}: {decision['because']}")
        lines.append(f"{margin}{line}{dim(printable(source))}")
        lines += _tree(decision["from"], margin + "  ")
    return lines


def _assignment(decision: Document) -> str:
    value = decision["value"]
    shown = "; ".join(map(_measure, value, value.values())) if isinstance(value, dict) else value_text(value)
    return f"{decision['id']} = {shown}"


def _measure(name: str, amount: float) -> str:
    """A part of a prediction: seconds and dollars say in their names that they are, and all others are bytes."""
    if name == "usd":
        return f"cost {usd(amount)}"
    if name.startswith("seconds"):
        return f"{name.removeprefix('seconds of ').replace('seconds', 'whole run')} {duration(amount)}"
    return f"{name.removesuffix('_bytes').replace('_', ' ')} {gib(amount)}"


def _reach(decision: Document) -> str:
    lines = ""
    if decision["leads_to"]:
        lines += f"\n  decides  {', '.join(decision['leads_to'])}"
    places = [printable(_place(run)) for run in decision["lines"]]
    if places:
        more = f" and {len(places) - _SHOWN_LINES} more places" if len(places) > _SHOWN_LINES else ""
        lines += f"\n  lines    {', '.join(places[:_SHOWN_LINES])}{more}"
    return lines


def _place(run: Document) -> str:
    last = f"-{run['last']}" if run["last"] > run["first"] else ""
    return f"{run['file']}:{run['first']}{last}" + " (you edited it)" * run["edited"]

"""`recipec why`: from a line or a key to the decision, its reason and what that rests on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from recipec.cli.bundles import is_bundle, open_bundle
from recipec.cli.output import Failure, formats, print_json
from recipec.cli.paths import AnyPath, RecipePath
from recipec.cli.why_key import Emitted, explain_key
from recipec.cli.why_line import explain_line
from recipec.cli.why_view import key_text, line_text

_LINE = re.compile(r"(.+):([0-9]{1,9})", re.DOTALL)

Document = dict[str, Any]


@click.command("why")
@click.argument("target", metavar="OUT/FILE:LINE | OUT | RECIPE", type=AnyPath())
@click.argument("key", required=False)
@formats("human", "json")
def command(target: Path, key: str | None, format: str) -> None:
    """Explain a line of a bundle or a decision.

    \b
      recipec why out/train.py:57       a line, also of a file that you have edited
      recipec why out learning_rate     a decision of a bundle
      recipec why recipe.toml dpo.beta  a decision of a recipe, here of its stage dpo
    """
    document, text = _of_line(target) if key is None else _of_key(target, key, format)
    if format == "json":
        print_json(document)
    else:
        click.echo(text, nl=False)


def _of_line(target: Path) -> tuple[Document, str]:
    match = _LINE.fullmatch(str(target))
    if match is None:
        raise click.UsageError("name a line, as in out/train.py:57, or a key, as in out learning_rate")
    document = explain_line(*_bundle_around(Path(match[1])), int(match[2]))
    return document, line_text(document)


def _bundle_around(file: Path) -> tuple[Path, str]:
    """The nearest folder above `file` that is a bundle, and the file's path in it."""
    absolute = Path(os.path.abspath(file))
    for folder in absolute.parents:
        if is_bundle(folder):
            shown = Path(os.path.relpath(folder)) if not file.is_absolute() else folder
            return shown, absolute.relative_to(folder).as_posix()
    raise Failure(f"`{file}` is not in a bundle", "name a file of a folder that `recipec build` wrote", exit_code=2)


def _of_key(target: Path, key: str, format: str) -> tuple[Document, str]:
    document = explain_key(key, _emitted(target, format))
    return document, key_text(document)


def _emitted(target: Path, format: str) -> Emitted:
    """What a bundle holds, or what a recipe would build."""
    if target.is_dir():
        return Emitted.in_bundle(open_bundle(target))
    import json

    from recipec.cli.compiling import compiled

    compilation = compiled(RecipePath().convert(target, None, None), format)
    return Emitted(json.loads(compilation.plan_json), compilation.source_map)

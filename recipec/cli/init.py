"""`recipec init`: write a commented recipe, from flags, questions or proposals."""

from __future__ import annotations

import json
import os
import shlex
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import click

from recipec.axes import (
    ADAPTATIONS,
    METHODS,
    NAMED_MODELS,
    ROW_FORMATS,
    Method,
    families,
    meant_by,
    methods_of,
    stages_of,
    tasks,
)
from recipec.axes.row_formats import FLAGS, UNPAIRED_PREFERENCE
from recipec.cli.init_columns import parsed, table
from recipec.cli.init_data import SeenRows, look, paths_in
from recipec.cli.init_questions import Answers, ProposedAnswer, ask, described, missing_flags, propose_all
from recipec.cli.inputs import AnyPath
from recipec.cli.output import UNUSABLE, Failure
from recipec.diagnostics.printable import printable

_WIDTH = 116  # characters of a comment
_LABELED = METHODS[UNPAIRED_PREFERENCE.usual]  # what learns from answers with a label
RECIPE, SCHEMA = "recipe.toml", "recipe.schema.json"
_TEXT = """\
#:schema recipe.schema.json
# recipec decides every key that is not set here. `recipec plan` shows the result, `recipec why` the reasons.

[recipe]
name = {name}
# description = "One sentence for the README and the registry entry."

[goal]
task = {task}
# priority = "speed"           # quality | speed | memory

[model]
name = {model}

[data]
{data_key} = {data}
{rows}# eval = "data/eval.jsonl"     # default: a share of the rows above
# max_length = 2048            # tokens; default: estimated from the rows

[hardware]
gpu = {gpu}
gpus_per_node = {gpus}
{alignment}
# Uncomment lines to override the decisions of recipec.
# [train]
# epochs = 2
# learning_rate = 1e-4
{adaptation}
# [budget]
# max_gpu_hours = 96           # a plan with more GPU hours is an error
# max_cost_usd = 50            # a more expensive plan is an error
"""

_FLAG = next(role.name for role in UNPAIRED_PREFERENCE.roles if role.holds == FLAGS)
_ROWS = """\
format = {format}
# examples = 10_000            # rows of the data set; recipec assumes a number without it
# tokens_per_example = 500     # their mean length; recipec assumes a number without it
# ignore = []                  # columns that training leaves out
"""


class TaskName(click.Choice[str]):
    """A task; for a word of another tool, such as sft, the task that is meant."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from recipec.recipe.foreign_values import instead_of

        if value not in self.choices and (instead := instead_of("goal.task", value.lower())):
            meant = [line.replace('set `goal.task = "', "use `--task ").replace('"`', "`", 1) for line in instead]
            raise Failure(f"--task: `{value}` is not one of {', '.join(self.choices)}", *meant, exit_code=UNUSABLE)
        return super().convert(value, param, ctx)


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=AnyPath())
@click.option(
    "--data",
    metavar="DATA",
    help="Training data: a path, a glob, a list of them, or owner/name on the Hugging Face Hub.",
)
@click.option("--columns", metavar="ROLE=NAME,…", help="Your names of columns: prompt=question,completion=answer.")
@click.option("--format", help="Format of the rows of a data set on the Hub, for example chat.")
@click.option("--split", help="Split of a data set on the Hub, for example train_sft.")
@click.option("--task", type=TaskName(list(tasks())), help="Training task.")
@click.option("--gpu", help="GPU: a name of `recipec list gpus`, or cpu.")
@click.option("--gpus", help="Number of GPUs per node, 1 to 8.")
@click.option("--model", help="Model: a name of `recipec list models`, a Hub id, a ./folder, or auto.")
@click.option("--name", help="Name of the recipe.")
@click.option("--yes", is_flag=True, help="Accept the proposed values for flags that are not given.")
def command(folder: Path, yes: bool, **flags: str | None) -> int:
    """Create DIR/recipe.toml, and the JSON Schema for editors. Never overwrites an existing recipe."""
    target = folder / RECIPE
    if os.path.lexists(target):
        raise Failure(f"`{target}` already exists", "choose another folder, or edit the recipe", exit_code=UNUSABLE)
    answers = _answers(folder, {name: value for name, value in flags.items() if value is not None}, yes)
    _write(folder, recipe_text(answers, folder))
    return _end(target)


def _answers(folder: Path, given: dict[str, str], yes: bool) -> Answers:
    """Everything that a recipe needs; without a terminal nothing is asked."""
    if yes:
        return propose_all(folder, given)
    if missing := missing_flags(given):
        if not sys.stdin.isatty():
            raise Failure(
                f"missing {', '.join(missing)}",
                "give these flags, or use --yes to accept proposed values",
                *described(missing),
                exit_code=UNUSABLE,
            )
        return ask(folder, given)
    return propose_all(folder, given)


def _write(folder: Path, text: str) -> None:
    from recipec.cli.schema import schema_bytes

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / RECIPE).open("xb") as file:
            file.write(text.encode())
        if not os.path.lexists(folder / SCHEMA):
            (folder / SCHEMA).write_bytes(schema_bytes())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"cannot write `{folder / RECIPE}`: {reason}", exit_code=UNUSABLE) from error


def recipe_text(answers: Mapping[str, ProposedAnswer], folder: Path) -> str:
    """The recipe for `folder`; the path of the data is written relative to it."""
    stated = answers.get("format")
    written = _on_hub(answers) if stated else _files(answers["data"], folder)
    model = ProposedAnswer(_relative_model(answers["model"].value, folder), answers["model"].because)
    values = {name: _literal(answer) for name, answer in answers.items()} | {"data": written, "model": _literal(model)}
    values["gpus"] = answers["gpus"].value + _reason(answers["gpus"])
    columns = answers.get("columns")
    named = parsed(columns.value) if columns else {}
    seen = SeenRows(stated.value, "") if stated else look(answers["data"].value, named)
    if _learns_flag(seen, answers["task"].value):
        named |= {_FLAG: seen.flag}
        columns = ProposedAnswer("", "the rows say which answers are good")
        seen = look(answers["data"].value, named)
    format = UNPAIRED_PREFERENCE.name if seen.labeled and answers["task"].value == _LABELED.task else seen.format
    method, read_as = _method(answers["task"].value, format)
    rows = _ROWS.format(format=_literal(read_as) if read_as else values["format"]) if stated else ""
    rows = f"format = {_literal(read_as)}\n" if read_as and not stated else rows
    if seen.labeled and method == _LABELED:
        rows += f"# {seen.labeled}\n"
    named = {role: name for role, name in named.items() if not read_as or role in _roles(read_as.value)}
    rows += f"columns = {table(named)}{_reason(columns)}\n" if columns and named else ""
    rows += _beside(seen, method) + _columns(seen, method)
    parts = {"rows": rows, "alignment": _alignment(method), "adaptation": _adaptation(method)}
    return _TEXT.format(**values, data_key=method.section, **parts)


def _learns_flag(seen: SeenRows, task: str) -> bool:
    """Whether the task learns which answers are good by the column that rates them, and nothing else of such rows."""
    methods = methods_of(task)
    unread = not any(seen.format in method.formats for method in methods)
    return bool(seen.flag) and unread and any(UNPAIRED_PREFERENCE.name in method.formats for method in methods)


def _roles(format: str) -> list[str]:
    """What columns of a format may be."""
    return [role.name for role in ROW_FORMATS[format].roles]


def _beside(seen: SeenRows, method: Method) -> str:
    """The line that leaves out incomplete rows, and what would learn from ratings of the answers."""
    left_out = f'incomplete = "skip"  # leaves out {seen.incomplete}; the default is to refuse them\n'
    lacks = bool(seen.incomplete) and (not seen.columns or _answers_with_class(seen, method))
    if seen.refusals:  # which are answers: to leave them out is not for recipec to choose
        left_out = f"# {seen.refusals}\n" + f"# or {left_out}" * lacks
    elif not lacks:
        left_out = ""
    lines = [seen.ratings] if "`python3 " in seen.ratings else textwrap.wrap(seen.ratings, _WIDTH)
    return left_out + "".join(f"# {line}\n" for line in lines)


def _answers_with_class(seen: SeenRows, method: Method) -> bool:
    """Whether the method learns classes that the rows have beside texts as answers."""
    return bool(seen.columns) and seen.format in method.formats


def _columns(seen: SeenRows, method: Method) -> str:
    """The line with which texts are questions and their classes the answers, where the method learns answers."""
    reads = _answers_with_class(seen, method)
    return f"columns = {seen.columns}  # the model answers a text with what stands beside it\n" * reads


def _files(data: ProposedAnswer, folder: Path) -> str:
    """The path of the data as seen from the recipe's folder, or the list of them."""
    paths = [_quoted(_relative(path, folder)) for path in paths_in(data.value)]
    return (paths[0] if len(paths) == 1 else f"[{', '.join(paths)}]") + _reason(data)


def _on_hub(answers: Mapping[str, ProposedAnswer]) -> str:
    """The table of a data set of the Hub, with the reason for its split behind it."""
    split = answers["split"]
    return f"{{ hub = {_quoted(answers['data'].value)}, split = {_quoted(split.value)} }}{_reason(split)}"


def _method(task: str, format: str) -> tuple[Method, ProposedAnswer | None]:
    """The method of the task that takes rows of the format, else one that reads a part of them, with the format to
    state, else a stage that goes before; a method that fulfils the task where none does."""
    for method in (row for row in methods_of(task) if format in row.formats):
        return method, None
    held = {role.name for role in ROW_FORMATS[format].required} if format else set()
    for method in (row for row in methods_of(task) if row.generates):
        for name in method.formats:
            needed = {role.name for role in ROW_FORMATS[name].required}
            if needed < held:
                because = f"only {' and '.join(sorted(needed))}, and what the reward names, is read"
                return method, ProposedAnswer(name, because)
    return next((row for row in stages_of(task) if format in row.formats), methods_of(task)[0]), None


def _alignment(method: Method) -> str:
    """The section that names the models which the method runs beside its own, and what judges answers, if anything."""
    lines = [f'{name} = "{NAMED_MODELS[name].examples[0]}"  # an example' for name in method.named_models]
    lines += ['# reward = "rewards.py:is_right"  # needed: a function of yours that judges answers'] * method.generates
    return "\n".join(["", "[alignment]", *lines, ""]) if lines else ""


def _adaptation(method: Method) -> str:
    """The line that fixes the adaptation, where there is something to choose."""
    values = [value for value in families() if any(row.name in method.adaptations for row in meant_by(value))]
    usual = ADAPTATIONS[method.adaptations[0]].family
    return f'# adaptation = "{usual}"         # {" | ".join(values)}\n' if len(values) > 1 else ""


def _relative(path: str, folder: Path) -> str:
    return path if os.path.isabs(path) else Path(os.path.relpath(path, folder)).as_posix()


def _relative_model(name: str, folder: Path) -> str:
    """A folder of a model as seen from the recipe's, which begins with a dot; other names as they are."""
    from recipec.recipe.extends import is_path

    if not is_path(name):
        return name
    path = _relative(name, folder)
    return path if path.startswith(("/", "../")) else f"./{path}"


def _literal(answer: ProposedAnswer) -> str:
    """A TOML string with its reason as a comment."""
    return _quoted(answer.value) + _reason(answer)


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _reason(answer: ProposedAnswer) -> str:
    return f"  # {printable(answer.because)}" if answer.because else ""


def _end(target: Path) -> int:
    """Say what the compiler thinks of the new recipe, and where to go from here."""
    from recipec.cli.compiling import exit_code, tell
    from recipec.compiler import compile_recipe

    compilation = compile_recipe(target, only_plan=True)
    tell(compilation.diagnostics, "human")
    recipe, out = (shlex.quote(printable(str(path))) for path in (target, target.parent / "out"))
    chosen = compilation.plan.selection if compilation.plan else None
    click.echo(f"Wrote {recipe}." + (f" Its model is {chosen.model}: {chosen.because}." if chosen else ""))
    click.echo(f"\nNext:\n  recipec check {recipe}\n  recipec plan {recipe}\n  recipec build {recipe} -o {out}")
    return exit_code(compilation.diagnostics)

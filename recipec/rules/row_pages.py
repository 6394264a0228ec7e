"""The explanation page of a row of the four axes, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from recipec.axes import ADAPTATIONS, BASES, METHODS, ROW_FORMATS, STRATEGIES, Adaptation, Method, RowFormat, Strategy
from recipec.axes.models import POLICY
from recipec.rules.defaults import table_page

_HYPERPARAMETERS = {  # field of a method's row -> the recipe key that overrides it
    "learning_rate": "train.learning_rate",
    "warmup": "train.warmup",
    "epochs": "train.epochs",
    "global_batch": "train.global_batch_size",
    "weight_decay": "train.weight_decay",
    "adam_beta2": "",
    "lora_rank": "train.lora.rank",
    "lora_dropout": "train.lora.dropout",
}


def row_names() -> tuple[str, ...]:
    """Every name that has such a page."""
    return (*METHODS, *STRATEGIES, *ADAPTATIONS, *ROW_FORMATS)


def explain_row(name: str) -> str | None:
    """Return the pages of the rows of this name, in any case; None if there is none."""
    wanted, found = name.strip().lower(), []
    if row := METHODS.get(wanted):
        found.append(_method(row))
    if strategy := STRATEGIES.get(wanted):
        found.append(_strategy(strategy))
    if adaptation := ADAPTATIONS.get(wanted):
        found.append(_adaptation(adaptation))
    if row_format := ROW_FORMATS.get(wanted):
        found.append(_format(row_format))
    return "\n".join(found) or None


def _method(row: Method) -> str:
    others = [part.model for part in row.scorings if part.model != POLICY]
    chosen = f'`goal.task = "{row.task}"`' + f' and `alignment.method = "{row.alignment}"`' * bool(row.alignment)
    lines = [
        f"- Choose it with: {chosen}",
        f"- Rows: `data.{row.section}`, {_names(row.formats)}",
        *([f"- Other models that score every row: {', '.join(dict.fromkeys(others))}"] if others else []),
        f"- Adaptations: {_names(row.adaptations)}",
        *([f"- Runs after: {_names(row.after)}, where `data.train` holds rows for it"] if row.after else []),
        f"- Trainer: `{row.trainer}` of `{row.module}`, or built on it",
        f"- A batch counts: {row.example}s",
        f"- Logs: {_names(row.metrics)}",
        f"- Sources: {row.source}",
    ]
    reasons = {own.id: own.because or "decided from the data" for own in row.own}
    own = [f"- `alignment.{own.key}`: {reasons[own.id]} (`recipec explain {own.id}`)" for own in row.own]
    tables = [_table(row, field, key) for field, key in _HYPERPARAMETERS.items() if getattr(row, field)]
    return "\n".join([f"# {row.name}: {row.title}", "", f"It learns {row.learns}.", "", *lines, *own, "", *tables])


def _table(row: Method, field: str, key: str) -> str:
    title = f"## {field.replace('_', ' ').capitalize()}" + f" (`{key}`)" * bool(key)
    head = ["| method | when | value | accepted | source |", "|---|---|---|---|---|"]
    return "\n".join([title, "", *head, *table_page(row, getattr(row, field)), ""])


def _strategy(row: Strategy) -> str:
    lines = [
        f'- Choose it with: `train.strategy = "{row.name}"`',
        f"- Shards: {_names(sorted(row.shards)) or 'nothing'}",
        f"- Offloads: {_names(row.offloads) or 'nothing'}",
        f"- Runs on: {'one GPU' if row.one_rank else 'two GPUs or more'}{', or a CPU' if row.on_cpu else ''}",
        f"- For it: {row.pros}",
        f"- Against it: {row.cons}",
        "- How it is chosen: `recipec explain STRAT-001`",
        f"- Sources: {row.source}",
    ]
    return "\n".join([f"# {row.name}: {row.title}", "", f"{row.because[:1].upper()}{row.because[1:]}.", "", *lines, ""])


def _adaptation(row: Adaptation) -> str:
    lines = [
        f"- Choose it with: `{row.asked_by}`",
        f"- Trains: {row.summary}",
        f"- Base model: {BASES[row.base].title}",
        f"- Packages: {_names(row.packages) or 'none beside those of every bundle'}",
        f"- Methods: {_names([name for name, method in METHODS.items() if row.name in method.adaptations])}",
        "- How it is chosen: `recipec explain ADPT-001`",
        f"- Sources: {row.source}",
    ]
    return "\n".join([f"# {row.name}: {row.title}", "", f"{row.because[:1].upper()}{row.because[1:]}.", "", *lines, ""])


def _format(row: RowFormat) -> str:
    optional = [role.name for role in row.roles if not role.required]
    lines = [
        f'- Choose it with: `data.format = "{row.name}"`, or let recipec recognize it: {row.recognized}',
        f"- Columns: {_names([role.name for role in row.required])}",
        *([f"- Optional columns: {_names(optional)}"] if optional else []),
        *([f"- Columns that are refused: {_names(row.forbidden)}"] if row.forbidden else []),
        *(f"- `{role.name}` may also be called: {_names(role.aliases[1:])}" for role in row.roles if role.aliases[1:]),
        f"- Trained tokens: {row.loss_on}",
        f"- Methods: {_names([name for name, method in METHODS.items() if row.name in method.formats])}",
        "- Other names: `data.columns` maps the columns to yours",
    ]
    return "\n".join([f"# {row.name}: rows of {row.means}", "", *lines, ""])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

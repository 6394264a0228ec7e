"""The explanation page of a row of the four axes, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from recipec.axes import (
    ADAPTATIONS,
    BASES,
    CARRIED,
    COMMON_SECTION,
    LORA_VARIANTS,
    METHODS,
    ROW_FORMATS,
    STRATEGIES,
    Adaptation,
    Carried,
    LoraVariant,
    Method,
    RowFormat,
    Strategy,
    earlier,
)
from recipec.axes.models import POLICY
from recipec.axes.row_formats import MEANT
from recipec.axes.spelling import joined
from recipec.axes.tasks import methods_with
from recipec.rules.combination_reads import rows_that_read
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


_UNREAD = (
    "Nothing reads it. Rows that have it are refused (E0308) rather than trained without it. Write what it says into "
    "the text of the rows, or name it in `data.ignore` to train without it."
)


def row_names() -> tuple[str, ...]:
    """Every name that has such a page."""
    return (*METHODS, *STRATEGIES, *ADAPTATIONS, *LORA_VARIANTS, *ROW_FORMATS)


def explain_row(name: str) -> str | None:
    """Return the pages of the rows of this name, in any case; None if there is none."""
    wanted, found = name.strip().lower(), []
    if row := METHODS.get(wanted):
        found.append(_method(row))
    if strategy := STRATEGIES.get(wanted):
        found.append(_strategy(strategy))
    if adaptation := ADAPTATIONS.get(wanted):
        found.append(_adaptation(adaptation))
    if variant := LORA_VARIANTS.get(wanted):
        found.append(_variant(variant))
    if row_format := ROW_FORMATS.get(wanted):
        found.append(_format(row_format))
    return "\n".join(found) or None


def explain_row_called(word: str) -> str | None:
    """Return the pages of the rows that other tools call by the word, in any case; None if there is none."""
    wanted = joined(word)
    tables = (METHODS, STRATEGIES, ADAPTATIONS, LORA_VARIANTS, ROW_FORMATS)
    names = dict.fromkeys(
        name for table in tables for name, row in table.items() if wanted in map(joined, row.elsewhere)
    )
    return "\n".join(filter(None, map(explain_row, names))) or None


def explain_carried(word: str) -> str | None:
    """Return the page of what rows may carry, by its name or that of a column or field that holds it; None for others.

    A word that says how rows are to be learned and that nothing reads has a page too.
    """
    wanted = word.strip().lower()
    called = {row.name: {row.name, *row.columns, *row.fields} for row in CARRIED.values()}
    pages = [
        _carried(row)
        for row in CARRIED.values()
        if wanted in called[row.name] or joined(wanted) in map(joined, row.elsewhere)
    ]
    if not pages and wanted in MEANT:
        pages = [f"# {wanted}: a column or field that says {MEANT[wanted]}\n\n{_UNREAD}\n"]
    return "\n".join(pages) or None


def _carried(row: Carried) -> str:
    formats = [name for name, row_format in ROW_FORMATS.items() if row.name in row_format.carries]
    lines = [
        *([f"- Columns that hold it: {_names(row.columns)}"] if row.columns else []),
        *([f"- Fields of messages that hold it: {_names(row.fields)}"] if row.fields else []),
        f"- Rows that may carry it: {_names(formats)}",
        "- It is read where the first rows have it. Where only later rows do, name it: "
        f'`carry = ["{row.name}"]` under [data]',
        "- To train without it, name its columns and fields in `data.ignore`",
        *(["- Every learned answer then becomes a row of its own"] if row.apart else []),
    ]
    return "\n".join([f"# {row.name}, carried by rows: {row.means}", "", *lines, ""])


def _method(row: Method) -> str:
    others = [part.model for part in row.scorings if part.model != POLICY]
    chosen = f'`goal.task = "{row.task}"`' + f' and `alignment.method = "{row.alignment}"`' * bool(row.alignment)
    lines = [
        f"- Choose it with: {chosen}",
        f"- Rows: `data.{row.section}`, {_names(row.formats)}",
        *([f"- Other models that score every row: {', '.join(dict.fromkeys(others))}"] if others else []),
        f"- Adaptations: {_names(row.adaptations)}",
        *(f"- Runs after: `{one.name}`, where the recipe has {_rows_of(one)}" for one in earlier([row])),
        f"- Trainer: `{row.trainer}` of `{row.module}`, or built on it",
        f"- A batch counts: {row.example}s",
        f"- Logs: {_names(row.metrics)}",
        f"- Sources: {row.source}",
    ]
    reasons = {own.id: own.because or "decided from the data" for own in row.keys}
    own = [f"- `alignment.{own.key}`: {reasons[own.id]} (`recipec explain {own.id}`)" for own in row.keys]
    tables = [_table(row, field, key) for field, key in _HYPERPARAMETERS.items() if getattr(row, field)]
    head = [f"# {row.name}: {row.title}", "", f"It learns {row.learns}.", ""]
    return "\n".join([*head, *lines, *own, "", *_otherwise(row), *tables])


def _otherwise(row: Method) -> list[str]:
    """Where it does not follow its papers; nothing where it does."""
    if not row.otherwise:
        return []
    return [
        "## Where it differs from its papers and from usual loops",
        "",
        *(f"- {each}" for each in row.otherwise),
        "",
    ]


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


def _rows_of(row: Method) -> str:
    """The rows that have a stage run before others."""
    return f"`data.{row.section}`" if row.section != COMMON_SECTION else f"{_names(row.formats)} rows in `data.train`"


def _variant(row: LoraVariant) -> str:
    slower = f", because {row.rate_because}" * bool(row.rate_because)
    lines = [
        f'- Choose it with: `train.lora.variant = "{row.name}"`',
        f"- Bases: {_names(row.bases)}",
        f"- Methods: {_names(methods_with(row))}",
        f"- Learning rate: {row.rate:g} x that of plain LoRA{slower}",
        f"- What variants of LoRA do not go with: {', '.join(rows_that_read('variant'))}",
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
        *(f"- May carry `{name}`: {CARRIED[name].means} (`recipec explain {name}`)" for name in row.carries),
        *([f"- In other tools: {_names(row.elsewhere)}"] if row.elsewhere else []),
        *(f"- `{role.name}` may also be called: {_names(role.aliases[1:])}" for role in row.roles if role.aliases[1:]),
        f"- Trained tokens: {row.loss_on}",
        f"- Methods: {_names([name for name, method in METHODS.items() if row.name in method.formats])}",
        "- Other names: `data.columns` maps the columns to yours",
    ]
    return "\n".join([f"# {row.name}: rows of {row.means}", "", *lines, ""])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

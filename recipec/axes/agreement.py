"""What the rows say of each other: every contradiction between two of them, with both names.

The compiler's first pass refuses to go on with any, so that no rule answers for a row with another row's values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from math import inf

from recipec.axes.adaptations import ADAPTATIONS, BASES, NO_REFERENCE, REFERENCES, Adaptation
from recipec.axes.method import (
    HEADS,
    LOSS_OUTPUTS,
    LOSSES,
    PACKINGS,
    PROOFS,
    SAMPLINGS,
    SCORES,
    SIZES,
    Default,
    Method,
    Own,
)
from recipec.axes.methods import METHODS
from recipec.axes.models import MODELS, POLICY
from recipec.axes.row_formats import KINDS, ROW_FORMATS, RowFormat
from recipec.axes.sections import SECTIONS
from recipec.axes.strategies import ENGINES, OFFLOADS, SHARDED, STRATEGIES, Strategy

# Tables of defaults -> the conditions that the rule behind each looks at; True: only adapters have it.
_TABLES: dict[str, tuple[tuple[str, ...], bool]] = {
    "learning_rate": (("adaptations", "sizes", "params_below"), False),
    "warmup": (("sizes",), False),
    "epochs": (("adaptations", "sizes"), False),
    "global_batch": (("adaptations", "sizes", "params_below"), False),
    "weight_decay": ((), False),
    "adam_beta2": ((), False),
    "lora_rank": (("sizes",), True),
    "lora_dropout": (("sizes",), True),
}
LARGEST = 1e15  # parameters: a table that has a row for them has one for every model


def disagreements() -> Iterator[str]:
    """Sentences, each with the names of the rows that contradict each other; none where all agree."""
    for method in METHODS.values():
        for row in (method, *_changed(method)):
            yield from dict.fromkeys(_of_method(row))
    for adaptation in ADAPTATIONS.values():
        yield from _of_adaptation(adaptation)
    for strategy in STRATEGIES.values():
        yield from _of_strategy(strategy)
    for row_format in ROW_FORMATS.values():
        yield from _of_format(row_format)


def _changed(method: Method) -> Iterator[Method]:
    """The row as each value of its own hyperparameters changes it."""
    for own in method.own:
        for value in own.changes:
            yield method.under({own.name: value})


def _unknown(row: str, field: str, named: Collection[str], known: Collection[str], table: str) -> Iterator[str]:
    for name in named:
        if name not in known:
            yield f"{row}: {field} names `{name}`, which is not in {table} ({', '.join(known)})"


def _of_method(method: Method) -> Iterator[str]:
    row = f"method `{method.name}`"
    yield from _unknown(row, "section", [method.section], SECTIONS, "the sections of [data]")
    yield from _unknown(row, "formats", method.formats, ROW_FORMATS, "the formats of rows")
    yield from _unknown(row, "kinds", method.kinds, KINDS, "the kinds of rows")
    yield from _unknown(row, "after", method.after, METHODS, "the methods")
    yield from _unknown(row, "adaptations", method.adaptations, ADAPTATIONS, "the adaptations")
    yield from _unknown(row, "preferred", method.preferred, method.adaptations, "its adaptations")
    yield from _unknown(row, "packs", [method.packs], PACKINGS, "the ways to pack")
    yield from _unknown(row, "sampling", [method.sampling], SAMPLINGS, "the ways to sample")
    yield from _unknown(row, "head", [method.head], HEADS, "the heads")
    yield from _unknown(row, "loss", [method.loss], LOSSES, "the losses")
    yield from _unknown(row, "loss_outputs", method.loss_outputs, LOSS_OUTPUTS, "the outputs of TRL's fused head")
    yield from _unknown(row, "proof", method.proof, PROOFS, "the proofs")
    yield from _of_rows(row, method)
    yield from _of_passes(row, method)
    for name in method.adaptations:
        if name in ADAPTATIONS:
            yield from _of_pair(method, ADAPTATIONS[name])
    for table in _TABLES:
        yield from _of_table(row, method, table)
    for own in method.own:
        yield from _of_own(row, own)


def _of_rows(row: str, method: Method) -> Iterator[str]:
    """Each format becomes a kind that the trainer reads, and only text is cut into blocks."""
    for name in method.formats:
        made = ROW_FORMATS.get(name)
        if made and not {made.kind, made.unrolled} & set(method.kinds):
            yield f"{row} takes the format `{name}`, and its trainer does not read its kind, `{made.kind}`"
    if method.of_text != (method.packs == "blocks"):
        yield f"{row} packs `{method.packs}`, and its block_tokens are {method.block_tokens}"


def _of_passes(row: str, method: Method) -> Iterator[str]:
    yield from _unknown(row, "passes", [part.model for part in method.passes], MODELS, "the models of a pass")
    yield from _unknown(row, "passes", [part.gives for part in method.passes], SCORES, "what a pass gives")
    learned = [part.model for part in method.passes if part.gradient]
    if learned != [POLICY]:
        yield f"{row} learns from the passes of {learned}, and recipec from exactly one, of the `{POLICY}`"


def _of_pair(method: Method, adaptation: Adaptation) -> Iterator[str]:
    """What an adaptation must give a method that can run with it."""
    if method.has_reference and adaptation.reference == NO_REFERENCE:
        yield (
            f"method `{method.name}` compares with the model as it was at the start, and adaptation "
            f"`{adaptation.name}`, which it can run with, has no such model"
        )
    if method.random_weights and not adaptation.trains_all:
        yield f"method `{method.name}` starts from random weights, which adaptation `{adaptation.name}` leaves frozen"


def _of_table(row: str, method: Method, table: str) -> Iterator[str]:
    """Every case of a table has an answer, and no condition in it goes unread."""
    defaults: tuple[Default, ...] = getattr(method, table)
    conditions, of_adapters = _TABLES[table]
    for default in defaults:
        yield from _of_default(row, table, default, conditions, method)
    if table == "global_batch" and method.random_weights:
        return  # counted in tokens: rules/pretraining.py
    named = [row for row in (ADAPTATIONS.get(name) for name in method.adaptations) if row]
    asked = [row.name for row in named if row.table or not of_adapters]
    for adaptation, size in product(asked, SIZES):
        if not any(default.holds(adaptation, size, LARGEST) for default in defaults):
            yield f"{row}: {table} has no value for adaptation `{adaptation}` with {size} rows"


def _of_default(row: str, table: str, default: Default, conditions: tuple[str, ...], method: Method) -> Iterator[str]:
    named = {"adaptations": default.adaptations, "sizes": default.sizes, "params_below": default.params_below < inf}
    for condition in (name for name, stated in named.items() if stated and name not in conditions):
        yield f"{row}: {table} has the condition `{condition}`, which its rule does not look at"
    if table == "learning_rate" and not default.adaptations:
        yield f"{row}: learning_rate {default.value:g} does not say for which adaptations it is"
    yield from _unknown(row, table, default.adaptations, method.adaptations, "its adaptations")
    yield from _unknown(row, table, default.sizes, SIZES, "the sizes of data")
    if default.accepts and not default.accepts[0] <= default.value <= default.accepts[1]:
        yield f"{row}: {table} {default.value:g} is outside what it accepts, {default.accepts}"


def _of_own(row: str, own: Own) -> Iterator[str]:
    if not own.formula and not own.allows(own.value):
        yield f"{row}: {own.id} has the value {own.value}, which the recipe language would refuse for `{own.key}`"
    if own.accepts and not all(map(own.allows, own.accepts)):
        yield f"{row}: {own.id} accepts {own.accepts}, part of which the recipe language would refuse for `{own.key}`"
    if own.values is not None:
        yield from _unknown(row, f"{own.id} changes", map(str, own.changes), own.values, "its values")


def _of_adaptation(adaptation: Adaptation) -> Iterator[str]:
    row = f"adaptation `{adaptation.name}`"
    yield from _unknown(row, "base", [adaptation.base], BASES, "the bases")
    yield from _unknown(row, "reference", [adaptation.reference], REFERENCES, "what can serve as reference")
    yield from _unknown(row, "above", [adaptation.above] * bool(adaptation.above), ADAPTATIONS, "the adaptations")
    asked = adaptation.family, adaptation.base
    same = [other.name for other in ADAPTATIONS.values() if (other.family, other.base) == asked]
    if same != [adaptation.name]:
        yield f"{row}: family `{adaptation.family}` and base `{adaptation.base}` mean all of {', '.join(same)}"


def _of_strategy(strategy: Strategy) -> Iterator[str]:
    row = f"strategy `{strategy.name}`"
    yield from _unknown(row, "engine", [strategy.engine], ENGINES, "the engines")
    yield from _unknown(row, "shards", strategy.shards, SHARDED, "what can be sharded")
    yield from _unknown(row, "offloads", strategy.offloads, OFFLOADS, "the values of train.offload")


def _of_format(row_format: RowFormat) -> Iterator[str]:
    row = f"format `{row_format.name}`"
    kinds = [row_format.kind] + [row_format.unrolled] * bool(row_format.unrolled)
    yield from _unknown(row, "kind", kinds, KINDS, "the kinds of rows")
    yield from _unknown(row, "usual", [row_format.usual], METHODS, "the methods")
    columns = KINDS[row_format.kind].columns if row_format.kind in KINDS else ()
    yield from _unknown(row, "roles", [role.becomes for role in row_format.roles], columns, "the columns of its kind")
    usual = METHODS.get(row_format.usual)
    if usual and row_format.name not in usual.formats:
        yield f"{row}: it is usual for method `{usual.name}`, which does not take it"

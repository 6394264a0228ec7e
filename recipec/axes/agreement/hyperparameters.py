"""What a method says of its hyperparameters: tables with an answer for every case, and those that are its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import inf

from recipec.axes.adaptations import ADAPTATIONS, MATRICES
from recipec.axes.agreement.names import unknown
from recipec.axes.hyperparameters import FACTS_OF_FORMULAS, READ_BY_FORMULAS, SIZES, TOOLS, Default, Own
from recipec.axes.method import CHANGEABLE, LOSSES, Method
from recipec.axes.methods import METHODS
from recipec.axes.models import NAMED_MODELS, POLICY, REFERENCE

# Tables of defaults -> the conditions that the rule behind each looks at; True: only adapters have it.
_TABLES: dict[str, tuple[tuple[str, ...], bool]] = {
    "learning_rate": (("adaptations", "sizes", "params_below"), False),
    "warmup": (("sizes",), False),
    "epochs": (("adaptations", "sizes"), False),
    "global_batch": (("adaptations", "sizes", "params_below"), False),
    "weight_decay": ((), False),
    "adam_beta2": (("adaptations",), False),
    "lora_rank": (("sizes",), True),
    "lora_dropout": (("sizes",), True),
}
LARGEST = 1e15  # parameters: a table that has a row for them has one for every model


def of_hyperparameters(row: str, method: Method) -> Iterator[str]:
    """The contradictions of a method's hyperparameters."""
    for table in _TABLES:
        yield from _of_table(row, method, table)
    yield from _of_adapters(row, method)
    yield from _of_same(row, method)
    for own in method.keys:
        yield from _of_own(row, own)
        yield from not_changeable(own, row)
        yield from _of_changes(row, method, own)
        yield from _of_formula(row, method, own)
    yield from _of_arguments(row, method)


def _of_table(row: str, method: Method, table: str) -> Iterator[str]:
    """Every case of a table has an answer, and no condition in it goes unread."""
    defaults: tuple[Default, ...] = getattr(method, table)
    conditions, of_adapters = _TABLES[table]
    for default in defaults:
        yield from _of_default(row, table, default, conditions, method)
    if table == "global_batch" and method.random_weights:
        return  # counted in tokens: rules/pretraining.py
    named = [row for row in (ADAPTATIONS.get(name) for name in method.adaptations) if row]
    asked = dict.fromkeys(row.tables for row in named if row.table or not of_adapters)
    for adaptation, size in product(asked, SIZES):
        if not any(default.holds(adaptation, size, LARGEST) for default in defaults):
            yield f"{row}: {table} has no value for adaptation `{adaptation}` with {size} rows"


def _of_default(row: str, table: str, default: Default, conditions: tuple[str, ...], method: Method) -> Iterator[str]:
    named = {"adaptations": default.adaptations, "sizes": default.sizes, "params_below": default.params_below < inf}
    for condition in (name for name, stated in named.items() if stated and name not in conditions):
        yield f"{row}: {table} has the condition `{condition}`, which its rule does not look at"
    if table == "learning_rate" and not default.adaptations:
        yield f"{row}: learning_rate {default.value:g} does not say for which adaptations it is"
    yield from unknown(row, table, default.adaptations, method.adaptations, "its adaptations")
    yield from unknown(row, table, default.sizes, SIZES, "the sizes of data")
    if default.accepts and not default.accepts[0] <= default.value <= default.accepts[1]:
        yield f"{row}: {table} {default.value:g} is outside what it accepts, {default.accepts}"


def _of_adapters(row: str, method: Method) -> Iterator[str]:
    """A method has limits of adapters where it runs with some, and no others; each of its ranks is within them."""
    adapters = [name for name in method.adaptations if name in ADAPTATIONS and ADAPTATIONS[name].trains == MATRICES]
    if not adapters:
        for field in ("lora_rank", "lora_alpha_most", "lora_dropout"):
            if getattr(method, field):
                yield f"{row}: it has {field}, and runs with no adaptation that reads it"
        return
    named = ", ".join(f"`{name}`" for name in adapters)
    for default in method.lora_rank:
        low, high = default.accepts or (default.value, default.value)
        if default.accepts is None:
            yield f"{row}: lora_rank {default.value:g} does not say what it accepts, which the rank of {named} asks"
        if low < 1 or any(value % 1 for value in (low, default.value, high)):
            yield f"{row}: lora_rank {default.value:g} accepts {low:g} to {high:g}: ranks of {named} begin with 1"
        if 2 * default.value > method.lora_alpha_most:
            alpha = f"{2 * default.value:g}, twice its lora_rank"
            yield f"{row}: its lora_alpha_most is {method.lora_alpha_most}, and {named} begins with {alpha}"
    for default in method.lora_dropout:
        if not 0 <= default.value < 1:
            yield f"{row}: lora_dropout {default.value:g} is no share that adaptation {named} can drop"


def _of_same(row: str, method: Method) -> Iterator[str]:
    """Two hyperparameters share neither id, name, key nor argument, where they have one."""
    for one, other in combinations(method.keys, 2):
        for field in ("id", "name", "key", "argument"):
            if getattr(one, field) and getattr(one, field) == getattr(other, field):
                yield f"{row}: own has {one.id} and {other.id} with the same {field}, `{getattr(one, field)}`"


def not_changeable(own: Own, row: str = "") -> Iterator[str]:
    """The fields that a value of it changes, and that are asked for without the value."""
    for value, changes in own.changes.items():
        yield from unknown(row, f"{own.id} changes, of `{value}`,", changes, CHANGEABLE, "CHANGEABLE")


def _of_changes(row: str, method: Method, own: Own) -> Iterator[str]:
    """No value brings a model that the recipe would have to name: it is asked for before the value is known."""
    for value, changes in own.changes.items():
        models = {part.model for part in changes.get("passes", ())} - {POLICY, REFERENCE, *method.named_models}
        for model in sorted(models):
            yield f"{row}: {own.id} changes passes, of `{value}`, to those of a `{model}`, which the row does not have"


def _of_own(row: str, own: Own) -> Iterator[str]:
    bounds = (own.above, own.most)
    if bounds.count(None) != (0 if own.values is None else 2):
        yield f"{row}: {own.id} is a number with the bounds above and most, or a name with values, and it is neither"
        return
    if not own.formula and not own.allows(own.value):
        yield f"{row}: {own.id} has the value {own.value}, which the recipe language would refuse for `{own.key}`"
    if own.accepts and not all(map(own.allows, own.accepts)):
        yield f"{row}: {own.id} accepts {own.accepts}, part of which the recipe language would refuse for `{own.key}`"
    if not own.formula and not own.because.strip():
        yield f"{row}: {own.id} has a value of its own, and because is empty"
    if own.values is not None:
        yield from unknown(row, f"{own.id} changes", map(str, own.changes), own.values, "its values")
    yield from unknown(row, f"{own.id} elsewhere", own.elsewhere, TOOLS, "the tools")
    if own.key in NAMED_MODELS:
        yield f"{row}: {own.id} has the key `{own.key}`, by which [alignment] names a model"


def _of_formula(row: str, method: Method, own: Own) -> Iterator[str]:
    """What decides a hyperparameter is there, and what it reads is decided before."""
    if own.formula:
        yield from unknown(row, f"{own.id} formula", [own.formula], READ_BY_FORMULAS, "the formulas")
    before = [other.name for other in method.keys[: method.keys.index(own)]]
    for name in READ_BY_FORMULAS.get(own.formula, ()):
        if name not in before and name not in FACTS_OF_FORMULAS:
            yield f"{row}: the formula `{own.formula}` of {own.id} reads `{name}`, which own does not have before it"


def _of_arguments(row: str, method: Method) -> Iterator[str]:
    """What is in the formula of a loss is set by a hyperparameter."""
    needed = LOSSES[method.loss].arguments if method.loss in LOSSES else ()
    for argument in needed:
        if all(own.argument != argument for own in method.own):
            yield f"{row}: own has nothing for the argument `{argument}`, which its loss `{method.loss}` needs"


def of_all_own() -> Iterator[str]:
    """One id is one hyperparameter, in whichever methods, and one key of [alignment] is a number or a name for all."""
    first: dict[str, tuple[Method, Own]] = {}
    keys: dict[str, tuple[Method, Own]] = {}
    for method in METHODS.values():
        for own in method.keys:
            holder, known = keys.setdefault(own.key, (method, own))
            if (known.values is None) != (own.values is None):
                pair = f"methods `{holder.name}` and `{method.name}` share the key `{own.key}`"
                yield f"{pair}, which is a number for one of {known.id} and {own.id} and a name for the other"
            holder, known = first.setdefault(own.id, (method, own))
            if known is not own:
                yield f"methods `{holder.name}` and `{method.name}` have different hyperparameters with the id {own.id}"

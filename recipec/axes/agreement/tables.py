"""What adaptations, strategies, formats and kinds of rows, and the tables beside them, say of each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise

from recipec.axes.adaptations import ADAPTATIONS, ADAPTER_OFF, MATRICES, REFERENCES, STAYING, TRAINED, Adaptation
from recipec.axes.agreement.names import repeated, unknown
from recipec.axes.attention import ATTENTIONS, BOUNDARIES, KEPT_APART, Attention
from recipec.axes.bases import BASES
from recipec.axes.kinds import KINDS, Kind
from recipec.axes.methods import METHODS
from recipec.axes.models import NAMED_MODELS
from recipec.axes.row_formats import FLAGS, LOSS_ON, ROW_FORMATS, Role, RowFormat
from recipec.axes.sections import COMMON_SECTION, SECTIONS
from recipec.axes.strategies import ENGINES, OFFLOADS, SHARDED, STRATEGIES, Strategy


def of_tables() -> Iterator[str]:
    """The contradictions of all tables but that of the methods."""
    yield from chain.from_iterable(map(of_adaptation, ADAPTATIONS.values()))
    yield from chain.from_iterable(map(of_strategy, STRATEGIES.values()))
    yield from _of_all_strategies()
    yield from chain.from_iterable(map(of_attention, ATTENTIONS.values()))
    yield from chain.from_iterable(map(of_kind, KINDS.values()))
    yield from chain.from_iterable(map(of_format, ROW_FORMATS.values()))
    yield from _of_unused()


def of_attention(attention: Attention) -> Iterator[str]:
    """The contradictions of one implementation of attention."""
    row = f"attention `{attention.name}`"
    yield from unknown(row, "apart", [attention.apart], KEPT_APART, "what keeps examples apart")
    if attention.keeps_scores and attention.apart == BOUNDARIES:
        yield f"{row}: keeps_scores and apart = `{BOUNDARIES}`: what is told where examples begin has no scores to keep"
    if attention.brought and attention.package:
        yield f"{row}: the bundle brings it, and the package {attention.package} too"


def of_adaptation(adaptation: Adaptation) -> Iterator[str]:
    """The contradictions of one adaptation."""
    row = f"adaptation `{adaptation.name}`"
    yield from unknown(row, "base", [adaptation.base], BASES, "the bases")
    yield from unknown(row, "trains", [adaptation.trains], TRAINED, "what can be trained")
    yield from unknown(row, "tables", [adaptation.tables], ADAPTATIONS, "the adaptations")
    if (adaptation.rate != 1) != bool(adaptation.rate_because):
        yield f"{row}: its rate is {adaptation.rate:g} x another's, and rate_because is `{adaptation.rate_because}`"
    yield from unknown(row, "reference", [adaptation.reference], REFERENCES, "what can serve as reference")
    yield from unknown(row, "above", [adaptation.above] * bool(adaptation.above), ADAPTATIONS, "the adaptations")
    asked = adaptation.family, adaptation.base
    same = [other.name for other in ADAPTATIONS.values() if (other.family, other.base) == asked]
    if same != [adaptation.name]:
        yield f"{row}: family `{adaptation.family}` and base `{adaptation.base}` mean all of {', '.join(same)}"
    yield from _of_whole(row, adaptation) if adaptation.trains_all else _of_adapter(row, adaptation)
    yield from _of_circle(row, adaptation)


def _of_whole(row: str, adaptation: Adaptation) -> Iterator[str]:
    """Where every weight is trained, nothing is left of an adapter and of what lies below it."""
    if adaptation.reference == ADAPTER_OFF:
        yield f"{row} trains every weight, and its reference `{ADAPTER_OFF}` is the model without an adapter"
    if adaptation.quantized:
        yield f"{row} trains every weight, and base `{adaptation.base}` is quantized and stays frozen"
    if adaptation.merges:
        yield f"{row} trains every weight, and merges is True: there is nothing to merge it into"
    for field in ("config", "module", "table"):
        if getattr(adaptation, field):
            yield f"{row} trains every weight, and its {field} `{getattr(adaptation, field)}` is of an adapter"


def _of_adapter(row: str, adaptation: Adaptation) -> Iterator[str]:
    """An adapter is of a class of a package, and the rules decide what the keys of its table say, where it has one."""
    for field in ("config", "packages"):
        if not getattr(adaptation, field):
            yield f"{row} trains an adapter, and its {field} is empty"
    shaped = adaptation.trains in (MATRICES, *STAYING) and not adaptation.asked_in
    if bool(adaptation.table) != shaped:
        table = f"its table is `{adaptation.table}`: matrices, prompts, prefixes and bottlenecks alone have one"
        yield f"{row} trains {adaptation.trains}, and {table}"
    if adaptation.merges == (adaptation.trains in STAYING):
        stay = f"merges is {adaptation.merges}: prompts, prefixes and what stands behind modules alone stay adapters"
        yield f"{row} trains {adaptation.trains}, and {stay}"


def _of_circle(row: str, adaptation: Adaptation) -> Iterator[str]:
    """Every step up leads to a larger one, so none comes back."""
    passed, above = [adaptation.name], adaptation.above
    while above in ADAPTATIONS and above not in passed:
        passed.append(above)
        above = ADAPTATIONS[above].above
    if above == adaptation.name:
        yield f"{row}: above leads back to it, by way of {', '.join([*passed[1:], above])}"


def of_strategy(strategy: Strategy) -> Iterator[str]:
    """The contradictions of one strategy."""
    row = f"strategy `{strategy.name}`"
    yield from unknown(row, "engine", [strategy.engine], ENGINES, "the engines")
    yield from unknown(row, "shards", strategy.shards, SHARDED, "what can be sharded")
    yield from unknown(row, "offloads", strategy.offloads, OFFLOADS, "the values of train.offload")
    for first, then in pairwise(SHARDED):
        if then in strategy.shards and first not in strategy.shards:
            yield f"{row} shards the {then} and not the {first}, which no engine does"
    if strategy.groups and not strategy.shards:
        yield f"{row}: its ranks fall into groups that hold all shards, and shards is empty"
    engine = ENGINES.get(strategy.engine)
    if engine and len(strategy.shards) not in engine.shards:
        sharded = ", ".join(name for name in SHARDED if name in strategy.shards) or "nothing"
        able = " or ".join(", ".join(SHARDED[:number]) or "nothing" for number in engine.shards)
        yield f"{row} shards {sharded}, and engine `{engine.name}` shards {able}"


def _of_all_strategies() -> Iterator[str]:
    """Runs on one rank and runs on several each have a strategy."""
    engines = [ENGINES[row.engine] for row in STRATEGIES.values() if row.engine in ENGINES]
    for one, ranks in ((True, "one rank"), (False, "several ranks")):
        if all(engine.one_process != one for engine in engines):
            yield f"no strategy is for {ranks} (engine of {', '.join(STRATEGIES)})"


def of_kind(kind: Kind) -> Iterator[str]:
    """The contradictions of one kind."""
    row = f"kind `{kind.name}`"
    for field, named in (("taught", kind.taught), ("scored", (kind.scored,)), ("flag", (kind.flag,))):
        yield from unknown(row, field, [name for name in named if name], kind.columns, "its columns")
    yield from unknown(row, "joins", [kind.joins] * bool(kind.joins), KINDS, "the kinds of rows")
    yield from unknown(row, "ends", [kind.ends] * bool(kind.ends), KINDS, "the kinds of rows")
    if kind.joins in KINDS and not KINDS[kind.joins].masked:
        yield f"{row}: it joins `{kind.joins}`, whose rows do not say which part of them is learned"
    for made in (made for made in ROW_FORMATS.values() if made.kind == kind.name):
        filled = {role.becomes for role in made.roles}
        for column in (column for column in kind.columns if column not in filled):
            yield f"{row}: format `{made.name}` becomes it, and no role of that becomes its column `{column}`"


def of_format(row_format: RowFormat) -> Iterator[str]:
    """The contradictions of one format."""
    row = f"format `{row_format.name}`"
    kinds = [row_format.kind] + [row_format.unrolled] * bool(row_format.unrolled)
    yield from unknown(row, "kind", kinds, KINDS, "the kinds of rows")
    yield from unknown(row, "usual", [row_format.usual], METHODS, "the methods")
    yield from unknown(row, "loss_on", [row_format.loss_on], LOSS_ON, "the parts of a row that can be learned")
    usual = METHODS.get(row_format.usual)
    if usual and row_format.name not in usual.formats:
        yield f"{row}: it is usual for method `{usual.name}`, which does not take it"
    if row_format.unrolled == row_format.kind:
        yield f"{row}: unrolled is `{row_format.unrolled}`, which is its kind: unrolling it would change nothing"
    if row_format.answers < 0:
        yield f"{row}: answers is {row_format.answers}"
    if bool(row_format.unrolled) != (row_format.answers != 1):
        yield f"{row}: unrolled is `{row_format.unrolled}`, and answers is {row_format.answers}"
    if row_format.wraps and not row_format.turns:
        yield f"{row}: wraps makes messages of its strings, and turns says that no chat template renders them"
    yield from _of_roles(row, row_format)
    yield from _of_forbidden(row, row_format)
    yield from _of_hidden(row, row_format)


def _of_roles(row: str, row_format: RowFormat) -> Iterator[str]:
    columns = KINDS[row_format.kind].columns if row_format.kind in KINDS else ()
    yield from unknown(row, "roles", [role.becomes for role in row_format.roles], columns, "the columns of its kind")
    implicit = [row_format.implicit] * bool(row_format.implicit)
    yield from unknown(row, "implicit", implicit, [role.name for role in row_format.roles], "its roles")
    yield from repeated(row, "roles", [role.name for role in row_format.roles])
    for role in (role for role in row_format.roles if not role.aliases):
        yield f"{row}: role `{role.name}` has no aliases, so that no column is understood as it"
    if not row_format.required:
        yield f"{row}: no role is required, so that every row would be of this format"


def _of_forbidden(row: str, row_format: RowFormat) -> Iterator[str]:
    """A column that is refused is read by another format, and is none of its own."""
    own = {name for role in row_format.roles for name in (role.name, *role.aliases)}
    others = {role.name for other in ROW_FORMATS.values() if other is not row_format for role in other.roles}
    for column in row_format.forbidden:
        if column in own:
            yield f"{row}: it forbids the column `{column}`, which is one of its roles"
        elif column not in others:
            yield f"{row}: it forbids the column `{column}`, which no other format reads"


def _of_hidden(row: str, row_format: RowFormat) -> Iterator[str]:
    """No format that is tried before it takes all of its rows, unless one that has a column is refused there."""
    for earlier in ROW_FORMATS.values():
        if earlier.name == row_format.name:
            return
        if set(earlier.forbidden) & {role.name for role in row_format.roles}:
            continue
        if earlier.required and all(_is_met(role, row_format) for role in earlier.required):
            yield f"{row}: all of its rows are of format `{earlier.name}` too, which is tried before it"


def _is_met(role: Role, row_format: RowFormat) -> bool:
    """Whether every row of the format has a column for the role."""
    flag = role.holds == FLAGS  # alone told by what it holds
    alike = (own for own in row_format.required if not flag or own.holds == FLAGS)
    return any(set(own.aliases) <= set(role.aliases) for own in alike)


def _of_unused() -> Iterator[str]:
    """What stands in a table is asked for by some method: a row that is not is left over, or misspelled somewhere."""
    methods = METHODS.values()
    needed = {
        "model": (NAMED_MODELS, {name for row in methods for name in row.named_models}),
        "section": (SECTIONS, {row.section for row in methods} | {COMMON_SECTION}),
        "format": (ROW_FORMATS, {name for row in methods for name in row.formats}),
        "kind": (KINDS, {name for row in methods for name in row.kinds}),
        "adaptation": (ADAPTATIONS, {name for row in methods for name in row.adaptations}),
        "base": (BASES, {row.base for row in ADAPTATIONS.values()}),
    }
    for axis, (table, names) in needed.items():
        rows = "adaptation" if axis == "base" else "method"
        yield from (f"{axis} `{name}` is in its table, and no {rows} needs it" for name in table if name not in names)

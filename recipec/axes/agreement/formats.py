"""What formats and kinds of rows say of their columns, and how a format is told from those tried before it."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.agreement.names import unknown
from recipec.axes.methods import METHODS
from recipec.axes.row_formats import FLAGS, KINDS, LOSS_ON, ROW_FORMATS, Kind, Role, RowFormat


def of_kind(kind: Kind) -> Iterator[str]:
    """The contradictions of one kind."""
    row = f"kind `{kind.name}`"
    for field, named in (("taught", kind.taught), ("scored", (kind.scored,)), ("flag", (kind.flag,))):
        yield from unknown(row, field, [name for name in named if name], kind.columns, "its columns")
    if not kind.taught:
        yield f"{row}: taught is empty, so that nothing is learned from its columns {', '.join(kind.columns)}"


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
    yield from _of_roles(row, row_format)
    yield from _of_hidden(row, row_format)


def _of_roles(row: str, row_format: RowFormat) -> Iterator[str]:
    columns = KINDS[row_format.kind].columns if row_format.kind in KINDS else ()
    yield from unknown(row, "roles", [role.becomes for role in row_format.roles], columns, "the columns of its kind")
    implicit = [row_format.implicit] * bool(row_format.implicit)
    yield from unknown(row, "implicit", implicit, [role.name for role in row_format.roles], "its roles")
    if not row_format.required:
        yield f"{row}: no role is required, so that every row would be of this format"


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

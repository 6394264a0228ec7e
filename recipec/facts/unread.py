"""What rows hold that no stage reads: said where it is by the way, refused where it says how rows are to be learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from recipec.axes import CARRIED, KINDS, METHODS, ROW_FORMATS
from recipec.axes.row_formats import EITHER, FLAG_NAMES, FROM_VALUE, MASKS, MEANT, MESSAGES, TEXTS
from recipec.dataset import DataShape, learning_from, nearest, written_in
from recipec.dataset.formats import MOST_NAMES
from recipec.dataset.questions import PASSAGE
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.columns import of_other_formats, used_by_trainers
from recipec.facts.data import DataFacts
from recipec.recipe import LoadedRecipe

OF_TURNS = (MESSAGES, FROM_VALUE, EITHER)  # what columns of messages hold
MOST_IGNORED = 32  # names of the line to write that a message has room for


def ignored(loaded: LoadedRecipe, facts: DataFacts) -> list[str]:
    """What prepare_data.py may pass over in the rows of a section: what the recipe names, and what they have."""
    return sorted({*(loaded.recipe.data.ignore or ()), *facts.all_unread})


def against_unread(loaded: LoadedRecipe, data: Mapping[str, DataFacts]) -> Iterator[Diagnostic]:
    """Yield what rows would lose (E0308), what nothing reads (W0516), and what is ignored in vain (E0401)."""
    accepted = loaded.recipe.data.ignore or []
    for section, facts in data.items():
        told, unread = {*accepted, *_told(loaded, data, section)}, {*accepted, *facts.unread}
        here = [name for name in facts.unread if name not in told]
        beside = [name for name in facts.all_unread if name not in unread]
        for part, names in [(section, here), *_by_part(facts, beside)]:
            yield from _unread_in(loaded, part, facts, names, [*here, *beside])
    yield from _ignored_without_need(loaded, data, accepted)


def _told(loaded: LoadedRecipe, data: Mapping[str, DataFacts], section: str) -> Iterator[str]:
    """Columns that would be used by the trainer, or by rows of another format: each has a finding of its own."""
    yield from used_by_trainers(loaded, section, data)
    yield from _forbidden(loaded, data[section])


def _forbidden(loaded: LoadedRecipe, facts: DataFacts) -> Iterator[str]:
    """The columns that make a row one of another format."""
    yield from (name for _, _, name in of_other_formats(facts, loaded.recipe.data.columns or {}))


def _by_part(facts: DataFacts, names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The files beside those that are learned from, each with which of the names its rows have."""
    for part, held in facts.held_out.items():
        unread = {*held.unread}
        if found := [name for name in names if name in unread]:
            yield part, found


def _unread_in(
    loaded: LoadedRecipe, part: str, facts: DataFacts, names: list[str], every: list[str]
) -> Iterator[Diagnostic]:
    """Yield what is to be said of the names in one part of the data; the line to write has those of every part."""
    meant = MEANT | dict.fromkeys(_forbidden(loaded, facts), "what makes a row one of another format")
    judged = FLAG_NAMES if ROW_FORMATS[facts.shape.format].turns else ()
    meant |= {name: "whether a row is good" for name in judged if name in facts.flags}
    meant |= dict.fromkeys((name for name in names if _richer(facts.shape, name)), "what the question is about")
    lost, others = ([name for name in names if (name in meant) is wanted] for wanted in (True, False))
    accepted = loaded.recipe.data.ignore or []
    if lost:
        refused = [*accepted, *(name for name in every if name in meant)]
        ways = [facts.answers[name] for name in lost if name in (*FLAG_NAMES, PASSAGE) and name in facts.answers]
        if reading := _reading(loaded, part, facts, lost):
            ways.append(f"to read {_listed(lost)}: `{reading}` under [data]")
        yield _lost(loaded, part, {name: meant[name] for name in lost}, refused, ways)
    if others:
        ways = [*_misspelled(loaded, facts, others), *_rated(part, facts, others)]
        ways += [facts.answers[name] for name in others if name in facts.answers][:1]
        yield _passed_over(loaded, part, others, [*accepted, *every], ways)


def _carrying(part: str, facts: DataFacts, names: list[str]) -> list[str]:
    """Values of data.carry that read what held-out rows hold; none where one of the names stays unread.

    What the rows of a section hold is read without them.
    """
    shapes = facts.held_out[part].shapes if part in facts.held_out else ()
    able = {name for shape in shapes for name in ROW_FORMATS[shape.format].carries} - {*facts.shape.carries}
    masked = KINDS[ROW_FORMATS[facts.shape.format].kind].masked
    rows = {name: row for name, row in CARRIED.items() if name in able and (not row.apart or masked)}
    columns = {name for name in names if name not in facts.fields}
    found = {
        name: next((own for own, row in rows.items() if name in (row.columns if name in columns else row.fields)), "")
        for name in names
    }
    return list(dict.fromkeys(found.values())) if all(found.values()) else []


def _richer(shape: DataShape, name: str) -> str:
    """The lines that have rows read as another format, which has a role for the column; "" where none has."""
    read = {role.becomes: role.name for role in ROW_FORMATS[shape.format].required}
    for row in ROW_FORMATS.values():
        same = row.kind == ROW_FORMATS[shape.format].kind and shape.content in row.required[0].holds
        if same and any(name in role.aliases and not role.required for role in row.roles):
            columns = {role.name: shape.columns[read[role.becomes]] for role in row.required}
            renamed = ", ".join(f"{role} = {json.dumps(column)}" for role, column in columns.items() if role != column)
            return f'format = "{row.name}"' + (f"` and `columns = {{ {renamed} }}" if renamed else "")
    return ""


def _reading(loaded: LoadedRecipe, part: str, facts: DataFacts, lost: list[str]) -> str:
    """The lines that have the lost columns read; "" where no lines do."""
    if carry := _carrying(part, facts, lost):
        return f"carry = {json.dumps(sorted({*(loaded.recipe.data.carry or ()), *carry}))}"
    return _richer(facts.shape, lost[0]) if len(lost) == 1 and not loaded.recipe.data.columns else ""


def _lost(loaded: LoadedRecipe, part: str, lost: Mapping[str, str], accepted: list[str], ways: list[str]) -> Diagnostic:
    labels = (Label(loaded.place("data", part), "; ".join(f"`{name}`: {means}" for name, means in lost.items())),)
    listed = _listed([*lost])
    into = "the labels" if set(lost) & {*MASKS} else "the text of the rows"
    help = (
        *ways,
        f"write what {'it says' if len(lost) == 1 else 'they say'} into {into}, or remove {listed}",
        f"to train without: `{_line(accepted)}` under [data]",
    )
    title = f"the rows of data.{part} have {listed}, which training would leave out"
    return Diagnostic("E0308", title, labels, help)


def _listed(names: list[str]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _misspelled(loaded: LoadedRecipe, facts: DataFacts, names: list[str]) -> Iterator[str]:
    """The line that has a column read, whose name is almost that of a column which no row has.

    No prompt is proposed where conversations begin with theirs.
    """
    own = loaded.recipe.data.columns or {}
    for shape in facts.shapes:
        format = ROW_FORMATS[shape.format]
        for role in format.roles:
            if role.name == format.implicit and shape.content != TEXTS:
                continue
            lacking = shape.columns.get(role.name, role.aliases[0]) not in facts.some_columns
            if lacking and (name := nearest(role, names)):
                pairs = ", ".join(f"{key} = {json.dumps(column)}" for key, column in (own | {role.name: name}).items())
                yield f"to read `{name}` as the {role.name}: `columns = {{ {pairs} }}` under [data]"


def _rated(part: str, facts: DataFacts, names: list[str]) -> Iterator[str]:
    """The lines that have ratings learned, where rows that are learned from have some."""
    if any(row.section == part for row in METHODS.values()):
        yield from learning_from(facts.shape, [name for name in facts.ratings if name in names], facts.unrated)


_NAMELESS = "a column without a name (often the index that pandas writes: `to_csv(index=False)` leaves it out)"


def _passed_over(
    loaded: LoadedRecipe, section: str, names: list[str], accepted: list[str], ways: list[str]
) -> Diagnostic:
    listed = ", ".join(f"`{name}`" if name else _NAMELESS for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    labels = (Label(loaded.place("data", section), f"nothing reads {listed}{more}"),)
    help = (*dict.fromkeys(ways), f"to say that this is meant: `{_line(accepted)}` under [data]")
    return Diagnostic("W0516", f"the rows of data.{section} have more than training reads", labels, help)


def _line(names: list[str]) -> str:
    shown = json.dumps(names[:MOST_IGNORED], ensure_ascii=False)
    return f"ignore = {shown}" if len(names) <= MOST_IGNORED else f"ignore = {shown[:-1]}, …]"


def _of_rows(shape: DataShape) -> set[str]:
    """The columns of the format, and what every message has."""
    return {*shape.columns.values(), *(written_in(shape.content) if shape.content in OF_TURNS else ())}


def _ignored_without_need(
    loaded: LoadedRecipe, data: Mapping[str, DataFacts], accepted: list[str]
) -> Iterator[Diagnostic]:
    whole = bool(data) and all(facts.whole for facts in data.values())
    for index, name in enumerate(accepted):
        used = any(name in (*_of_rows(shape), *shape.handed) for facts in data.values() for shape in facts.shapes)
        read = used and not any(name in facts.all_unread for facts in data.values())
        held = any(name in (*facts.some_columns, *facts.fields, *facts.all_unread) for facts in data.values())
        if read or (whole and not held):
            why, which = ("it is read", "the run reads") if read else ("no row has it", "the rows do not have")
            label = Label(loaded.place("data", "ignore", index), why)
            title = f"`data.ignore` names `{name}`, which {which}"
            yield Diagnostic("E0401", title, (label,), (f'remove "{name}" from `data.ignore`',))

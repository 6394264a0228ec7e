"""Of which format the rows of each source are: alike in all sources, or one for each, brought to what is learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import CARRIED, COMMON_SECTION, KINDS, METHODS, ROW_FORMATS, SECTIONS, RowFormat, readers
from recipec.axes.row_formats import UNPAIRED_PREFERENCE
from recipec.axes.tasks import AUTO
from recipec.dataset import (
    BadRows,
    DataShape,
    Row,
    RowFault,
    TwoReadings,
    UnknownFormat,
    from_published,
    in_one_object,
    labels_of_scale,
    last_answer_apart,
    misnamed,
    recognise,
    rewriting,
    suggested_columns,
    transcripts,
)
from recipec.dataset.classes import each_once, suggested_answers
from recipec.dataset.commands import one_at_a_time
from recipec.dataset.labeled import labeled_answers
from recipec.dataset.large_numbers import keeping_numbers
from recipec.dataset.lifting import columns_within
from recipec.dataset.nested_ratings import nested_ratings
from recipec.dataset.rewriting import conversations
from recipec.dataset.side_by_side import texts_within
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.conversations import carries
from recipec.facts.converting import SKIP, faults_of
from recipec.facts.hub_source import formats_taken
from recipec.facts.other_method import learns_from
from recipec.facts.rated_alone import learned_by_rating
from recipec.facts.row_faults import unusable
from recipec.facts.sources import SampledSource, places_of, rows_of, states_rows
from recipec.facts.splitting import named_columns
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import TASK, either


class _Expected(Struct, frozen=True):
    """What rows may be: as the recipe says, or of a format that the stages which read them take."""

    loaded: LoadedRecipe
    section: str
    taken: tuple[str, ...]  # formats that the stages take
    asked: str | None  # the format that the recipe names
    columns: Mapping[str, str]  # role -> column, where the recipe names it
    alone: bool = False  # of one source among others


def shaped(
    loaded: LoadedRecipe, section: str, sources: list[SampledSource], report: Report
) -> list[SampledSource] | None:
    """The sources of a section, each with its shape; None with E0305 where one cannot be told, or not learned together.

    Sources that are alike have one shape, so that what the first rows of one leave out is known from the others.
    """
    data, taken = loaded.recipe.data, formats_taken(loaded, section)
    expected = _Expected(loaded, section, taken, data.format if data.format in taken else None, data.columns or {})
    own = Report()
    found = [] if any(map(_says, sources)) else _alike(expected, sources, own)
    if not found and (any(map(_says, sources)) or (len(sources) > 1 and rows_of(sources))):
        own = Report()
        found = [_alone(_expected_of(expected, source), source, own) for source in sources]
    known = [source for source in found if source.shape is not None]
    if len(known) == len(sources) and (clash := _clash(section, known)):
        own.add(clash)
    for finding in own.diagnostics:
        report.add(finding)
    return None if own.has_errors else known


def shape_of_all(sources: Sequence[SampledSource]) -> DataShape:
    """The shape that stands for all sources: of the rows that the others become, with what any of them carries."""
    shapes = list(dict.fromkeys(source.shape.format for source in sources if source.shape))
    first = next(source.shape for source in sources if source.shape and _is_joined(source.shape.format, shapes))
    carries = [name for name in CARRIED if any(name in _carries(other) for other in sources)]
    return replace(first, carries=tuple(carries), evidence=_evidence(sources) if len(shapes) > 1 else first.evidence)


def _carries(source: SampledSource) -> tuple[str, ...]:
    return source.shape.carries if source.shape else ()


def _evidence(sources: Sequence[SampledSource]) -> str:
    formats: dict[str, list[str]] = {}
    for source in sources:
        formats.setdefault(source.shape.format if source.shape else "", []).append(source.name)
    return "; ".join(f"{' and '.join(names)}: {name} rows" for name, names in formats.items())


def _says(source: SampledSource) -> bool:
    """Whether the source says itself of which format it is."""
    return source.given.columns is not None or source.given.format not in (None, AUTO)


def _expected_of(expected: _Expected, source: SampledSource) -> _Expected:
    """What the rows of one source may be, which may say so itself."""
    given = source.given
    asked = expected.asked if given.format in (None, AUTO) else given.format
    columns = expected.columns if given.columns is None else given.columns
    return replace(expected, asked=asked, columns=columns, alone=True)


def _alike(expected: _Expected, sources: list[SampledSource], report: Report) -> list[SampledSource]:
    """The sources with one shape that all of them have; empty with E0305 where they have none."""
    shape = _shape(expected, sources, report)
    several = len(sources) > 1
    if shape is None or (several and any(_reads_more(expected, source, shape) for source in sources)):
        return []
    return [replace(source, shape=shape) for source in sources]


def _reads_more(expected: _Expected, source: SampledSource, shape: DataShape) -> bool:
    """Whether the source alone has a column for what the others call by another name."""
    try:
        alone = _recognised(expected, [source]) if source.rows else shape
    except UnknownFormat:
        return False
    held = {name for row in source.rows for name in row}
    return bool((held & {*alone.columns.values()}) - {*shape.columns.values()})


def _alone(expected: _Expected, source: SampledSource, report: Report) -> SampledSource:
    """The source with the shape of its own rows; without one, and with E0305, where that cannot be told."""
    return replace(source, shape=_shape(expected, [source], report))


def _shape(expected: _Expected, sources: list[SampledSource], report: Report) -> DataShape | None:
    if not rows_of(sources):
        return _unseen(expected, sources[0], report)
    try:
        shape = _recognised(expected, sources)
    except UnknownFormat as error:
        report.add(_unlike_any_format(expected, sources, error))
        return None
    stated = expected.asked and not expected.alone and states_rows(expected.loaded)
    return replace(shape, evidence=f"set in {expected.loaded.where('data', 'format')}") if stated else shape


def _recognised(expected: _Expected, sources: list[SampledSource]) -> DataShape:
    others = ROW_FORMATS if expected.section == COMMON_SECTION else ()  # what no stage takes is told by its name
    formats = (expected.asked,) if expected.asked else tuple(dict.fromkeys((*expected.taken, *others)))
    rows, ignored = tuple(rows_of(sources)), expected.loaded.recipe.data.ignore or ()
    rivals = () if expected.asked else expected.taken
    skips = expected.loaded.recipe.data.incomplete == SKIP
    found = recognise(rows, formats, expected.columns, places_of(sources), ignored, rivals, skips=skips)
    if not expected.asked and found.format not in expected.taken:
        _check_named(expected, rows, places_of(sources))
    return found


def _check_named(expected: _Expected, rows: Sequence[Row], places: Sequence[str]) -> None:
    """Rows of a format that no stage takes may be ones that it takes, with a column of another name (UnknownFormat)."""
    place, taken = places[0], [ROW_FORMATS[name] for name in expected.taken]
    if any(from_published(rows, places, taken)):
        raise UnknownFormat(f"{place} has answers to its prompt, which no format reads")
    suggested = [*suggested_columns(rows, taken, expected.columns, unread=False)]
    suggested = each_once([*suggested_answers(rows, place, taken)], suggested)
    if lines := [*misnamed(rows, expected.columns), *suggested]:
        names = ", ".join(f"`{name}`" for name in rows[0])
        raise UnknownFormat(f"{place} has the columns {names}, of which recipec does not know all", tuple(lines))


def _unlike_any_format(expected: _Expected, sources: list[SampledSource], error: UnknownFormat) -> Diagnostic:
    section = expected.section
    place = sources[0].place if expected.alone else expected.loaded.place("data", section)
    if isinstance(error, BadRows):
        faults = [*error.faults, *_other_faults(expected.loaded, sources, error)]
        found = unusable(section, place, faults, len(rows_of(sources)))
        seen = rows_of(sources), places_of(sources)
        flags, format = {fault.flag for fault in faults}, ROW_FORMATS[error.shape.format]
        ways = rewriting(*seen, error.shape), labels_of_scale(*seen, [format], flags)
        steps = one_at_a_time(found.help, transcripts(seen[0]), *ways)
        return replace(found, help=tuple(keeping_numbers(steps, seen[0])))
    first = next(source for source in sources if source.rows)  # those before it are not read at compile time
    rows, places = first.rows, first.places
    usual = (*error.help, *transcripts(rows_of(sources)), *_own_format(expected, first))
    taken, kept = [ROW_FORMATS[name] for name in expected.taken], named_columns(expected.loaded)
    ways = (
        _several_answers(first, taken, kept),
        labeled_answers(rows, places[0]) if UNPAIRED_PREFERENCE in taken else (),
        (line for _, line in nested_ratings(rows, places[0])) if UNPAIRED_PREFERENCE in taken else (),
        _named_within(expected, rows, places, taken),
        usual,
        in_one_object(rows, places),
        texts_within(rows, places, taken),
        columns_within(rows, places, taken),
        _conversations(first, taken),
        last_answer_apart(rows, places, taken),
        labels_of_scale(rows, places, taken),
        _what_they_are(expected, sources),
        _which_column(expected, rows[0]),
    )
    help = next((found for way in ways if (found := tuple(keeping_numbers(way, rows_of(sources))))), ())
    title = f"the format of data.{section} is not recognized"
    if isinstance(error, TwoReadings):
        title = f"rows of data.{section} can be read in two ways"
    return Diagnostic("E0305", title, (Label(place, str(error)),), help)


def _several_answers(source: SampledSource, taken: Sequence[RowFormat], kept: Sequence[str]) -> Iterator[str]:
    """What to make of rows of public datasets; where a label is an answer to them, too, this as well."""
    if lines := [*from_published(source.rows, source.places, taken, kept)]:
        yield from (*lines, *labels_of_scale(source.rows, source.places, taken))


def _named_within(
    expected: _Expected, rows: Sequence[Row], places: Sequence[str], taken: Sequence[RowFormat]
) -> Iterator[str]:
    """What lifts columns out of an object, where the recipe names them by a path such as "data.question"."""
    within = any("." in name and name.split(".")[0] in rows[0] for name in expected.columns.values())
    if lines := [*columns_within(rows, places, taken)] if within else []:
        yield from (*lines, "name the columns of the new file in `columns`, or remove the key where recipec does")


def _conversations(source: SampledSource, taken: Sequence[RowFormat]) -> Iterator[str]:
    """What makes lists of messages of a column that holds conversations in another way, where a format has some."""
    if any(KINDS[format.kind].masked for format in taken):
        yield from conversations(source.rows, source.places, list(source.rows[0]))


def _what_they_are(expected: _Expected, sources: list[SampledSource]) -> Iterator[str]:
    """The format that the rows have, where it is another one than the recipe names or the section takes."""
    shape = _shape_of(sources, expected.columns) or _shape_of(sources, {})
    if shape is None:
        return
    found = shape.format
    if found not in expected.taken:
        yield f"these are {found} rows, which the stages that read data.{expected.section} do not take"
        rated = [*learned_by_rating(shape, rows_of(sources), places_of(sources)[0], expected.taken)]
        yield from rated or learns_from(expected.loaded, expected.section, found)
        if not rated and UNPAIRED_PREFERENCE.name in expected.taken and KINDS[ROW_FORMATS[found].kind].masked:
            yield "every answer is then learned as a good one: no rating of an answer is read"
    elif expected.asked:
        yield f'these are {found} rows: write `format = "{found}"`, or leave `format` out'


def _shape_of(sources: list[SampledSource], columns: Mapping[str, str]) -> DataShape | None:
    """The shape of all that there are, if the columns have these names; a few rows may be faulty."""
    try:
        return recognise(tuple(rows_of(sources)), None, columns, places_of(sources))
    except BadRows as error:
        return error.shape
    except UnknownFormat:
        return None


def _which_column(expected: _Expected, row: Row) -> Iterator[str]:
    """The line to fill in, for a format that needs as many columns as there are."""
    formats = [ROW_FORMATS[name] for name in expected.taken if 1 < len(row) == len(ROW_FORMATS[name].required)]
    for format in formats[:1]:
        roles = ", ".join(f'{role.name} = "…"' for role in format.required)
        yield f"say which column holds what: `columns = {{ {roles} }}`, where they are {format.name} rows"


def _other_faults(loaded: LoadedRecipe, sources: list[SampledSource], error: BadRows) -> Iterator[RowFault]:
    """What is wrong with the other rows, so that all that is wrong is told at once."""
    bad = {fault.place for fault in error.faults}
    for source in sources:
        shape = replace(error.shape, carries=carries(loaded, replace(source, shape=error.shape)))
        yield from (fault for fault in faults_of(loaded, source, shape) if fault.place not in bad)


def _own_format(expected: _Expected, source: SampledSource) -> Iterator[str]:
    """How to say that one source has another format than the recipe says of all."""
    if not (expected.alone and expected.asked):
        return
    try:
        found = _recognised(replace(expected, asked=None), [source]).format
    except UnknownFormat:
        return
    yield f'where this source is written in another way: {{ {_written(source)}, format = "{found}" }}'


def _written(source: SampledSource) -> str:
    given = {
        name: getattr(source.given, name) for name in ("path", "hub", "subset", "split", "revision", "take", "weight")
    }
    if source.given.hub and not source.given.split:
        given["split"] = "train"
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items() if value is not None)


def _unseen(expected: _Expected, source: SampledSource, report: Report) -> DataShape | None:
    """Data that cannot be looked at must be described by the recipe; its columns then have their usual names."""
    asked, taken = expected.asked, expected.taken
    if not asked and not taken:
        report.add(_unwanted(expected.loaded, source))
        return None
    if asked is None and len(taken) != 1:
        label = Label(source.place, "not read at compile time")
        line = f'{{ {_written(source)}, format = "{taken[0]}" }}'
        help = (
            f"say what this source holds, for example: {line}",
            f"its format is {either(taken)}; add `columns` where the names of the columns differ",
        )
        notes = ("of a data set of the Hub, the split `train` is read where the recipe names no `split`",)
        title = f"the format of data.{source.part} is not stated"
        report.add(Diagnostic("E0305", title, (label,), help, notes if source.given.hub else ()))
        return None
    where = expected.loaded.where("data", "format" if asked and not _says(source) else source.part)
    evidence = f"set in {where}" if asked else f"the rows that data.{source.part} is for"
    return DataShape.described(asked or taken[0], expected.columns, evidence)


def _unwanted(loaded: LoadedRecipe, source: SampledSource) -> Diagnostic:
    """Rows of a section that no stage of the task reads (E0401), whatever they are."""
    labels = (
        Label(loaded.place(*TASK), "has no stage that reads them"),
        Label(source.place, "not read at compile time"),
    )
    title = f"`goal.task = {loaded.recipe.goal.task}` and the rows of `data.{source.part}` contradict each other"
    given = [name for name in SECTIONS if loaded.is_set("data", name)]
    tasks = [row.task for row in METHODS.values() if all(readers(name, given, row.task) for name in given)]
    other = f", or use task = {either(dict.fromkeys(tasks))}, which reads all sections" if tasks else ""
    return Diagnostic("E0401", title, labels, (f"remove data.{source.part}{other}",))


def _is_joined(format: str, others: Sequence[str]) -> bool:
    """Whether rows of the other formats are learned as those of this one."""
    kind = ROW_FORMATS[format].kind
    kinds = {ROW_FORMATS[other].kind for other in others}
    return all(other == kind or KINDS[other].joins == kind for other in kinds)


def _clash(section: str, sources: Sequence[SampledSource]) -> Diagnostic | None:
    """Sources whose rows no stage can learn together (E0305)."""
    first = {source.shape.format: source for source in reversed(sources) if source.shape}
    if any(_is_joined(format, list(first)) for format in first):
        return None
    labels = tuple(Label(source.place, f"{format} rows") for format, source in reversed(first.items()))
    help = ("make a recipe for each, or bring the rows to one format",)
    joined = [row.name for row in ROW_FORMATS.values() if KINDS[row.kind].joins or KINDS[row.kind].masked]
    notes = (f"what can be learned together: {', '.join(joined)}",)
    title = f"the sources of data.{section} hold rows that are not learned together"
    return Diagnostic("E0305", title, labels, help, notes)

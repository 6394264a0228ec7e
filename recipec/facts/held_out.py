"""The files of data.eval, data.test and data.general: which section's stage they are for."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from recipec.axes import CARRIED, COMMON_SECTION, KINDS, METHODS, ROW_FORMATS, SECTIONS
from recipec.axes.tasks import AUTO
from recipec.catalog.templates import Template
from recipec.dataset import BadRows, DataShape, UnknownFormat, recognise
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.conversations import ambiguous_thoughts, carries, prompted
from recipec.facts.converting import SKIP, as_learned, faults_of
from recipec.facts.data import DataFacts, HeldOut, unread
from recipec.facts.fact import known
from recipec.facts.leaks import HELD_OUT, leaks
from recipec.facts.row_faults import unusable
from recipec.facts.sizes import GENERAL_TOKENS, answers_each, lengths_of, rows_read
from recipec.facts.sources import SampledSource, rows_of, sources_of, states_rows
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import either
from recipec.recipe.schema_data import GENERAL
from recipec.rules.core import Decision

PARTS = (*HELD_OUT, GENERAL)
# The sections whose rows general ones can stand beside: those of methods that learn single tokens of them.
_LEARNED_BY_TOKENS = {COMMON_SECTION, *(row.section for row in METHODS.values() if row.learns_tokens)}


def with_held_out(
    loaded: LoadedRecipe, data: Mapping[str, DataFacts], template: Template | None, report: Report
) -> dict[str, DataFacts]:
    """Return the sections with has_eval_file, has_test_file and, where a recipe names such rows, has_general_file:
    whether the file holds rows like theirs. `template` is what is known of the chat template of the training.

    Reports E0303, E0304, E0309 and W0554, and E0305 for a file whose rows are like those of no section. What a section
    holds whose rows cannot be used is not known: a file may be like those.
    """
    whole = all(name in data for name in SECTIONS if loaded.is_set("data", name))
    sources = {part: sources_of(loaded, part, report) if loaded.is_set("data", part) else None for part in PARTS}
    fitting = {part: _fitting(loaded, part, sources[part], data, whole, report) for part in PARTS}
    found = {}
    for name, facts in data.items():
        parts = {part: fitting[part][name] for part in PARTS if name in fitting[part]}
        carrying = _carrying_more(loaded, facts, [source for held in parts.values() for source in held])
        held_out = {part: _held_out(loaded, held, carrying.shape) for part, held in parts.items()}
        for part, held in parts.items():
            _check(loaded, part, held, carrying, report)
            learned = [as_learned(loaded, source, carrying.shape) for source in held]
            for finding in ambiguous_thoughts(loaded, part, learned, carrying.shape):
                report.add(finding)
        apart = {part: held for part, held in parts.items() if part in HELD_OUT}
        for finding in leaks(loaded, name, carrying.shapes, carrying.shape, apart):
            report.add(finding)
        decisions = {**carrying.decisions, **_decisions(loaded, name, fitting)}
        if GENERAL in parts:
            lengths = _general_lengths(loaded, carrying, parts[GENERAL], template)
            decisions |= {length.id: length for length in lengths}
        found[name] = replace(carrying, decisions=decisions, held_out=held_out)
    return found


def _general_lengths(
    loaded: LoadedRecipe, facts: DataFacts, sources: list[SampledSource], template: Template | None
) -> Iterator[Decision]:
    """Yield the mean length of general rows, and that of the longest of all rows where general ones are longer.

    They are stated or measured, else taken to be as long as the rows of the task.
    """
    own = facts.decisions["tokens_per_example"]
    stated = any(source.given.tokens_per_example for source in sources)
    read = [] if states_rows(loaded) and not stated else [as_learned(loaded, source, facts.shape) for source in sources]
    found = lengths_of(loaded, read, template)
    if found is None:
        yield known(GENERAL_TOKENS, own.value, "taken to be as long as the rows of the task", own.id, origin="default")
        return
    mean, longest = found
    how = "stated for general rows, or measured on the sampled ones"
    how += ", and assumed of those that are not read" * (not all(source.sample for source in read))
    yield known(GENERAL_TOKENS, mean, how, origin="recipe" if stated else "data")
    before = facts.decisions["tokens_p99"]
    if _replays(loaded) and not stated and longest > (before.value or longest):
        yield replace(before, value=longest, because=f"99% of the general rows, which are replayed; {before.because}")


def _replays(loaded: LoadedRecipe) -> bool:
    """Whether general rows are learned: elastic weight consolidation alone does not learn them (REPLAY-001)."""
    tables = [("train", "ewc"), *(("train", name, "ewc") for name in METHODS)]
    return loaded.is_set("data", "replay") or not any(loaded.is_set(*table) for table in tables)


def _held_out(loaded: LoadedRecipe, sources: list[SampledSource], learned: DataShape) -> HeldOut:
    sources = [replace(one, shape=replace(one.shape, carries=_taken(one.shape, learned.carries))) for one in sources]
    answers = answers_each([as_learned(loaded, source, learned) for source in sources], loaded.recipe.data)
    return HeldOut(tuple(source.shape for source in sources), unread(loaded, sources), answers)


def _carrying_more(loaded: LoadedRecipe, facts: DataFacts, sources: list[SampledSource]) -> DataFacts:
    """The section with what held-out rows alone carry: what data.carry names, and what has no name: texts in parts."""
    held, named = {name for source in sources for name in carries(loaded, source)}, loaded.recipe.data.carry or ()
    more = {name for name in held if not _names(name) or (name in named and not CARRIED[name].apart)}
    own = [name for name in CARRIED if name in facts.shape.carries or name in more]
    if own == list(facts.shape.carries):
        return facts
    carried = replace(facts.decisions["carried"], value=own, because="; ".join(CARRIED[name].means for name in own))
    decisions = {**facts.decisions, "carried": carried}
    return replace(facts, shape=replace(facts.shape, carries=tuple(own)), decisions=decisions)


def _taken(shape: DataShape, carries: Sequence[str]) -> tuple[str, ...]:
    """What rows of the format may hold, of what the section carries."""
    return tuple(name for name in ROW_FORMATS[shape.format].carries if name in carries)


def _names(name: str) -> tuple[str, ...]:
    """The columns and the fields of messages that hold it."""
    return (*CARRIED[name].columns, *CARRIED[name].fields)


def _check(loaded: LoadedRecipe, part: str, sources: list[SampledSource], facts: DataFacts, report: Report) -> None:
    """Report rows that preparation would refuse (E0304), and what only held-out rows carry, by no name (E0305)."""
    for source in sources:
        held = (*facts.shape.carries, *carries(loaded, source))  # what these rows alone carry is another matter
        shape = replace(source.shape, carries=_taken(source.shape, held))
        if faults := faults_of(loaded, source, shape, ROW_FORMATS[facts.shape.format].kind):
            report.add(unusable(part, source.place, faults, len(source.rows)))
        strange = {*unread(loaded, [source])}
        for name in carries(loaded, source):
            if name not in facts.shape.carries and strange.isdisjoint(_names(name)):
                carry = json.dumps([*(loaded.recipe.data.carry or ()), name])
                label = Label(source.place, f"its rows hold {CARRIED[name].means}, those that are learned do not")
                help = f"to read them: `carry = {carry}` under [data]"
                report.add(Diagnostic("E0305", f"only the rows of data.{part} carry {name}", (label,), (help,)))


Fitting = Mapping[str, Mapping[str, list[SampledSource]]]  # part -> section -> its sources, with their shapes


def _decisions(loaded: LoadedRecipe, section: str, fitting: Fitting) -> dict[str, Decision]:
    found = {}
    for part, sections in fitting.items():
        if part not in HELD_OUT and not loaded.is_set("data", part):
            continue
        because = _because(loaded, part, section in sections)
        rows = rows_read(loaded, sections[section]) if section in sections else None
        counted = "counted in the files" if rows is not None else "not counted at compile time"
        found[f"has_{part}_file"] = known(f"has_{part}_file", section in sections, because, origin="recipe")
        found[f"{part}_rows"] = known(f"{part}_rows", rows, counted, f"has_{part}_file", origin="data")
    return found


def _because(loaded: LoadedRecipe, part: str, fits: bool) -> str:
    if not loaded.is_set("data", part):
        return f"no data.{part}"
    where = f"set in {loaded.where('data', part)}"
    return where if fits else f"{where}, with rows for another stage"


def _fitting(
    loaded: LoadedRecipe,
    part: str,
    sources: list[SampledSource] | None,
    data: Mapping[str, DataFacts],
    whole: bool,
    report: Report,
) -> dict[str, list[SampledSource]]:
    """Section -> the sources of the part, each like one of its own; those that cannot be seen are for the first."""
    if part not in HELD_OUT:
        data = {name: facts for name, facts in data.items() if name in _LEARNED_BY_TOKENS}
    if sources is None or not data:
        return {}
    found, errors = {}, {}
    for name, facts in data.items() if any(source.rows for source in sources) else list(data.items())[:1]:
        try:
            found[name] = [replace(source, shape=_like(loaded, source, facts, name)) for source in sources]
        except UnknownFormat as error:
            errors[name] = error
    if not found:
        bad = next((error for error in errors.values() if isinstance(error, BadRows)), None)
        if bad:
            report.add(unusable(part, loaded.place("data", part), bad.faults, len(rows_of(sources))))
        elif whole:
            report.add(_unlike(loaded, part, errors))
    return found


def _like(loaded: LoadedRecipe, source: SampledSource, facts: DataFacts, section: str) -> DataShape:
    """The shape of a source whose rows are of a format that is learned. Raises UnknownFormat."""
    ways: dict[tuple[Hashable, ...], DataShape] = {}
    errors = []
    for shape in facts.shapes:
        ways.setdefault(shape.written, shape)
    if len(ways) > 1 and not source.rows and source.given.format in (None, AUTO):
        wanted = either(facts.formats, "")
        raise UnknownFormat(f"{source.name} is not read at compile time: say its `format`, {wanted}")
    for shape in ways.values():
        try:
            return _learned_alike(facts, source, section, _read_as(loaded, source, section, shape))
        except UnknownFormat as error:
            errors.append(error)
    if (other := _of_another_format(loaded, source, facts, section)) is not None:
        return other
    raise next((error for error in errors if isinstance(error, BadRows)), errors[0])


def _of_another_format(loaded: LoadedRecipe, source: SampledSource, facts: DataFacts, section: str) -> DataShape | None:
    """The shape of rows in a format that preparation brings to what is learned; None where there is none."""
    learned, asked = ROW_FORMATS[facts.shape.format].kind, source.given.format
    kinds = {kind.name for kind in KINDS.values() if learned in (kind.name, kind.joins, kind.ends)}
    formats = [name for name, row in ROW_FORMATS.items() if row.kind in kinds and asked in (None, AUTO, name)]
    own, data = source.given.columns or {}, loaded.recipe.data
    skips, ignored = data.incomplete == SKIP, data.ignore or ()
    if not source.rows:
        stated = asked not in (None, AUTO) and formats
        return DataShape.described(formats[0], own, f"set in {loaded.where('data', source.part)}") if stated else None
    try:
        found = recognise(source.rows, formats, own or data.columns or {}, source.places, ignored, skips=skips)
    except BadRows:
        raise
    except UnknownFormat:
        return None
    return _learned_alike(facts, source, section, replace(found, carries=facts.shape.carries))


def _learned_alike(facts: DataFacts, source: SampledSource, section: str, shape: DataShape) -> DataShape:
    """The shape, if no answer in a prompt would be scored. Raises UnknownFormat."""
    whole = KINDS[ROW_FORMATS[facts.shape.format].kind].masked and not facts.decisions["answers_apart"].value
    if whole and source.rows and prompted(replace(source, shape=shape)):
        seen = f"{source.places[0]} has a prompt of messages, and data.{section} has none"
        raise UnknownFormat(f"{seen}: answers in it would be scored as if they were learned")
    return shape


def _read_as(loaded: LoadedRecipe, source: SampledSource, section: str, shape: DataShape) -> DataShape:
    """The shape of the rows in the format of the shape: its columns, or else their own. Raises UnknownFormat."""
    given = source.given.columns or {}
    if source.given.format not in (None, AUTO, shape.format):
        said = f"{source.name} is said to hold {source.given.format} rows"
        raise UnknownFormat(f"{said}, data.{section} holds {shape.format} rows")
    if not source.rows:
        return replace(shape, columns=shape.columns | given)
    ignored, skips = loaded.recipe.data.ignore or (), loaded.recipe.data.incomplete == SKIP
    try:
        found = recognise(source.rows, (shape.format,), shape.columns | given, source.places, ignored, skips=skips)
    except BadRows:
        raise
    except UnknownFormat as error:
        found = _in_own_words(loaded, source, shape, error)
    return replace(found, evidence=shape.evidence, carries=shape.carries, handed=shape.handed)


def _in_own_words(loaded: LoadedRecipe, source: SampledSource, shape: DataShape, error: UnknownFormat) -> DataShape:
    """The shape of rows of the format that call their columns otherwise than those that are learned."""
    data = loaded.recipe.data
    own, skips = source.given.columns or data.columns or {}, data.incomplete == SKIP
    try:
        return recognise(source.rows, (shape.format,), own, source.places, data.ignore or (), skips=skips)
    except BadRows:
        raise
    except UnknownFormat:
        raise error from None


def _unlike(loaded: LoadedRecipe, part: str, reasons: Mapping[str, UnknownFormat]) -> Diagnostic:
    (section, reason), *_ = reasons.items()
    labels = (Label(loaded.place("data", part), str(reason)), *_others(loaded, section))
    names = " and ".join(f"data.{name}" for name in reasons)
    title = f"the rows of data.{part} are not like those of {names}"
    return Diagnostic("E0305", title, labels, ("use the same format and columns in both",))


def _others(loaded: LoadedRecipe, section: str) -> Iterator[Label]:
    yield Label(loaded.place("data", section), "learned from")

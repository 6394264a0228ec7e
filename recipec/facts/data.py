"""What a recipe's data hold: the format and the columns of the rows that a stage learns from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from recipec.axes import CARRIED, COMMON_SECTION, KINDS, METHODS, ROW_FORMATS, SECTIONS, Method, earlier
from recipec.catalog.templates import Template
from recipec.dataset import NOTHING, DataShape, Row, fields_of, flag_columns, ratings, turns_of
from recipec.dataset.ratings import without_one
from recipec.diagnostics.model import Diagnostic, Report
from recipec.facts.cautions import cautions
from recipec.facts.classes import against_classes, undecided, unread_answers
from recipec.facts.conversation_answers import answers_of_conversations, without_repeated_answers
from recipec.facts.conversations import (
    REASONING,
    answered_prompts,
    carries,
    conversation_facts,
    read_columns,
    read_fields,
    think,
)
from recipec.facts.converting import with_converted
from recipec.facts.fact import known
from recipec.facts.ids_asked import ids_as_prompts
from recipec.facts.incomplete import incomplete_fact
from recipec.facts.judged_pairs import judged_otherwise, judges
from recipec.facts.labels import label_facts
from recipec.facts.left_out import equal_answers, many_repeated, opposite_answers, unanswered, without_left_out
from recipec.facts.ordering import against_order, every_hardness_column, hardness_columns
from recipec.facts.pair_answers import PairAnswers, answers_of_pairs, pair_answers
from recipec.facts.placeholders import placeholder_answers
from recipec.facts.rated_pairs import rated_otherwise
from recipec.facts.rated_rows import unread_ratings
from recipec.facts.rehearsal import RehearsedRows, rehearsed
from recipec.facts.reward_types import mixed_types
from recipec.facts.seen_answers import SeenAnswers, seen_answers
from recipec.facts.shapes import shape_of_all, shaped
from recipec.facts.short_values import shortest_values
from recipec.facts.sizes import Weighted, assumed_sizes, mean_up_to, rounded, rows_there, sizes
from recipec.facts.sources import SampledSource, rows_of, sources_of
from recipec.facts.spellings import spelled_in_several_ways
from recipec.facts.splitting import against_split
from recipec.facts.spoken_tags import spoken_tags
from recipec.facts.stated_rows import against_stated
from recipec.facts.talks import as_answers, as_raw_text, of_messages, of_trees
from recipec.facts.template_marks import other_tags, template_marks
from recipec.facts.turn_order import against_turns
from recipec.facts.unlearned import nothing_learned, unlearned
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

Handed = Callable[[Sequence[str] | None], tuple[str, ...]]  # columns that rows hold -> those that rewards are handed


class HeldOut(Struct, frozen=True):
    """The files of data.eval, data.test or data.general."""

    shapes: tuple[DataShape, ...]  # of each source
    unread: tuple[str, ...]  # what their rows hold, and nothing reads
    answers: float = 1.0  # learned ones of a row, on average


class DataFacts(Struct, frozen=True):
    """One section of the data, as a stage will use it."""

    shape: DataShape  # what the rows of all sources become, and what any of them carries
    shapes: tuple[DataShape, ...]  # of each source
    columns: tuple[str, ...]  # that hold a value in every sampled row; none where nothing could be looked at
    some_columns: tuple[str, ...]  # those of any sampled row
    gaps: Mapping[str, str]  # of those, the ones that not every sampled row has a value for -> in which it is missing
    flags: tuple[str, ...]  # those that hold true or false, or 1 or 0, in every sampled row
    fields: tuple[str, ...]  # those of any message
    unread: tuple[str, ...]  # columns and fields of messages that hold something, and that nothing reads
    seen: bool  # whether rows of every source were looked at
    whole: bool  # whether every row was
    decisions: Mapping[str, Decision]
    sampled: int = 0  # rows that were read
    rows: int | None = None  # those of all sources; None where one is not read at compile time
    counted: bool = False  # whether that number is exact
    ratings: tuple[str, ...] = ()  # columns that call some answers good and others bad, and that nothing reads
    unrated: tuple[str, ...] = ()  # those of them that rate some rows alone
    lengths: Weighted = ()  # of the sampled rows, and for how many each stands; none where they decide nothing
    length_read: float = 1.0  # how long is what the trainer reads of a row, where every answer is one, on average
    answers: Mapping[str, str] = field(default_factory=dict)  # what nothing reads -> how a model learns to answer so
    pair_answers: PairAnswers = PairAnswers()  # what is kept of the answers of pairs
    thinking: bool = False  # whether a sampled answer has a thought, which the recipe may leave out
    shortest: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # column of rewards -> a value, and its row
    seen_answers: SeenAnswers = SeenAnswers()  # what a chat template may not write of them
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)  # part -> its files, for this section
    assumed: tuple[Mapping[str, int], ...] = ()  # of each source: "examples" and "tokens_per_example" that are assumed

    @property
    def all_unread(self) -> tuple[str, ...]:
        """What nothing reads, of the rows that are learned from and of those that stand for them."""
        return tuple(dict.fromkeys((*self.unread, *(name for part in self.held_out.values() for name in part.unread))))

    @property
    def formats(self) -> tuple[str, ...]:
        """Those of the sources, each once."""
        return tuple(dict.fromkeys(shape.format for shape in self.shapes))


def data_facts(
    loaded: LoadedRecipe,
    section: str,
    template: Template | None,
    handed: Handed,
    report: Report,
    elsewhere: Collection[str] = (),
    context: int | None = None,
) -> DataFacts | None:
    """Look at the sources of a section of [data]; None with a diagnostic when they cannot be used.

    `template` is what is known of the chat template of the training; `handed` tells which columns reward functions are
    handed; `elsewhere` has the columns of the same rows that another stage reads, or reports; `context` is how many
    tokens the model can attend to.
    """
    looked = sources_of(loaded, section, report)
    for finding in (*of_trees(loaded, section, looked or ()), *of_messages(loaded, section, looked or ())):
        report.add(finding)
        looked = None
    found = None if looked is None else shaped(loaded, section, looked, report)
    if found is None:
        return None
    beside = _beside(loaded, found)
    whole = [replace(source, shape=_whole_shape(loaded, source, handed(beside))) for source in found]
    sources = with_converted(loaded, section, whole, report)
    if sources is None:
        return None
    shape = shape_of_all(sources)
    format = known("data_format", shape.format, shape.evidence + answered_prompts(sources), origin="data")
    measured, lengths = sizes(loaded, section, sources, template, context)
    rehearsal = rehearsed(sources)
    facts = without_repeated_answers(without_left_out(measured, rehearsal), sources, loaded.recipe.data)
    facts += [replace(format, key="data.format"), *unlearned(sources, loaded.recipe.data)]
    facts += [incomplete_fact(loaded, sources), *label_facts(loaded, section, rehearsal, report)]
    facts += conversation_facts(loaded, section, sources, shape, report)
    for finding in _findings(loaded, section, rehearsal, template):
        report.add(finding)
    columns, rows = _columns(sources), rows_of(sources)
    flags = tuple(flag_columns(rows, columns))
    seen = all(source.sample for source in sources)
    whole = all(source.sample and source.sample.whole for source in sources)
    told = {name for source in sources for name in (*undecided(loaded, source), *judges(loaded, source))}
    strange = tuple(name for name in unread(loaded, sources) if name not in (*elsewhere, *told))
    thinking = think(loaded, sources)
    facts += _beside_columns(loaded, shape, strange, thinking=thinking)
    decisions = {fact.id: fact for fact in facts}
    some = tuple(dict.fromkeys(name for row in rows for name in row))
    shapes = tuple(source.shape for source in sources)
    fields = tuple(
        dict.fromkeys(name for row in rows for value in row.values() for turn in turns_of(value) for name in turn)
    )
    samples = [source.sample for source in sources if source.sample]
    read = sum(len(source.looked_at) for source in sources)
    total = rows_there(sources), all(sample.counted for sample in samples)
    gaps = _gaps(sources, some)
    found = (shape, shapes, columns, some, gaps, flags, fields, strange, seen, whole, decisions, read, *total)
    of_answers = {"pair_answers": pair_answers(sources), "seen_answers": seen_answers(sources, loaded.recipe.data)}
    judged = _ratings(rows, strange) | {"answers": unread_answers(loaded, section, sources)}
    judged |= {"shortest": shortest_values(sources, shape.handed), "assumed": assumed_sizes(loaded, sources)}
    return DataFacts(*found, lengths=lengths, thinking=thinking, **of_answers, **judged)


def _ratings(rows: Sequence[Row], unread: Sequence[str]) -> dict[str, Any]:
    """The unread columns that rate answers, and those of them that rate some rows alone."""
    rated = tuple(ratings(rows, unread))
    return {"ratings": rated, "unrated": tuple(without_one(rows, rated))}


def _findings(
    loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows, template: Template | None
) -> Iterator[Diagnostic]:
    """What is wrong with rows that can be read, and what a user may not know of them."""
    sources = rehearsal.sources
    yield from against_split(loaded, section, sources)
    yield from against_order(loaded, section, sources)
    yield from against_turns(loaded, section, sources, template)
    yield from spoken_tags(loaded, section, sources, template)
    yield from template_marks(loaded, section, sources, template)
    yield from other_tags(loaded, section, sources, template)
    yield from cautions(loaded, section, sources, template)
    yield from unanswered(loaded, section, rehearsal)
    yield from placeholder_answers(loaded, section, sources)
    yield from ids_as_prompts(loaded, section, sources)
    yield from nothing_learned(loaded, section, sources)
    yield from against_stated(loaded, section, sources)
    yield from equal_answers(loaded, section, rehearsal)
    yield from opposite_answers(loaded, section, rehearsal)
    yield from many_repeated(loaded, section, rehearsal)
    yield from rated_otherwise(loaded, section, sources)
    yield from judged_otherwise(loaded, section, sources)
    yield from as_raw_text(loaded, section, sources)
    yield from as_answers(loaded, section, sources)
    yield from against_classes(loaded, section, sources)
    yield from mixed_types(section, sources)
    ignored = loaded.recipe.data.ignore or ()
    yield from unread_ratings(section, sources, [name for name in unread(loaded, sources) if name not in ignored])
    yield from spelled_in_several_ways(loaded, section, sources)


def _beside(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> list[str] | None:
    """The columns of the rows that no format reads and the recipe does not pass over; None where none was sampled."""
    if not all(source.sample for source in sources):
        return None
    read = {*(loaded.recipe.data.ignore or ()), *(name for one in sources for name in one.shape.columns.values())}
    held = (name for row in rows_of(sources) for name, value in row.items() if value not in NOTHING)
    return [name for name in dict.fromkeys(held) if name not in read]


def _whole_shape(loaded: LoadedRecipe, source: SampledSource, handed: Sequence[str]) -> DataShape:
    """The shape with what rows have beside the columns of their format."""
    alone = not KINDS[ROW_FORMATS[source.shape.format].kind].taught
    return replace(source.shape, carries=carries(loaded, source), handed=tuple(handed) if alone else ())


def _beside_columns(
    loaded: LoadedRecipe, shape: DataShape, unread: Iterable[str], *, thinking: bool
) -> Iterator[Decision]:
    """What becomes of the rest of a row: what is read beside the columns of the format, and what is passed over."""
    held = [name for name in shape.carries if thinking or name != REASONING]
    means = "; ".join(CARRIED[name].means for name in held) or "nothing beside the columns of the format"
    yield known("carried", list(shape.carries), f"the rows hold {means}", origin="data")
    passed = sorted({*(loaded.recipe.data.ignore or ()), *unread})
    yield known("passed_over", passed, "named by data.ignore, or read by nothing in the sampled rows", origin="data")


def unread(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> tuple[str, ...]:
    """The columns and the fields of messages that hold something in the samples, and that nothing reads."""
    return tuple(dict.fromkeys(name for source in sources for name in _unread(loaded, source)))


def _unread(loaded: LoadedRecipe, source: SampledSource) -> Iterator[str]:
    columns = source.shape.columns.values()
    read = {*columns, *(loaded.value("data", "split") or {}).values(), *source.shape.handed}
    read |= read_columns(source.shape) | _hardness(loaded, source.part)
    held = (name for row in source.rows for name, value in row.items() if value not in NOTHING)
    yield from (name for name in held if name not in read)
    fields = (name for row in source.rows for column in columns for name in fields_of(row.get(column)))
    yield from (name for name in fields if name not in read_fields(source.shape))


def _hardness(loaded: LoadedRecipe, part: str) -> set[str]:
    """The columns that say how hard the rows of a part are: those held out may have the column of any section."""
    return {*hardness_columns(loaded, part).values()} if part in SECTIONS else every_hardness_column(loaded)


def marks_answers(loaded: LoadedRecipe, decisions: Mapping[str, Decision]) -> bool:
    """Whether the chat template of the training says which tokens of a conversation are the assistant's."""
    template = loaded.recipe.data.template or ("model" if decisions["has_template"].value else "plain")
    return template != "model" or bool(decisions["template_has_mask"].value)


def read_by(facts: DataFacts, method: Method, marked: bool) -> DataFacts:
    """The rows as the method's trainer reads them: where it reads single answers, every answer is a row.

    So it is with conversations whose template is not `marked` (`marks_answers`), and with those that ask for it.
    `data_rows` still counts the rows of the data: more answers in a conversation are more steps, not more data.
    """
    found = _answers_read_by(facts, method, marked)
    if not KINDS[ROW_FORMATS[facts.shape.format].kind].masked:
        return found
    inputs = {id: dict.fromkeys((*found.decisions[id].inputs, "data_rows", *_APART)) for id in _SIZES}
    sizes = {id: replace(found.decisions[id], inputs=(*inputs[id],)) for id in _SIZES}
    return replace(found, decisions={**found.decisions, **sizes})


_SIZES = ("examples", "source_rows", "tokens_per_example")
_APART = ("has_template", "template_has_mask", "answers_apart")  # what decides whether answers become rows


def read_up_to(facts: DataFacts, tokens: int) -> DataFacts:
    """The rows as the trainer reads them with another data.max_length; as they are where no lengths are known."""
    if not facts.lengths or not ROW_FORMATS[facts.shape.format].turns:
        return facts
    mean = facts.decisions["tokens_per_example"]
    read = rounded(facts.length_read * mean_up_to(facts.lengths, tokens))
    return replace(facts, decisions={**facts.decisions, mean.id: replace(mean, value=read)})


def _answers_read_by(facts: DataFacts, method: Method, marked: bool) -> DataFacts:
    row = ROW_FORMATS[facts.shape.format]
    together = marked and not facts.decisions["answers_apart"].value
    if row.kind in method.kinds and (together or not KINDS[row.kind].masked):
        return facts
    if not row.answers:
        decisions = {**facts.decisions, **answers_of_conversations(facts.decisions), **_parts_answered(facts)}
        return replace(facts, decisions=decisions, length_read=facts.decisions["answer_share"].value)
    decisions = {**facts.decisions, **answers_of_pairs(facts.decisions, facts.pair_answers), **_parts_answered(facts)}
    return replace(facts, decisions=decisions)


def _parts_answered(facts: DataFacts) -> dict[str, Decision]:
    """The rows of parts with files of their own, where every answer is a row; PART_data_rows are those of the files."""
    found = {}
    row = ROW_FORMATS[facts.shape.format]
    for part, held in facts.held_out.items():
        rows, answers = facts.decisions[f"{part}_rows"], row.answers or held.answers
        if rows.value and answers != 1:
            what = f"{row.name} rows" if row.answers else "conversations"
            because = f"{answers:g} answers in each of {rows.value:,} {what}; {rows.because}"
            found[rows.id] = replace(rows, value=rounded(answers * rows.value), because=because)
            found[f"{part}_data_rows"] = replace(rows, id=f"{part}_data_rows")
    return found


def train_format(data: Mapping[str, DataFacts]) -> Decision:
    """The format of data.train; None where there is no data.train."""
    train = data.get("train")
    if train is None:
        return Decision("data_format", None, "no data.train", origin="recipe")
    return train.decisions["data_format"]


def preference_format(data: Mapping[str, DataFacts]) -> Decision:
    """The format of the rows for methods with a section of their own: those in it, or in data.train.

    Methods that run before others are none of them: what their section holds decides nothing about the last stage.
    """
    first = earlier(METHODS.values())
    rows = [row for row in METHODS.values() if row.section != COMMON_SECTION and row not in first]
    for section in dict.fromkeys(name for row in rows for name in (row.section, COMMON_SECTION)):
        if section in data:
            held = data[section].decisions["data_format"]
            if any(held.value in row.formats for row in rows):
                return replace(held, id="preference_format")
    return Decision("preference_format", None, "no such rows", origin="recipe")


def _gaps(sources: Sequence[SampledSource], names: Iterable[str]) -> dict[str, str]:
    """The columns that some sampled rows have no value for, with the number of these rows and the first."""
    rows = [(place, row) for source in sources for place, row in zip(source.places, source.rows, strict=True)]
    lacking = {name: [place for place, row in rows if row.get(name) is None] for name in names}
    return {
        name: f"{len(places):,} of {len(rows):,} sampled rows, the first {places[0]}"
        for name, places in lacking.items()
        if places
    }


def _columns(sources: Sequence[SampledSource]) -> tuple[str, ...]:
    rows = rows_of(sources)
    return tuple(name for name in rows[0] if all(row.get(name) is not None for row in rows)) if rows else ()

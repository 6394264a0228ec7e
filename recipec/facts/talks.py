"""Conversations that rows hold in another way than as lists of messages: refused, with how to rewrite them (E0305)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from recipec.axes import KINDS, ROW_FORMATS
from recipec.axes.row_formats import MESSAGES, TEXT, TEXTS
from recipec.axes.tasks import AUTO
from recipec.dataset import from_texts, rewritten, trees, written_out
from recipec.dataset.message_rows import grouped, message_rows
from recipec.dataset.talks_as_text import way_to_read, written_lists
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.hub_source import formats_taken
from recipec.facts.sources import SampledSource
from recipec.facts.splitting import named_columns
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import either

_PARENT = "parent_id"  # the field of a message that names the one which it answers
_ALONE = {TEXT.roles[0].name}  # roles of columns that say nothing of who speaks
_MOST = 0.5  # of the sampled rows: from there on they are taken for conversations; our decision


def of_trees(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0305 for rows that are messages of trees, or trees, unless the recipe says what is read of them."""
    for source in sources:
        if not source.rows or _stated(loaded, source) or _PARENT in (loaded.recipe.data.ignore or ()):
            continue
        if ways := tuple(trees(source.rows, source.places[0], named_columns(loaded))):
            said = "one message, which names the one that it answers" if _PARENT in source.rows[0] else "a whole tree"
            label = Label(
                source.place, f"a row is {said}; training reads conversations, or prompts with an answer each"
            )
            yield Diagnostic("E0305", f"the rows of data.{section} are trees of messages", (label,), ways)


def of_messages(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0305 for rows that are single messages of conversations, where stages could learn the answers alone."""
    if not _learns_talks(loaded, section):
        return
    for source in sources:
        named = {**(loaded.recipe.data.columns or {}), **(source.given.columns or {})}
        found = None if _stated(loaded, source) or named.keys() - _ALONE else message_rows(source.rows)
        if found:
            said = f"a row is one message: rows with the same `{found.talk}` are a conversation, in which "
            said += f"`{found.speaker}` names who says `{found.text}`"
            whole = (
                f'to learn each message by itself, with no question before it: `format = "{TEXT.name}"` under [data]'
            )
            help = (*grouped(source.rows, source.places[0], found, named_columns(loaded)), whole)
            title = f"the rows of data.{section} are single messages of conversations"
            yield Diagnostic("E0305", title, (Label(source.place, said),), help)


def _learns_talks(loaded: LoadedRecipe, section: str) -> bool:
    return any(KINDS[ROW_FORMATS[name].kind].masked for name in formats_taken(loaded, section))


def as_raw_text(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0305 where texts are conversations, and the stages that read them could learn the answers alone."""
    if not _learns_talks(loaded, section):
        return
    for source in sources:
        if source.shape.format == TEXT.name and not _stated(loaded, source):
            yield from _written_out(section, source)


def as_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0305 where columns that may hold messages hold lists of them as text, which would be learned as it is.

    So would the objects of traced runs, of which the question and the answer are a text each.
    """
    for source in sources:
        if not _stated(loaded, source) and (ways := _taken_out(loaded, source)):
            yield _as_objects(section, source, ways)
            continue
        format = ROW_FORMATS[source.shape.format]
        talks = [name for role, name in source.shape.columns.items() if {TEXTS, MESSAGES} <= {*format.role(role).holds}]
        found = {name: [bool(way_to_read(row.get(name))) for row in source.rows] for name in talks}
        if not _stated(loaded, source) and (texts := {name: of for name, of in found.items() if _many(of)}):
            yield _as_answers(section, source, texts)


def _taken_out(loaded: LoadedRecipe, source: SampledSource) -> list[str]:
    """The commands that take questions and answers out of the JSON which their columns hold as texts."""
    names = _asked_and_answered(source)
    if not names or not source.rows:
        return []
    renamed = {**(loaded.recipe.data.columns or {}), **(source.given.columns or {})}
    roles = [role for role, name in renamed.items() if name in names]
    columns = f", and remove {either(roles, '`', 'and')} from `columns`" if roles else ""
    return [line + columns for line in from_texts(source.rows, source.places[0], names, named_columns(loaded))]


def _asked_and_answered(source: SampledSource) -> tuple[str, str] | None:
    """The columns of the question and of the answer; None of rows that are read in another way."""
    format = ROW_FORMATS[source.shape.format]
    found = {format.role(role).becomes: name for role, name in source.shape.columns.items()}
    two = len(source.shape.columns) == 2 and found.keys() == {"prompt", "completion"}
    return (found["prompt"], found["completion"]) if two else None


def _as_objects(section: str, source: SampledSource, ways: Sequence[str]) -> Diagnostic:
    named = either(_asked_and_answered(source) or (), "`", "and")
    said = f"{named} hold objects or messages as text in most sampled rows: their braces and quotes would be learned"
    whole = f'to learn the braces and quotes as they stand: `format = "{source.shape.format}"` under [data]'
    title = f"rows of data.{section} can be read in two ways"
    return Diagnostic("E0305", title, (Label(source.place, said),), (*ways, whole))


def _many(found: Sequence[bool]) -> bool:
    return any(found) and sum(found) >= _MOST * len(found)


def _as_answers(section: str, source: SampledSource, texts: Mapping[str, Sequence[bool]]) -> Diagnostic:
    found = next(iter(texts.values()))
    named = " and ".join(f"`{name}`" for name in texts)
    first = source.places[found.index(True)]
    said = f"{named} hold" + "s" * (len(texts) == 1)
    said += f" lists of messages as text in {sum(found)} of {len(found)} sampled rows, the first {first}"
    whole = f'to learn the brackets and quotes as they stand: `format = "{source.shape.format}"` under [data]'
    help = (*written_lists(source.rows, source.places[0], [*texts]), whole)
    return Diagnostic("E0305", f"rows of data.{section} can be read in two ways", (Label(source.place, said),), help)


def _stated(loaded: LoadedRecipe, source: SampledSource) -> bool:
    return loaded.recipe.data.format not in (None, AUTO) or source.given.format not in (None, AUTO)


def _written_out(section: str, source: SampledSource) -> Iterator[Diagnostic]:
    column = source.shape.columns[TEXT.roles[0].name]
    placed = zip(source.places, source.rows, strict=True)
    found = [place for place, row in placed if written_out(str(row.get(column)))]
    if not found or len(found) < _MOST * len(source.rows):
        return
    said = f"`{column}` holds a conversation in {len(found)} of {len(source.rows)} sampled rows, the first {found[0]}"
    whole = f'to learn the questions, too, and all as it stands: `format = "{TEXT.name}"` under [data]'
    help = (*rewritten(column, source.rows, _file(source)), whole)
    note = "as raw text every token is learned, and no chat template is used; of conversations only the answers are"
    title = f"rows of data.{section} can be read in two ways"
    yield Diagnostic("E0305", title, (Label(source.place, said),), help, (note,))


def _file(source: SampledSource) -> str:
    """The file of the first sampled row."""
    return re.sub(r":\d+$|, row \d+$", "", source.places[0]) if source.places else ""

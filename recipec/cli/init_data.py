"""What `recipec init` sees in the rows of data files: their format, what some of them lack, and ratings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from recipec.dataset.sample import Sample

_MOST_LISTED = 5  # things that rows lack
# Words in names of columns with which a reward compares an answer, rather than answers somebody gave.
_RIGHT = ("solution", "target", "correct", "right", "gold", "truth", "reference", "expected", "final")


class SeenRows(Struct, frozen=True):
    """What the rows show; no format where their kind of file cannot be looked at."""

    format: str
    evidence: str
    labeled: str = ""  # the command with which a label of each answer is learned; "" where there is none
    refusals: str = ""  # the command with which refusals are answers; "" where there are none
    incomplete: str = ""  # how many of them lack what the format needs, and what; "" where none does
    columns: str = ""  # the value of data.columns with which a class, or what stands beside a text, is the answer
    ratings: str = ""  # the lines that have ratings of answers learned; "" where there are none
    flag: str = ""  # the column that rates answers, with which the rows are those of another format
    answered: tuple[str, ...] = ()  # the lines that read answers beside prompts in columns of other names


def look(pattern: str, named: Mapping[str, str] = MappingProxyType({})) -> SeenRows:
    """What the rows show that a path or glob names, in the columns that are `named` and the usual ones.

    Rows that cannot be used, but have a format, are left to `recipec check`, which tells all of them. Raises
    Unreadable, UnknownFormat, OSError or ValueError.
    """
    if is_data_set(pattern):
        return SeenRows("", "recipec reads no data set of the Hub")
    sample = _sampled(pattern)
    return _seen(sample, named) if sample else SeenRows("", "install pyarrow to let recipec read Parquet files")


def reads_all(pattern: str, named: Mapping[str, str]) -> bool:
    """Whether all rows can be used in the columns that are `named`, and none is a conversation as one text."""
    from recipec.dataset import UnknownFormat, recognise, transcripts

    sample = _sampled(pattern)
    try:
        shape = recognise(sample.rows, None, named, sample.places, skips=True) if sample else None
    except UnknownFormat:
        return False
    return bool(sample and shape and not [*transcripts(sample.rows)])


def advice_for(task: str, pattern: str) -> list[str]:
    """The lines that name columns for a format of the task; none without a task."""
    from recipec.axes import ROW_FORMATS, formats_of, methods_of
    from recipec.dataset import suggested_columns

    sample, formats = _sampled(pattern), formats_of(methods_of(task))
    return [*suggested_columns(sample.rows, [*map(ROW_FORMATS.__getitem__, formats)], {})] if sample and formats else []


def _sampled(pattern: str) -> Sample | None:
    from recipec.dataset import by_kind, files_of, globs_in, read_sample

    files = []
    for path in paths_in(pattern):
        found = files_of(path, Path())
        if not found and (globs := globs_in(path, Path())):
            kinds = (kind if isinstance(kind, str) else json.dumps(kind) for kind in by_kind(globs, Path()))
            raise ValueError(f"a folder; name its files: {' or '.join(kinds)}")
        if not found:
            raise ValueError(f"no file `{path}`{_in_folder(path)}")
        files += found
    return read_sample(files, pattern, Path())


def paths_in(data: str) -> list[str]:
    """The paths and globs of a list, as TOML and JSON write it; else the text is a single one."""
    try:
        paths = json.loads(data) if data.startswith("[") else None
    except ValueError:
        return [data]
    return paths if isinstance(paths, list) and paths and all(isinstance(path, str) for path in paths) else [data]


def is_data_set(name: str) -> bool:
    """Whether a data set of the Hub is meant: what may be one, and begins with the name of no folder."""
    from recipec.dataset import files_of, globs_in, may_be_on_hub

    if not may_be_on_hub(name) or files_of(name, Path()):
        return False
    return globs_in(name.partition("/")[0], Path()) is None


def _in_folder(name: str) -> str:
    """What is in the folder that a name begins with, where it may be that of a data set too; else ""."""
    from recipec.dataset import globs_in, may_be_on_hub

    folder = name.partition("/")[0]
    if not may_be_on_hub(name) or (globs := globs_in(folder, Path())) is None:
        return ""
    held = f"the folder `{folder}` has {' and '.join(globs) or 'no data files'}"
    return f'; {held}; for a data set of the Hub, write a recipe with `train = {{ hub = "{name}" }}`'


def _seen(sample: Sample, named: Mapping[str, str]) -> SeenRows:
    from recipec.axes import ROW_FORMATS
    from recipec.axes.row_formats import PROMPT_COMPLETION, PROMPTS, TEXT
    from recipec.dataset import BadRows, UnknownFormat, from_published, misnamed, recognise
    from recipec.dataset.classes import answer_columns, columns_for, text_and_answer, text_and_class
    from recipec.dataset.commands import to_free_name
    from recipec.dataset.contents import lacking
    from recipec.dataset.labeled import as_learned, labeled_answers
    from recipec.dataset.message_rows import grouped, message_rows
    from recipec.dataset.ratings import goals_with_flag, learning_from, learning_from_labels, ratings, without_one
    from recipec.dataset.refusals import refusals_learned

    lines = tuple(from_published(sample.rows, sample.places, [*ROW_FORMATS.values()]))
    if wrong := next(misnamed(sample.rows, named), ""):
        raise UnknownFormat(wrong)
    if not named and (messages := message_rows(sample.rows)):
        said = f"{sample.places[0]} is one message of a conversation: training reads conversations"
        raise UnknownFormat(said, tuple(grouped(sample.rows, sample.places[0], messages)))
    try:
        shape = recognise(sample.rows, None, named, sample.places, skips=True)
    except BadRows as error:
        shape = error.shape
    except UnknownFormat as error:
        raise UnknownFormat(str(error), lines or error.help or _rewritten(sample)) from error
    if lines and ROW_FORMATS[shape.format] == PROMPTS:
        raise UnknownFormat(f"{sample.places[0]} has answers to its prompt, which no format reads", lines)
    format, evidence, columns, read = shape.format, shape.evidence, "", shape.columns
    of_class, answered = text_and_class(sample.rows), text_and_answer(sample.rows)
    if ROW_FORMATS[format] == TEXT and not named and (found := of_class or answered):
        format, columns, read = PROMPT_COMPLETION.name, columns_for(*found), answer_columns(*found)
        evidence = f"`{found[1]}` {'is the class of' if of_class else 'answers'} `{found[0]}`"
    lacks = [lacking(row, ROW_FORMATS[format], read) for row in sample.rows]
    beside = {name for row in sample.rows for name in row} - {*shape.columns.values()}
    labels = learning_from_labels(shape, sample.rows, sample.places[0], sorted(beside))
    rating = ratings(sample.rows, sorted(beside))
    rewritten = map(as_learned, labeled_answers(sample.rows, sample.places[0], rating))
    unrated = without_one(sample.rows, rating)
    rated = next(chain(labels, learning_from(shape, rating, unrated), rewritten), "")
    refusals = next(refusals_learned(sample.rows, sample.places[0], [*shape.columns.values()]), "")
    labeled = "" if "label" in shape.columns else next(labeled_answers(sample.rows, sample.places[0]), "")
    answered = () if named else _answered(format, sample)
    flag = rating[0] if rating and any(goals_with_flag(shape)) else ""
    labeled, refusals, rated = (to_free_name(line, Path()) for line in (labeled, refusals, rated))
    return SeenRows(format, evidence, labeled, refusals, _told(lacks), columns, rated, flag, answered)


def _rewritten(sample: Sample) -> tuple[str, ...]:
    """What makes rows with a format of those whose columns say nothing: the first way that there is."""
    from recipec.axes import ROW_FORMATS
    from recipec.dataset import in_one_object, last_answer_apart
    from recipec.dataset.rewriting import conversations
    from recipec.dataset.side_by_side import texts_within

    rows, places, formats = sample.rows, sample.places, [*ROW_FORMATS.values()]
    ways = (
        in_one_object(rows, places),
        conversations(rows, places, [*rows[0]]),
        texts_within(rows, places, formats),
        last_answer_apart(rows, places, formats),
    )
    return next((found for way in ways if (found := tuple(way))), ())


def _answered(format: str, sample: Sample) -> tuple[str, ...]:
    """The lines that read more of rows with prompts than the prompts: answers, whose columns have other names."""
    from recipec.axes.row_formats import PREFERENCE, PROMPT_COMPLETION, PROMPTS, UNPAIRED_PREFERENCE
    from recipec.dataset import suggested_columns
    from recipec.dataset.column_names import speaks

    if format != PROMPTS.name:
        return ()
    given = [{name: value for name, value in row.items() if not speaks(name, _RIGHT)} for row in sample.rows]
    return tuple(suggested_columns(given, (PREFERENCE, UNPAIRED_PREFERENCE, PROMPT_COMPLETION), {}, unread=False))


def _told(lacks: Sequence[str]) -> str:
    """How many rows are incomplete; "" where all are, as nothing would be left of them."""
    found = Counter(filter(None, lacks))
    if not found or found.total() == len(lacks):
        return ""
    listed = ", ".join(f"{lack} in {count:,}" for lack, count in found.most_common(_MOST_LISTED))
    return f"{found.total():,} of {len(lacks):,} sampled rows: {listed}" + ", …" * (len(found) > _MOST_LISTED)

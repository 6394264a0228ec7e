"""How prepare_data.py reads rows: from which files, in which columns, and what rows carry beside those."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import Struct

from recipec.axes import CARRIED, KINDS, ROW_FORMATS
from recipec.axes.row_formats import EITHER, FROM_VALUE, IDS, MESSAGES, TEXTS
from recipec.backends.job import Job, StageJob
from recipec.dataset import (
    MAX_DEPTH,
    OF_RESULTS,
    SPEAKERS,
    TEXT_ENDINGS,
    TOOL_SPEAKERS,
    DataShape,
    reaches_down,
    written_in,
)
from recipec.facts.converting import KEEP, SKIP, WITHOUT
from recipec.facts.unread import ignored
from recipec.render.call import assigned
from recipec.render.environment import snippet
from recipec.render.traced import Raw

_COMMIT = re.compile("[0-9a-f]{40}")  # of a data set of the Hub: a branch or a tag may move
# Ending of a data file -> the function that reads it.
_READERS = {
    ".jsonl": "json_lines",
    ".json": "json_rows",
    ".csv": "csv_records",
    ".parquet": "parquet_rows",
    **dict.fromkeys(TEXT_ENDINGS, "text_file"),
}


def reading(job: Job) -> dict[str, Any]:
    """Where rows come from."""
    sources = sources_of(job)
    accepted = job.loaded.recipe.data.ignore or []
    endings, strips = endings_of(job), bool(accepted) and _strips(job)
    readers = [_reader(job, ending, strips=strips) for ending in _with_parts(endings)]
    return {
        "reads_hub": any(source.hub for source in sources),
        "accepted": listed("IGNORED", accepted) if accepted else None,
        "strips": strips,
        "streams": any(source.hub and source.take for source in sources),
        "takes": any(source.path and source.take for source in sources),
        "asks_commits": asks_commits(job),
        "made_from": Raw(_made_from(job)),
        "reaches_down": any(source.path and reaches_down(source.path) for source in sources),
        "reads_csv": ".csv" in endings,
        "reads_parquet": ".parquet" in endings,
        "readers": readers,
        "given_root": Raw("root, " * bool(readers)),
        "takes_root": Raw("root: Path, " * bool(readers)),
        "rows_in_file": Raw(_rows_in_file(endings)),
        "by_ending": _by_ending(endings) if len({_READERS[ending] for ending in endings}) > 1 else None,
        **_columns(job),
    }


def asks_commits(job: Job) -> bool:
    """Whether the Hub is asked which commit of a data set is read: the recipe does not pin all of them."""
    return any(source.hub and not _COMMIT.fullmatch(source.revision or "") for source in sources_of(job))


def _made_from(job: Job) -> str:
    """What tells, beside the script itself, that data are those of the last time."""
    files = "[*map(file_digest, files)], " * any(source.path for source in sources_of(job))
    return files + "commits, " * asks_commits(job)


def endings_of(job: Job) -> list[str]:
    """The endings that data files of the recipe may have."""
    paths = [source.path for source in sources_of(job) if source.path]
    return [ending for ending in _READERS if any(_may_be(path, ending) for path in paths)]


def _strips(job: Job) -> bool:
    """Whether typed columns are read without those that the recipe ignores: no rows may need them."""
    read = {name for way in ways_to_write(job.stages) for name in way.shape.columns.values()}
    return read.isdisjoint(job.loaded.recipe.data.ignore or ())


def _rows_in_file(endings: Sequence[str]) -> str:
    functions = {_READERS[ending] for ending in endings}
    return f"{functions.pop() if len(functions) == 1 else 'READERS[file.suffix]'}(file, shown)"


def _with_parts(endings: Sequence[str]) -> list[str]:
    """An ending for each function that is needed: a file named .json may hold lines."""
    needed = [ending for ending in _READERS if ending in endings or (ending == ".jsonl" and ".json" in endings)]
    return [*{_READERS[ending]: ending for ending in reversed(needed)}.values()][::-1]


def _by_ending(endings: Sequence[str]) -> Raw:
    return assigned("READERS", {ending: Raw(_READERS[ending]) for ending in endings})


def _columns(job: Job) -> dict[str, Any]:
    """The columns that are read: of all rows alike, or of each way to write them."""
    ways = ways_to_write(job.stages)
    if len(ways) > 1:
        read = {way.name: [*dict.fromkeys(_read_columns(job, way))] for way in ways}
        return {"columns": assigned("COLUMNS", read), "columns_by_way": True}
    return {"columns": listed("COLUMNS", _read_columns(job, ways[0])), "columns_by_way": False}


def _read_columns(job: Job, way: Way) -> list[str]:
    split = split_column(job)
    takes = [carry for carry in way.stage.shape.carries if carry in ROW_FORMATS[way.shape.format].carries]
    carried = {name for carry in takes for name in CARRIED[carry].columns}
    read = {*way.shape.columns.values(), *way.shape.handed, *carried, *filter(None, (split, way.stage.hardness_column))}
    return [*sorted(read | _answers(way.stage)), *_ignored(way.stage)]


def _answers(stage: StageJob) -> set[str]:
    """The columns of pairs whose prompts the stage answers itself; another stage learns the answers that they have."""
    pairs = stage.job.facts.data.get(stage.job.loaded.pairs_asked(stage.section))
    return set(pairs.shape.columns.values()) if pairs else set()


class Way(Struct, frozen=True):
    """One way to write rows, of which the same may be passed over; a converter reads it."""

    name: str  # of the converter, in CONVERTERS
    stage: StageJob
    shape: DataShape


def ways_to_write(stages: Sequence[StageJob]) -> list[Way]:
    """Every way in which the sources of the stages are written: named by its format, and by a number beside others."""
    found: dict[Any, Way] = {}
    for stage in stages:
        for shape in stage.shapes:
            others = [way.shape.format for way in found.values()]
            number = others.count(shape.format) + 1
            name = shape.format if number == 1 else f"{shape.format}-{number}"
            found.setdefault(_written(stage, shape), Way(name, stage, shape))
    return list(found.values())


def _written(stage: StageJob, shape: DataShape) -> tuple[Hashable, ...]:
    """What the conversion of a row depends on."""
    return (stage.format.kind, shape.written, *_ignored(stage))


def way_of(stage: StageJob, shape: DataShape) -> str:
    """The name of the converter that reads a source."""
    ways, written = ways_to_write(stage.job.stages), _written(stage, shape)
    return next(way.name for way in ways if _written(way.stage, way.shape) == written)


def mixes_formats(job: Job) -> bool:
    """Whether the sources of a stage are written in several ways, so that each names its own."""
    return any(len({shape.written for shape in stage.shapes}) > 1 for stage in job.stages)


def _ignored(stage: StageJob) -> list[str]:
    """What may be passed over of the rows of a stage."""
    return ignored(stage.job.loaded, stage.job.facts.data[stage.section])


def listed(constant: str, names: Sequence[str]) -> Raw:
    """A list of names, each once, as a constant of the script."""
    return assigned(constant, [*dict.fromkeys(names)])


def sources_of(job: Job) -> list[Any]:
    """Every source of rows that the bundle reads."""
    return [source for part in map(_sources_of_task, job.apart) for source in part]


def _sources_of_task(job: Job) -> list[Any]:
    data = job.loaded.recipe.data
    parts = (*(getattr(data, section) for section in job.facts.data), data.eval, data.test, data.general)
    return [source for part in parts for source in part or []]


def from_files(job: Job, part: str) -> bool:
    """Whether the recipe names files for eval, test or general rows."""
    return any(getattr(one.loaded.recipe.data, part) is not None for one in job.apart)


def split_column(job: Job) -> str | None:
    """The column that the recipe splits the rows by."""
    split = job.loaded.recipe.data.split
    return (split and (split.time or split.group or split.stratify)) or None


def split_columns(job: Job) -> dict[str, str]:
    """The columns that prepare_data.py splits rows by, and their types: a time, and the date that it was read from."""
    if split_column(job) is None:
        return {}
    by_time = bool(job.loaded.recipe.data.split and job.loaded.recipe.data.split.time)
    return {"split_by": "float64", "split_date": "string"} if by_time else {"split_by": "binary"}


def _may_be(path: str, ending: str) -> bool:
    """Whether a path names files of that ending, or is a glob that does not say which it names."""
    suffix = Path(path).suffix
    return suffix in (ending, "") or "*" in suffix


def _reader(job: Job, ending: str, *, strips: bool) -> Any:
    kind = TEXT_ENDINGS[0] if ending in TEXT_ENDINGS else ending
    context = {"strips": strips, "empty_is_missing": job.loaded.recipe.data.incomplete == SKIP}
    text = snippet(f"data/readers/{kind.removeprefix('.')}.py.j2", context, ())
    return SimpleNamespace(function=Raw(_READERS[ending]), text=text)


def carries(stages: Sequence[StageJob]) -> list[str]:
    """What the rows of the bundle carry beside the columns of their formats."""
    return [name for name in CARRIED if any(name in stage.shape.carries for stage in stages)]


def marks_learned(stages: Sequence[StageJob]) -> bool:
    """Whether messages say on the way which of them are learned."""
    ways = ways_to_write(stages)
    return "weight" in carries(stages) or any(joins(way) and way.shape.content != TEXTS for way in ways)


def joins(way: Way) -> bool:
    """Whether the rows become those of another kind, beside which they stand."""
    return KINDS[ROW_FORMATS[way.shape.format].kind].joins == way.stage.format.kind


def mixes_fields(stages: Sequence[StageJob]) -> bool:
    """Whether messages differ in their fields on the way, so that no column of one type holds them."""
    return marks_learned(stages) or any(stage.mixes_fields for stage in stages)


def contents(stages: Sequence[StageJob]) -> dict[str, Any]:
    """What the columns of the rows hold, which decides how they are checked."""
    ways = ways_to_write(stages)
    held = {way.shape.content for way in ways}
    return {
        "reads_strings": TEXTS in held,
        "reads_messages": not held.isdisjoint({MESSAGES, EITHER}),
        "reads_either": EITHER in held,
        "reads_from_value": FROM_VALUE in held,
        "reads_answers": any(map(_repeats, ways)),
        "reads_shared": any(map(_shares_beginning, ways)),
        "reads_conversations": any(map(_converses, ways)),
        **_openings(stages[0]),
        "weights": kept_fields(stages[0].job, "weight") if "weight" in carries(stages) else (),
        "ignored_fields": _ignored_fields(stages[0].job, carries(stages)),
        **_carrying(stages),
        **_reading_fields(stages),
    }


def _openings(stage: StageJob) -> dict[str, Any]:
    """What becomes of answers before the first question."""
    said = stage.job.loaded.recipe.data.opening_answers
    return {
        "refuses_openings": stage.because(said is None, "opening_answers"),
        "skips_openings": stage.because(said == SKIP, "opening_answers"),
    }


def _reading_fields(stages: Sequence[StageJob]) -> dict[str, Any]:
    """The fields of messages that are read: of all rows alike, or of each way to write them."""
    fields, by_way = _fields(stages), fields_by_way(stages)
    alike = next(iter(fields.values()), [])
    tools = [*CARRIED["tools"].fields]
    return {
        "message_fields": assigned("FIELDS", fields) if by_way else listed("FIELDS", alike),
        "tools_by_way": by_way and "tools" in carries(stages) and not all(tools[0] in own for own in fields.values()),
        "fields": Raw("fields" if by_way else "FIELDS"),
        "spoken_by": Raw("speaker" if len({own[0] for own in fields.values()}) > 1 else '"from"'),
        "also_fields": Raw(", fields" if by_way else ""),
        "typed_fields": Raw(", fields: list[str]" if by_way else ""),
    }


def fields_by_way(stages: Sequence[StageJob]) -> bool:
    """Whether what is read of messages depends on how the rows are written."""
    return len({tuple(fields) for fields in _fields(stages).values()}) > 1


def _fields(stages: Sequence[StageJob]) -> dict[str, list[str]]:
    """The name of a way -> the fields of its messages: who speaks, what is said, and what they carry or may hold."""
    found = {}
    for way in ways_to_write(stages):
        if way.shape.content not in (TEXTS, IDS):
            takes = [carry for carry in way.stage.shape.carries if carry in ROW_FORMATS[way.shape.format].carries]
            carried = [name for carry in takes for name in CARRIED[carry].fields]
            found[way.name] = [*dict.fromkeys([*written_in(way.shape.content), *carried, *_ignored(way.stage)])]
    return found


def _converses(way: Way) -> bool:
    """Whether its rows are conversations, of which the answers are learned."""
    kind = KINDS[ROW_FORMATS[way.shape.format].kind]
    return kind.masked and kind.ends != way.stage.format.kind


def _repeats(way: Way) -> bool:
    """Whether an answer may repeat the prompt beside it: both are lists of messages."""
    return ROW_FORMATS[way.shape.format].wraps and way.shape.content != TEXTS and not way.shape.implicit_prompt


def _shares_beginning(way: Way) -> bool:
    """Whether answers may begin with the prompt that has no column."""
    implicit = ROW_FORMATS[way.shape.format].implicit
    return bool(implicit) and (way.shape.implicit_prompt or way.shape.content == EITHER)


def _ignored_fields(job: Job, carried: Sequence[str]) -> list[str]:
    """Fields of messages that would be read, and that the recipe ignores."""
    fields = {name for carry in carried for name in CARRIED[carry].fields}
    fields |= {*OF_RESULTS} if "tools" in carried else set()
    return [name for name in job.loaded.recipe.data.ignore or () if name in fields]


def kept_fields(job: Job, carry: str) -> tuple[str, ...]:
    """The fields that hold it, without those that the recipe ignores."""
    return tuple(name for name in CARRIED[carry].fields if name not in (job.loaded.recipe.data.ignore or ()))


def _kept(job: Job, carry: str) -> list[str]:
    """The columns that hold it, without those that the recipe ignores."""
    return [name for name in CARRIED[carry].columns if name not in (job.loaded.recipe.data.ignore or ())]


def _carrying(stages: Sequence[StageJob]) -> dict[str, Any]:
    """What rows carry, and what becomes of it."""
    held, system = carries(stages), stages[0].job.loaded.recipe.data.system
    tools, thoughts = "tools" in held, any(stage.keeps_thoughts for stage in stages)
    roles = ("system", "user", "assistant", *["tool"] * tools)
    asked = {_asked(stage) for stage in stages}
    return {
        "carries_tools": tools,
        "carries_parts": "parts" in held,
        "carries_system": "system" in held,
        "and_row": Raw(", row" if "system" in held else ""),  # where a column may hold the system prompt
        "keeps_thoughts": thoughts,
        "strips_thoughts": any(stage.value("reasoning") in WITHOUT for stage in stages),
        "proves_thoughts": any(stage.value("reasoning") in ("", KEEP) for stage in stages),
        "shows_thoughts": any(stage.format.turns and stage.value("reasoning") not in WITHOUT for stage in stages),
        "expects_thoughts": any(stage.value("reasoning") for stage in stages),
        "asks_for_reasoning": _asks_for_reasoning(stages),
        "thinks_not": any(stage.thinks_not for stage in stages),
        "mixes_fields": mixes_fields(stages),
        "thoughts": kept_fields(stages[0].job, "reasoning"),
        "system_columns": _kept(stages[0].job, "system"),
        "tool_columns": _kept(stages[0].job, "tools"),
        "system_prompt": stages[0].because(system or "", "data_format"),
        "instructs": bool(system) or "system" in held,
        "asked_column": asked.pop() if len(asked) == 1 else "",
        "roles": roles,
        "roles_named": Raw(f"{', '.join(roles[:-1])} or {roles[-1]}"),
        "speakers": assigned("SPEAKERS", _speakers(roles, ways_to_write(stages), tools)),
        "max_depth": MAX_DEPTH,
    }


def _asks_for_reasoning(stages: Sequence[StageJob]) -> bool:
    """Whether conversations must not have several answers with thoughts, as in the sampled rows (E0309)."""
    said = stages[0].job.loaded.recipe.data.reasoning
    return said is None and any(KINDS[stage.format.kind].masked for stage in stages)


def _speakers(roles: Sequence[str], ways: Sequence[Way], tools: bool) -> dict[str, Any]:
    """Who speaks, in the words of the rows -> in those of the chat template; of each field that says who, if two do."""
    found = SPEAKERS | (TOOL_SPEAKERS if tools else {})
    written = {written_in(way.shape.content)[0] for way in ways if way.shape.content not in (TEXTS, IDS)}
    return found if len(written) == 1 else {"role": {role: role for role in roles}, "from": found}


def _asked(stage: StageJob) -> str:
    """The column of a converted row that begins the conversation; "" for texts."""
    return next((name for name in ("messages", "prompt") if name in KINDS[stage.format.kind].columns), "")

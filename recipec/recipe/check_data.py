"""What the keys of [data] must be to each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from recipec.axes import COMMON_SECTION, METHODS, SECTIONS, earlier, methods_of, stages_of
from recipec.axes.row_formats import PROMPTS
from recipec.axes.tasks import AUTO, NO_ALIGNMENT
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.check_elastic import replays
from recipec.recipe.clashes import either
from recipec.recipe.document import Written
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.schema_data import COLUMNS, DATA_SOURCES, GENERAL

_SIDES = "the standard name is on the left, the name in your files on the right"
_HUB_ONLY = ("split", "subset", "revision")
_SPLITS = ("stratify", "group", "time")
_FRACTIONS = (("data", "eval_fraction"), ("data", "test_fraction"))


def missing_data(written: Written) -> Iterator[Diagnostic]:
    """Every task needs something to learn from: a section of its methods, or the one that every method can read."""
    if written.has("adapters"):
        return  # each of them names its own
    own = [row.section for row in methods_of(written.get("goal", "task"))]
    if not own and any(written.has("data", section) for section in SECTIONS):
        return  # the task is missing or wrong, so that nobody knows what its rows are
    if not all(written.lacks("data", section) for section in (COMMON_SECTION, *own)):
        return
    key = own[0] if own else COMMON_SECTION
    label = written.label(("data",), f"needs `{key}`")
    help = [f'for example {key} = "{SECTIONS[key].examples[0]}"', *_alone(written)]
    yield Diagnostic("E0201", f"missing key `{key}` in [data]", (label,), tuple(help))


def _alone(written: Written) -> Iterator[str]:
    """The tasks of stages that could run alone, of those that go before others: the recipe has their rows."""
    for row in earlier(methods_of(written.get("goal", "task"))):
        if row.section != COMMON_SECTION and written.has("data", row.section):
            yield f'or set `goal.task = "{row.task}"`: {row.title} alone, on `data.{row.section}`'


def nothing_to_run(written: Written) -> Iterator[Diagnostic]:
    """Rows for a preference stage teach nothing without one."""
    method, task = ("alignment", "method"), written.get("goal", "task")
    named = [row.alignment for row in methods_of(task) if row.alignment]
    held = [section for section in SECTIONS if written.has("data", section)]
    if not named or written.get(*method) != NO_ALIGNMENT or not held or not written.lacks("data", COMMON_SECTION):
        return
    labels = (written.label(method, "no preference stage"), written.label(("data", held[0]), "all the data there is"))
    title = f"`alignment.method = none` with data.{held[0]} only: no stage is left"
    able = [row for row in stages_of(task, NO_ALIGNMENT) if row.section == COMMON_SECTION]
    first = [f"add data.{COMMON_SECTION} for {row.title}" for row in able]
    yield Diagnostic("E0401", title, labels, (", or ".join([f"use method = {either(named)}", *first]),))


def bad_sources(written: Written) -> Iterator[Diagnostic]:
    """A source is either files or a data set of the Hub, and only the latter has splits and revisions."""
    for name in DATA_SOURCES:
        value = written.get("data", name)
        for index, source in enumerate(value if isinstance(value, list) else [value]):
            path = ("data", name, index) if isinstance(value, list) else ("data", name)
            if isinstance(source, dict):
                yield from _bad_source(written, path, source)


def _bad_source(written: Written, path: KeyPath, source: dict[str, Any]) -> Iterator[Diagnostic]:
    if "hub" in source and "path" in source:
        labels = (written.label((*path, "hub"), "either this"), written.label((*path, "path"), "or this"))
        title = f"`hub` and `path` exclude each other in `{dotted(path)}`"
        yield Diagnostic("E0401", title, labels, ("write them as two entries of a list",))
    elif "hub" not in source and "path" not in source:
        label = written.label(path, "needs `path` or `hub`")
        yield Diagnostic("E0201", f"missing key `path` in `{dotted(path)}`", (label,))
    for key in _HUB_ONLY:
        if key in source and "hub" not in source and "path" in source:
            labels = (
                written.label((*path, key), "only for data sets of the Hub"),
                written.label((*path, "path")),
            )
            yield Diagnostic("E0401", f"`{key}` does not apply to files", labels, (f"remove `{key}`, or use `hub`",))


def pointless_split(written: Written) -> Iterator[Diagnostic]:
    """`split` says how parts are drawn; where no part is drawn it would be ignored.

    Without a file and without a fraction, the rules draw a tenth (EVAL-001, EVAL-002). With two kinds of rows, a file
    is for the stage that it fits, and the other one draws.
    """
    drawn = [_is_drawn(written, part) for part in ("eval", "test")]
    several = sum(written.has("data", section) for section in SECTIONS) > 1
    if not written.has("data", "split") or any(drawn) or several:
        return
    keys = (*("eval", "test", "eval_fraction"), *SECTIONS)
    given = next((("data", key) for key in keys if written.has("data", key)), ("data",))
    labels = (written.label(("data", "split"), "nothing is split off"), written.label(given, "no share is drawn"))
    help = ("remove split, or a file of held-out rows, or give eval_fraction or test_fraction",)
    yield Diagnostic("E0401", "`data.split` without a share to split off", labels, help)


def _is_drawn(written: Written, part: str) -> bool:
    if written.is_meant("data", f"{part}_fraction"):
        return True
    share = written.get("data", f"{part}_fraction")
    return bool(share) if share is not None else not written.has("data", part)


# Keys of a source -> why it has none of them where its rows are held out.
_OF_LEARNED = {
    "weight": "each row is read once",
    "examples": "held-out rows are counted where the files are read",
    "tokens_per_example": "held-out rows are taken to be as long as those that are learned",
}


def weighed_for_nothing(written: Written) -> Iterator[Diagnostic]:
    """How often rows are learned, how many and how long they are, is said of those that are learned alone."""
    for part in ("eval", "test", GENERAL):
        given = written.get("data", part)
        listed = isinstance(given, list)
        keys = ("weight",) if part == GENERAL and replays(written) else _OF_LEARNED
        for index, source in enumerate(given if listed else [given]):
            for key in keys if isinstance(source, dict) else ():
                if key in source:
                    place = ("data", part, index, key) if listed else ("data", part, key)
                    label = written.label(place, _OF_LEARNED[key])
                    title = f"`{key}` has no effect in data.{part}"
                    yield Diagnostic("E0401", title, (label,), ("remove it",))


def listed_twice(written: Written) -> Iterator[Diagnostic]:
    """A source that is named again brings the same rows: preparation drops them, and plans would count them."""
    for part in DATA_SOURCES:
        given = written.get("data", part)
        seen: dict[str, int] = {}
        for index, source in enumerate(given if isinstance(given, list) else []):
            told = {"path": source} if isinstance(source, str) else source
            name = json.dumps({**told, "weight": None} if isinstance(told, dict) else told, sort_keys=True, default=str)
            if name in seen:
                labels = (
                    written.label(("data", part, index), "named again"),
                    written.label(("data", part, seen[name]), "named here"),
                )
                title = f"a source of data.{part} is named twice"
                help = ("remove one of them; `weight` says how often its rows are learned",)
                yield Diagnostic("E0401", title, labels, help)
            seen.setdefault(name, index)


def counted_twice(written: Written) -> Iterator[Diagnostic]:
    """The rows of a section are stated in sum, or by each source: no sum says what is left for the other sources."""
    for part in SECTIONS if written.has("data", "examples") else ():
        given = written.get("data", part)
        sources = given if isinstance(given, list) else []
        own = [index for index, source in enumerate(sources) if isinstance(source, dict) and "examples" in source]
        if 0 < len(own) < len(sources):
            labels = (
                written.label(("data", part, own[0], "examples"), "rows of one source"),
                written.label(("data", "examples"), "rows of all sources"),
            )
            title = f"`data.examples` and `examples` of a source of data.{part} contradict each other"
            help = (
                "remove `examples` of the sources, if `data.examples` counts the rows of all of them",
                f"or remove `data.examples`, and give each source of data.{part} that is not read here its `examples`",
            )
            yield Diagnostic("E0401", title, labels, help)


def ignored_though_read(written: Written) -> Iterator[Diagnostic]:
    """A column that rows are split or ordered by is read: Parquet files and the Hub lose what is ignored."""
    paths = [("data", "split", key) for key in _SPLITS]
    paths += [("train", *method, "curriculum", "column") for method in ((), *((name,) for name in METHODS))]
    yield from _ignored_too(written, paths)


def _ignored_too(written: Written, paths: Iterable[KeyPath]) -> Iterator[Diagnostic]:
    """The keys whose value is a column that is ignored, too."""
    ignored = written.get("data", "ignore")
    for path in paths if isinstance(ignored, list) else ():
        if (name := written.get(*path)) in ignored:
            index = ignored.index(name)
            labels = (written.label(path, "it is read"), written.label(("data", "ignore", index), "it is left out"))
            title = f"`data.ignore` names `{name}`, which `{dotted(path)}` reads"
            yield Diagnostic("E0401", title, labels, (f'remove "{name}" from `data.ignore`',))


def fractions_too_large(written: Written) -> Iterator[Diagnostic]:
    """Something must be left to train on."""
    shares = [written.get(*path) for path in _FRACTIONS]
    if all(isinstance(share, int | float) for share in shares) and sum(shares) >= 1:
        labels = tuple(written.label(path) for path in _FRACTIONS)
        title = f"`eval_fraction` and `test_fraction` add up to {sum(shares):g}: nothing is left to train on"
        yield Diagnostic("E0401", title, labels, ("make their sum smaller than 1",))


def bad_columns(written: Written) -> Iterator[Diagnostic]:
    """`columns` maps the conventional columns of the format, each to a column of its own that is not ignored."""
    yield from _bad_columns(written, ("data",))
    for name in DATA_SOURCES:
        value = written.get("data", name)
        listed = isinstance(value, list)
        for index, source in enumerate(value if listed else [value]):
            if isinstance(source, dict):
                yield from _bad_columns(written, ("data", name, index) if listed else ("data", name))


def _bad_columns(written: Written, table: KeyPath) -> Iterator[Diagnostic]:
    columns = written.get(*table, "columns")
    if not isinstance(columns, dict):
        return
    format = written.get(*table, "format") or AUTO
    known = COLUMNS.get(format) or tuple(dict.fromkeys(n for names in COLUMNS.values() for n in names))
    for name in columns:
        if name not in known:
            yield _unknown_column(written, table, name, known, format)
    yield from _shared_columns(written, table, columns)
    yield from _ignored_too(written, ((*table, "columns", name) for name in columns))


def _unknown_column(written: Written, table: KeyPath, name: str, known: tuple[str, ...], format: str) -> Diagnostic:
    listed, place = ", ".join(f"`{column}`" for column in known), (*table, "columns", name)
    if format == AUTO:
        label, title = written.label(place, "no format has this column"), dotted((*table, "columns"))
        return Diagnostic("E0203", f"unknown column `{name}` in [{title}]", (label,), (f"the columns are {listed}",))
    labels = (
        written.label(place, "not a column of this format"),
        written.label((*table, "format"), f"has {listed}"),
    )
    help = (*_without(written.get(*table, "columns"), known, format), _SIDES)
    return Diagnostic("E0401", f"format `{format}` has no column `{name}`", labels, help)


def _without(columns: dict[str, str], known: tuple[str, ...], format: str) -> Iterator[str]:
    """The line without the columns that the format does not have."""
    left = {role: name for role, name in columns.items() if role in known}
    pairs = ", ".join(f"{role} = {json.dumps(name, ensure_ascii=False)}" for role, name in left.items())
    yield from [f"write `columns = {{ {pairs} }}`"] * bool(left)
    if format == PROMPTS.name:
        yield "a reward function reads other columns of the rows by the names that they have there"


def _shared_columns(written: Written, table: KeyPath, columns: dict[str, str]) -> Iterator[Diagnostic]:
    first: dict[str, str] = {}
    for name, source in columns.items():
        if source in first:
            paths = ((*table, "columns", name), (*table, "columns", first[source]))
            labels = (written.label(paths[0], "second use of the column"), written.label(paths[1], "used here"))
            yield Diagnostic("E0401", f"column `{source}` of the data is used twice", labels)
        first.setdefault(source, name)

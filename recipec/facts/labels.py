"""How many of the kept rows with a label are labeled true, from a bounded sample; both labels must occur."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import FLAG_TEXTS, FLAGS, USUAL_FLAGS
from recipec.dataset.backwards import NAMED_LABEL, as_labels, is_backwards
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.fact import known
from recipec.facts.rehearsal import RehearsedRow, RehearsedRows
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

MEANING = "label_meaning"  # which label is that of a good answer
NOT_SEEN = "no label can be looked at when the recipe is compiled"


def label_facts(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows, report: Report) -> Iterator[Decision]:
    """Yield label_meaning and true_share for a format with labels.

    Reports E0304 where all rows have one label, W0511 where those of a sample have, E0401 where it is true of bad ones.
    """
    sources = rehearsal.sources
    if not any(map(_label, sources)):
        return
    yield _meaning(sources)
    for finding in _backwards(loaded, sources):
        report.add(finding)
    samples = [source.sample for source in sources if source.sample]
    if len(samples) < len(sources):
        yield known("true_share", None, NOT_SEEN, origin="default")
        return
    rows = labeled_rows(rehearsal)
    count, share = len(rows), share_true(rows)
    which = " that preparation keeps" * (count < len(rehearsal.converted))
    if 0 < share < 1:
        yield known("true_share", round(share, 3), f"the labels of {count:,} sampled rows{which}", origin="data")
        return
    label, whole = str(share == 1).lower(), all(sample.total_rows == len(sample.rows) for sample in samples)
    report.add(_one_kind(loaded, section, _label(sources[0]), label, f"{count:,} rows{which}", whole))
    yield known("true_share", None, f"all {count:,} sampled rows{which} are labeled {label}", origin="data")


def _backwards(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0401 for labels that are true of bad answers by the names of their columns."""
    for source in (source for source in sources if is_backwards(source.rows, _label(source))):
        name, named = _label(source), loaded.is_set("data", "columns", "label")
        good, bad = FLAG_TEXTS[source.shape.flags]
        label = Label(
            loaded.place("data", "columns", "label") if named else source.place,
            f"its name says that {good} is a bad answer, and a label that is {good} is a good one",
        )
        command = next(as_labels(source.rows, source.places[0], [name]), "")
        help = (
            command + NAMED_LABEL,
            f"if {good} does mark good answers and {bad} bad ones: rename the column",
        )
        title = f"`{name}` as the label would train the model on bad answers as good ones"
        yield Diagnostic("E0401", title, (label,), help if command else help[1:])


def _meaning(sources: Sequence[SampledSource]) -> Decision:
    """Which label is that of a good answer: of every source that writes it in a way of its own."""
    labeled = (source for source in sources if _label(source))
    meant = dict.fromkeys(f"`{_label(source)}`: {_said(source.shape.flags)}" for source in labeled)
    seen = any(source.rows for source in sources)
    because = "how the sampled rows write their labels" if seen else NOT_SEEN
    return known(MEANING, "; ".join(meant), because, origin="data" if seen else "default")


def _said(flags: str) -> str:
    """What the two labels of a pair mean; of rows that nobody has seen, those of both usual pairs."""
    pairs = [FLAG_TEXTS[name] for name in ([flags] if flags else USUAL_FLAGS)]
    good, bad = (" or ".join(texts) for texts in zip(*pairs, strict=True))
    return f"{good} is a good answer, {bad} a bad one"


def _label(source: SampledSource) -> str:
    """The column of the label; "" where the rows have none."""
    roles = ROW_FORMATS[source.shape.format].roles
    return next((source.shape.columns[role.name] for role in roles if role.holds == FLAGS), "")


def labeled_rows(rehearsal: RehearsedRows) -> list[RehearsedRow]:
    """The sampled rows whose labels count: those that preparation keeps; all where it keeps none."""
    return rehearsal.kept or rehearsal.converted


def share_true(rows: Sequence[RehearsedRow]) -> float:
    """The share of the labels that are true; every source counts by its rows, as often as they are drawn."""
    true = (_stands_for(row.source) for row in rows if row.made[row.kind.flag])
    return fsum(true) / fsum(_stands_for(row.source) for row in rows)


def _stands_for(source: SampledSource) -> float:
    """For how many rows a sampled one stands."""
    return source.weight * (source.sample.total_rows or 1) / len(source.rows)


def _one_kind(loaded: LoadedRecipe, section: str, column: str, label: str, rows: str, whole: bool) -> Diagnostic:
    other = "false" if label == "true" else "true"
    place = loaded.place("data", section)
    if whole:
        found = Label(place, f"`{column}` is {label} in all {rows}")
        help = (f"add rows whose `{column}` is {other}",)
        return Diagnostic("E0304", f"every row of data.{section} is labeled {label}", (found,), help)
    found = Label(place, f"`{column}` is {label} in the first {rows}")
    help = ("shuffle the file, so that its first rows show both labels",)
    note = "what depends on the share of the labels is decided without it; prepare_data.py counts all rows"
    return Diagnostic("W0511", f"the sample of data.{section} has one label only", (found,), help, (note,))

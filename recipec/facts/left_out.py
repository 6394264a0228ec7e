"""What is said of sampled rows that preparation leaves out because of other rows, or of their own two answers.

What is said of rows that teach nothing stands in unanswered.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.rehearsal import CONTRADICTORY, DUPLICATE, EQUAL, RehearsedRows, judged
from recipec.facts.row_counts import FEWEST_COUNTED
from recipec.facts.sources import all_read, states_counts
from recipec.recipe import LoadedRecipe

# Recipec's choice: a few duplicates occur in most data, and rows for a first try are often one row several times.
MOST_UNTOLD = 0.1  # of the sampled rows


def left_out(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows) -> Iterator[Diagnostic]:
    """Yield what is wrong with rows that prefer nothing or repeat others.

    Pairs whose two answers are the same (W0550), rows that prefer, or label, the opposite of what others do (W0552),
    and exact duplicates that are more than a tenth of the sampled rows (W0553).
    """
    known = all_read(rehearsal.sources) or states_counts(loaded, rehearsal.sources)
    yield from _equal(loaded, section, rehearsal)
    yield from _contradictory(loaded, section, rehearsal, known=known)
    yield from _repeated(loaded, section, rehearsal, known=known)


def _equal(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows) -> Iterator[Diagnostic]:
    if found := rehearsal.lost(EQUAL):
        pairs = f"{len(found)} of {len(rehearsal.converted)} sampled pairs"
        title = f"{pairs} of data.{section} have the same answer on both sides"
        label = Label(loaded.place("data", section), f"the first is {found[0].place}")
        help = (
            'if they may be left out, write allow = ["W0550"] under [recipe]',
            "if they are many, look for what made both answers alike",
        )
        note = "prepare_data.py leaves out pairs that prefer nothing, and counts them as `equal`"
        yield Diagnostic("W0550", title, (label,), help, (note,))


def _contradictory(
    loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows, *, known: bool
) -> Iterator[Diagnostic]:
    if found := rehearsal.lost(CONTRADICTORY):
        common, preferred = judged(found[0])
        other = next(row for row in found if judged(row)[0] == common and judged(row)[1] != preferred)
        title = f"{len(found)} of {len(rehearsal.converted)} sampled rows of data.{section} contradict others"
        judging = f"{found[0].place} and {other.place} judge the same answers in opposite ways"
        help = (
            "keep the row of each two that is right, and remove the other",
            'if they may be left out, write allow = ["W0552"] under [recipe]',
        )
        notes = ["prepare_data.py leaves out all of them, and counts them as `contradictory`"]
        notes += ["the plan counts them as rows, as not all rows were read"] * (not known)
        yield Diagnostic("W0552", title, (Label(loaded.place("data", section), judging),), help, (*notes,))


def _repeated(loaded: LoadedRecipe, section: str, rehearsal: RehearsedRows, *, known: bool) -> Iterator[Diagnostic]:
    found, sampled = rehearsal.lost(DUPLICATE), len(rehearsal.converted)
    if len(found) >= FEWEST_COUNTED and len(found) > MOST_UNTOLD * sampled:
        title = f"{len(found)} of {sampled} sampled rows of data.{section} are exact duplicates of others"
        label = Label(loaded.place("data", section), f"the first is {found[0].place}")
        help = (
            "remove them; a source that is to count more takes `weight`",
            'if they may be left out, write allow = ["W0553"] under [recipe]',
        )
        counts = "" if known else "; the plan counts them, as not all rows were read"
        note = f"prepare_data.py keeps one row of each, and counts the others as `duplicates`{counts}"
        yield Diagnostic("W0553", title, (label,), help, (note,))

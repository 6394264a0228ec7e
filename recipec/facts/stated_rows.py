"""Numbers of rows that a recipe states, held against the files that it names (W0555)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from recipec.dataset import Sample
from recipec.dataset.commands import file_of
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.rehearsal import rehearsed
from recipec.facts.sources import SampledSource, all_read
from recipec.recipe import LoadedRecipe
from recipec.units import counted

# Recipec's choice: a tenth more or fewer rows change no decision that a rounded count would not change.
MOST_OFF = 0.1
# A number that is estimated from the first rows may be off by the factor between long rows and short ones.
MOST_OFF_ESTIMATED = 1.0
# Below all three, files show the format of rows that are on another machine, as those of `recipes/` do.
FEWEST_ROWS, FEWEST_FILES, FEWEST_BYTES = 100, 10, 2**20


def against_stated(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0555 where the files of data.SECTION have other numbers of rows than the recipe states."""
    for source in sources:
        if (said := source.given.examples) and _differs(min(said, _most(source)), [source]):
            yield _differing(f"`examples` of `{source.name}`", said, [source], (Label(source.place, f"{said:,} rows"),))
    said = loaded.recipe.data.examples
    if said and not any(source.given.examples for source in sources) and _differs(said, sources):
        labels = (
            Label(loaded.place("data", "examples"), f"{said:,} rows"),
            Label(loaded.place("data", section), _found(sources)),
        )
        yield _differing("`data.examples`", said, sources, labels)


def _most(source: SampledSource) -> float:
    return source.given.take or math.inf


def _differs(said: float, sources: Sequence[SampledSource]) -> bool:
    """Whether the files have clearly more or fewer rows, with those that preparation leaves out and without them."""
    samples = [source.sample for source in sources if source.sample]
    if len(samples) < len(sources) or _show_format(samples):
        return False
    off = 1 + (MOST_OFF if all(sample.counted for sample in samples) else MOST_OFF_ESTIMATED)
    most = sum(min(source.sample.total_rows, _most(source)) for source in sources if source.sample)
    least = len(rehearsed(sources).kept) if all_read(sources) else most
    return said > off * most or off * said < least


def _show_format(samples: Sequence[Sample]) -> bool:
    """Whether there is too little to be what is trained on: few rows, in few files that are small."""
    few_rows = sum(sample.total_rows for sample in samples) < FEWEST_ROWS
    few_files = len({file_of(place) for sample in samples for place in sample.places}) < FEWEST_FILES
    return few_rows and few_files and sum(sample.total_bytes for sample in samples) < FEWEST_BYTES


def _found(sources: Sequence[SampledSource]) -> str:
    """What the files have."""
    exact = all(source.sample and source.sample.counted for source in sources)
    rows = sum(min(source.sample.total_rows, _most(source)) for source in sources if source.sample)
    taken = any(source.sample and source.sample.total_rows > _most(source) for source in sources)
    of_files = "that are taken of the files" if taken else "in the files"
    return f"{'' if exact else 'about '}{counted(int(rows), 'row')} {of_files}"


def _differing(key: str, said: int, sources: Sequence[SampledSource], labels: tuple[Label, ...]) -> Diagnostic:
    help = (
        f"remove {key}, and recipec counts the rows",
        'if the rows to train on are on another machine, write allow = ["W0555"] under [recipe]',
    )
    note = f"times, costs, held-out shares and the steps between checkpoints are planned for {said:,} rows"
    return Diagnostic("W0555", f"{key} is {said:,}, and recipec finds {_found(sources)}", labels, help, (note,))

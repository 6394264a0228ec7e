"""Elastic weight consolidation: SFTTrainer with a penalty, in a file of the bundle.

No pinned library has it. The penalty's gradient is added by hand behind the backward pass of a step: autograd would
keep two more copies of all weights for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods import BACKENDS, OwnTrainer
from recipec.backends.parts import Part, lines
from recipec.recipe.schema_data import GENERAL
from recipec.render.call import Arg
from recipec.render.traced import Raw, Traced

_ROWS = f'rows["{GENERAL}"]'


def _names(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer's file has to know of its stage."""
    return {"several_ranks": stage.because(not stage.strategy.one_rank, "strategy")}


_TRAINER = OwnTrainer(
    module="elastic_weights",
    template="trl/elastic_weights.py.j2",
    names=_names,
    name="ElasticTrainer",
    library_order=True,
)


def trainer_of(stage: StageJob) -> OwnTrainer | None:
    """The trainer that the bundle brings for a stage; None where the library's runs."""
    return _TRAINER if stage.elastic else BACKENDS[stage.method.name].trainer


def splits(stage: StageJob) -> Traced:
    """The splits of the prepared rows that train.py reads."""
    names = ("train", "eval", GENERAL) if stage.elastic else ("train", "eval")
    return stage.because(names, *["ewc_strength"] * stage.elastic)


def elastic_part(stage: StageJob) -> Part:
    """The general rows, and how strongly weights are held that matter for them."""
    if not stage.elastic:
        return Part()
    rows = stage.ids("ewc_rows", f"has_{GENERAL}_file")
    some = Raw(f"{_ROWS}.shuffle(seed=config.seed).select(range(min(FISHER_ROWS, len({_ROWS}))))")
    told = "  # tell which weights matter, before step 1"
    return Part(
        constants=lines(stage.ids("ewc_rows"), f"FISHER_ROWS = {stage.value('ewc_rows')}{told}"),
        arguments=(Arg("general_dataset", some, rows), stage.arg("ewc_strength", "ewc_strength")),
    )

"""What methods share that train DPOTrainer with another loss, in a file of the bundle, and no reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer
from recipec.backends.parts import Part
from recipec.render.call import Arg


def unreferenced(module: str, name: str, *, per_token: bool) -> MethodBackend:
    """The back end of such a method; `per_token`: its loss compares means over tokens, and so does evaluate.py."""

    def measured(stage: StageJob) -> Mapping[str, Any]:
        return {"per_token": per_token}

    return MethodBackend(
        trainer=OwnTrainer(module=module, template=f"trl/{module}.py.j2", names=_sides, name=name),
        arguments=_arguments,
        takes_template=False,
        part=_part,
        taught="rows/taught/pairs.py.j2",
        measure=Measure(
            template="measures/likelier.py.j2",
            names=measured,
            by_row=False,
            metrics=("preference_accuracy", "chosen_loss"),
            imports=(),
            reads=("encode", "opening"),
        ),
    )


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield from stage.own_args()
    if stage.adapts.trains_all:
        yield Arg("precompute_ref_log_probs", True, stage.ids("adaptation"), "keeps no reference; there is none")


def _part(stage: StageJob) -> Part:
    return Part(arguments=tuple(stage.own_args(of_trainer=True)))


def _sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    return {
        "precomputes": stage.because(stage.adapts.trains_all, "adaptation"),
        "experts": stage.because(stage.routes, "model"),
    }

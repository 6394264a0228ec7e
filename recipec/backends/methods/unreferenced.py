"""What methods share that train DPOTrainer with another loss, in a file of the bundle, and no reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.axes.strategies import TORCH_FSDP
from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Gain, Measure, MethodBackend, OwnTrainer, no_files
from recipec.backends.models import from_hub
from recipec.backends.parts import Import, Part, lines
from recipec.render.call import Arg, render_call
from recipec.render.traced import Raw


def unreferenced(module: str, name: str, *, per_token: bool) -> MethodBackend:
    """The back end of such a method; `per_token`: its loss compares means over tokens, and so does evaluate.py."""

    def measured(stage: StageJob) -> Mapping[str, Any]:
        return {"per_token": per_token}

    return MethodBackend(
        trainer=OwnTrainer(module=module, template=f"trl/{module}.py.j2", names=_sides, name=name),
        arguments=_arguments,
        takes_template=False,
        part=_part,
        files=no_files,
        taught="rows/taught/pairs.py.j2",
        token_columns=("prompt_ids", "chosen_ids", "rejected_ids"),
        measure=Measure(
            template="measures/likelier.py.j2",
            names=measured,
            by_row=False,
            metrics=("preference_accuracy", "chosen_loss"),
            loss="chosen_loss",
            gain=Gain(metric="preference_accuracy", noise="0.1"),
            imports=(),
            reads=("encode", "opening"),
        ),
    )


# TRL 1.16 dpo_trainer.py: under FSDP, `precompute_ref_log_probs` loads the reference, too, and shards it as one unit.
_EMPTY_REFERENCE = """\
with torch.device("meta"):  # under FSDP, DPOTrainer loads a reference beside the model unless it is given one
    reference = AutoModelForCausalLM.from_config({config})"""


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield from stage.own_args()
    if _precomputes(stage):
        ids, note = stage.ids("adaptation", "strategy"), "keeps no reference; there is none"
        yield Arg("precompute_ref_log_probs", True, ids, note)


def _part(stage: StageJob) -> Part:
    own, ids = tuple(stage.own_args(of_trainer=True)), stage.ids("adaptation", "strategy")
    without = not stage.adapts.trains_all or _precomputes(stage)
    named = [Import("transformers", name, ids, left_out=without) for name in ("AutoConfig", "AutoModelForCausalLM")]
    if without:
        return Part(imports=tuple(named), arguments=own)
    config = render_call(from_hub(stage, "AutoConfig", Raw("MODEL")), indent=8)
    return Part(
        imports=(Import("torch", "", ids), *named),
        before_trainer=lines(ids, *_EMPTY_REFERENCE.format(config=config).splitlines()),
        arguments=(*own, Arg("ref_model", Raw("reference"), ids)),
        after_trainer=lines(ids, "trainer.ref_model = None"),
    )


def _precomputes(stage: StageJob) -> bool:
    """Whether DPOTrainer does without a reference when it is told that its log-probabilities are known."""
    return stage.adapts.trains_all and stage.strategy.engine != TORCH_FSDP


def _sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    return {
        "precomputes": stage.because(_precomputes(stage), "adaptation", "strategy"),
        "experts": stage.because(stage.routes, "model"),
    }

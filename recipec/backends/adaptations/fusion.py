"""Attention over frozen adapters of earlier stages: FusionConfig, a kind of adapter that the bundle brings to PEFT."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.backends.adaptations.configuration import configured
from recipec.backends.job import StageJob
from recipec.backends.models import in_bundle
from recipec.backends.parts import Import, Part, lines
from recipec.render.call import Arg
from recipec.render.traced import Raw, fragment

ADAPTERS = "ADAPTERS"  # the constant with the folders


def part(stage: StageJob) -> Part:
    """The mix that the trainer puts into the model, and the adapters that it mixes."""
    shape = stage.plan.work.lora
    assert shape is not None
    made = configured(
        stage,
        Arg("adapters", Raw(f"list({ADAPTERS})"), stage.ids("mixed_adapters")),
        Arg("target_modules", list(shape.behind), stage.ids("adapters_after", "model")),
        Arg("reduction_factor", stage.value("reduction_factor"), stage.ids("reduction_factor", "model")),
    )
    held, ids = _held(stage), stage.ids("mixed_adapters")
    loader = Import(stage.adapts.module, "load_adapters", ids)
    told = "  # frozen: only the attention over them is trained"
    loaded = lines(ids, f"load_adapters(trainer.model, {ADAPTERS}){told}")
    return replace(
        made,
        own_imports=(*made.own_imports, loader, *held.own_imports),
        constants=(_folders(stage),),
        after_trainer=(*made.after_trainer, *loaded, *held.after_trainer),
    )


def _held(stage: StageJob) -> Part:
    """What holds the value matrices near the identity; nothing where the recipe sets the penalty to 0."""
    strength, ids = stage.value("identity_penalty"), stage.ids("identity_penalty")
    if not strength:
        return Part()
    return Part(
        own_imports=(Import(stage.adapts.module, "HoldValues", ids),),
        after_trainer=lines(ids, f"trainer.add_callback(HoldValues(strength={strength!r}))"),
    )


def _folders(stage: StageJob) -> Raw:
    """The results of the stages before it, by task."""
    entries = [f'    "{mixed.name}": {in_bundle(mixed)},' for mixed in stage.mixed]
    return fragment("\n".join([f"{ADAPTERS} = {{", *entries, "}"]), stage.ids("mixed_adapters"))

"""Where a stage's model comes from, as code: the hub, a folder, the stage before, or random weights."""

from __future__ import annotations

from recipec.backends.arguments import weights_dtype
from recipec.backends.job import StageJob
from recipec.facts.model import is_path
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw, mark

RANDOM_MODEL_IMPORTS = ("AutoConfig", "AutoModelForCausalLM", "PreTrainedModel", "set_seed")
_SEEDED = "The seed makes them equal on every rank."
_SHARDED = "`config` has switched ZeRO-3 on: rank 0 makes each layer, and every rank keeps its shard."


def model_expression(stage: StageJob) -> Raw:
    """Where the stage's model comes from, as code."""
    start = stage.plan.stage.starts_from
    if start is not None:
        previous = stage.job.stages[stage.index - 1]
        folder = f'str(BUNDLE / "outputs" / "{start}"' + (' / "merged")' if previous.lora else ")")
        return mark(",".join((*stage.ids("model", "stage"), *previous.ids("adaptation"))), folder)
    return base_model(stage)


def starting_point(stage: StageJob) -> str:
    """Where the stage's model comes from, as people write it: a hub id, or a folder of the bundle."""
    start = stage.plan.stage.starts_from
    if start is None:
        return stage.job.facts.model.name
    return f"outputs/{start}" + "/merged" * stage.job.stages[stage.index - 1].lora


def base_model(stage: StageJob, root: str = "DATA_ROOT") -> Raw:
    """The recipe's model, as code: a hub id, or a folder below the data root, which `root` names."""
    from recipec.render.literals import py

    name = stage.job.facts.model.name
    if is_path(name) and not name.startswith("/"):
        return code(stage, f"str({root} / {py(name.removeprefix('./'))})", "model")
    return py(stage.traced("model", name))


def code(stage: StageJob, text: str, *ids: str) -> Raw:
    """Code chosen in Python, with the decisions that chose it."""
    return mark(",".join(stage.ids(*ids)), text)


def from_hub(stage: StageJob, loader: str, source: Raw) -> Call:
    """How `loader`, AutoTokenizer or AutoConfig, reads the recipe's model."""
    model = stage.job.loaded.recipe.model
    args = [Arg("", source, stage.ids("model"))]
    if model.revision:
        args.append(Arg("revision", model.revision, stage.ids("model")))
    if model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    return Call(f"{loader}.from_pretrained", args)


def random_model_names(stage: StageJob) -> dict[str, object]:
    """What train.py needs to make a model with random weights."""
    equal_by = _SHARDED if stage.plan.layout.strategy == "zero3" else _SEEDED
    return {
        "random_weights": stage.because(stage.method.random_weights, "stage"),
        "equal_by": stage.because(equal_by, "strategy"),
        "load_shape": from_hub(stage, "AutoConfig", Raw("MODEL")),
        "random_model": random_model(stage, weights_dtype(stage)),
    }


def random_model(stage: StageJob, dtype: str | Raw) -> Call:
    """The call that makes a model of `shape`, the configuration that was read before."""
    args = [
        Arg("", Raw("shape"), stage.ids("model")),
        Arg("dtype", dtype, stage.ids("adaptation", "precision", "strategy")),
        Arg("attn_implementation", stage.value("attention"), stage.ids("attention")),
    ]
    if stage.job.loaded.recipe.model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    return Call("AutoModelForCausalLM.from_config", args)

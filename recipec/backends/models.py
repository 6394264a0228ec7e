"""Where a stage's model and tokenizer come from, as code: the Hub, a folder, the stage before, or random weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from recipec.axes.attention import SDPA
from recipec.axes.models import TEACHER
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import Job, StageJob
from recipec.backends.parts import Import, Part, lines
from recipec.catalog.layer_parts import MXFP4
from recipec.catalog.model_types import MODEL_TYPES
from recipec.facts.model import is_path
from recipec.render.call import Arg, Call
from recipec.render.environment import snippet
from recipec.render.literals import py
from recipec.render.traced import Raw, mark

_KEEP_NAMES = """\
# checkpoints with the running model's parameter names: resuming looks for these and skips what it does not find
trainer.model.save_pretrained = partial(trainer.model.save_pretrained, save_original_format=False)"""
_UNQUANTIZED = "shape.quantization_config = None  # random weights are not stored as those of the checkpoint"
_SERVED = "trainer.model.to(torch.bfloat16)  # as it computed and is served; checkpoints keep the fp32 weights"
TEXT_PART = "text-part"  # the folder of the bundle that text_part.py writes
EXTENDED = "extended-model"  # the folder of the bundle that vocabulary.py writes
NEW_TOKENS = "new_tokens.txt"  # the file of the bundle that has them
RECORD = "taken_from.txt"  # the file of such a folder that says which model and revision it is of
MARKED_TEMPLATE = "marked_template.jinja"  # the file of the bundle that marks turns in the model's own template
_TOLD = """\
# TRL looks for the decoder below this name; the class has that of another one (transformers 5.23).
{}.base_model_prefix = "model\""""
_OWN_NAMES = "del trainer.model.save_pretrained  # the result with the names that other tools know"


def gated(job: Job) -> list[str]:
    """The models for which the Hub wants an accepted licence."""
    beside = (*job.facts.others.values(), *job.facts.rewards.models)
    models = (job.facts.model, *(other.model for other in beside))
    return [model.name for model in models if model.gated]


def unpinned(job: Job) -> Iterator[Any]:
    """The models of the Hub whose commit the recipe leaves open, and the key that pins it."""
    if not is_path(job.facts.model.name) and not job.loaded.recipe.model.revision:
        yield SimpleNamespace(model=job.stages[0].traced("model", job.facts.model.name), key=Raw("model.revision"))
    for stage in job.stages:
        for role in stage.method.named_models:
            if not is_path(stage.value(role)) and not stage.value(f"{role}_revision"):
                yield SimpleNamespace(model=stage.traced(role), key=Raw(f"alignment.{role}.revision"))
    for judge in job.facts.rewards.models:
        if not is_path(judge.model.name) and not judge.revision:
            yield SimpleNamespace(
                model=job.last.traced("rewards", judge.model.name), key=Raw("alignment.reward.revision")
            )


def model_expression(stage: StageJob) -> Raw:
    """Where the stage's model comes from, as code."""
    if folder := made_folder(stage):
        return code(stage, f'str(BUNDLE / "{folder}")', "model", *added_by(stage))
    if stage.start is None:
        return base_model(stage)
    return mark(
        ",".join((*stage.ids("model", "stage"), *stage.start.ids("adaptation"))), f"str({in_bundle(stage.start)})"
    )


def in_bundle(stage: StageJob) -> str:
    """The folder with the model that later stages load, as code."""
    return " / ".join(["BUNDLE", *(f'"{part}"' for part in stage.result.split("/"))])


def starting_point(stage: StageJob) -> str:
    """Where the stage's model comes from, as people write it: a hub id, or a folder of the bundle."""
    if stage.start is None:
        return made_folder(stage) or stage.job.facts.model.name
    return stage.start.result


def made_folder(stage: StageJob) -> str:
    """The folder that a script of the bundle makes of the recipe's model, where the stage begins with it; else "".

    The model with new tokens, or the language model that was taken out of a larger checkpoint.
    """
    facts = stage.job.facts
    if stage.plan.stage.starts_from is not None:
        return ""
    return EXTENDED if facts.new_tokens else TEXT_PART if facts.model.stored else ""


def added_by(stage: StageJob) -> tuple[str, ...]:
    """The decision that adds tokens, where there is one."""
    return ("new_tokens",) if stage.job.facts.new_tokens else ()


def taken_from(stage: StageJob) -> str:
    """The checkpoint that text_part.py reads, with its revision where the recipe has one."""
    revision = stage.job.loaded.recipe.model.revision
    return stage.job.facts.model.name + (f"@{revision}" if revision else "")


def pinned_revision(stage: StageJob) -> str | None:
    """The commit of the recipe, where the stage itself reads from the Hub."""
    reads = stage.plan.stage.starts_from is None and not made_folder(stage)
    return stage.job.loaded.recipe.model.revision if reads else None


def base_model(stage: StageJob) -> Raw:
    """The recipe's model, as code: a hub id, or a folder below DATA_ROOT."""
    return _where(stage, "model", stage.job.facts.model.name)


def other_models(stage: StageJob) -> list[Raw]:
    """The constants that say where the models beside the trained one come from: `TEACHER = "Qwen/Qwen3-32B"`."""
    roles = stage.method.named_models
    return [Raw(f"{role.upper()} = {_where(stage, role, stage.value(role))}") for role in roles]


def teacher_from_hub(stage: StageJob, loader: str) -> Call:
    """How `loader` reads the teacher; `other_models` has its constant."""
    args = [Arg("", Raw(TEACHER.upper()), stage.ids(TEACHER))]
    if revision := stage.value(f"{TEACHER}_revision"):
        args.append(Arg("revision", revision, stage.ids(f"{TEACHER}_revision")))
    return Call(f"{loader}.from_pretrained", args)


def below_root(stage: StageJob, decision: str, name: str) -> Raw:
    """A folder that the recipe names, as code."""
    return _where(stage, decision, name)


def _where(stage: StageJob, decision: str, name: str) -> Raw:
    if is_below_root(name):
        return code(stage, f"str({_below('DATA_ROOT', name)})", decision)
    return py(stage.traced(decision, name))


def _below(root: str, name: str) -> str:
    return f"{root} / {py(name.removeprefix('./'))}"


def code(stage: StageJob, text: str, *ids: str) -> Raw:
    """Code chosen in Python, with the decisions that chose it."""
    return mark(",".join(stage.ids(*ids)), text)


def weights_dtype(stage: StageJob) -> str:
    """The dtype that the weights are loaded in: fp32 where the optimizer updates them in place of a master copy."""
    masters = stage.strategy.keeps_master or not stage.adapts.trains_all
    return torch_dtype(stage.value("precision") if masters else "fp32")


def saved_in_bf16(stage: StageJob) -> bool:
    """Whether the result is rounded to the type that the steps computed in: full fine-tuning trains fp32 weights."""
    return stage.value("precision") == "bf16" and weights_dtype(stage) != torch_dtype("bf16")


def kept_in_fp32(stage: StageJob) -> bool:
    """Whether the result of full fine-tuning has another type than the steps computed in."""
    return stage.value("precision") == "fp16" and weights_dtype(stage) == torch_dtype("fp32")


def result_part(stage: StageJob) -> Part:
    """The result in the type that is served; checkpoints keep the fp32 weights that a resume needs."""
    if not saved_in_bf16(stage):
        return Part()
    ids = stage.ids("adaptation", "precision", "strategy")
    return Part(imports=(Import("torch", "", ids),), before_saving=lines(ids, _SERVED))


def from_hub(stage: StageJob, loader: str, source: Raw, *, whole: bool = False) -> Call:
    """How `loader`, AutoTokenizer or AutoConfig, reads what the stage begins with; `whole`: the Hub's checkpoint."""
    model = stage.job.loaded.recipe.model
    revision = model.revision if whole else pinned_revision(stage)
    args = [Arg("", source, stage.ids("model"))]
    if revision:
        args.append(Arg("revision", revision, stage.ids("model")))
    if model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    return Call(f"{loader}.from_pretrained", args)


def placed(stage: StageJob) -> list[Arg]:
    """Where evaluate.py loads a model to, before and after training; on a CPU wherever transformers does."""
    ids = stage.ids("prediction")
    if stage.on_cpu:
        return []
    if stage.plan.needs.evaluation.trained.whole:
        return [Arg("device_map", Raw('{"": PartialState().device}'), ids)]
    return [Arg("", Raw("**spread()"), ids)]


def ending(call: Call, stage: StageJob) -> Call:
    """The call that loads a tokenizer, with the end token to train with."""
    ids = stage.ids("eos_token")
    args = [replace(arg, decisions=(*arg.decisions, *ids)) for arg in call.args]
    if stage.eos_token:
        args.append(Arg("eos_token", stage.eos_token, ids))
    return Call(code(stage, call.target, "eos_token"), args)


def with_template(call: Call, stage: StageJob) -> Call:
    """The call that loads a tokenizer, with the bundle's chat template."""
    text = Raw('(BUNDLE / "chat_template.jinja").read_text(encoding="utf-8")')
    return replace(call, args=[*call.args, Arg("chat_template", text, stage.ids("template"))])


def has_template_file(stage: StageJob) -> bool:
    """Whether the bundle brings its own chat template for this stage."""
    return stage.value("template") not in ("model", "none")


def sets_template(stage: StageJob) -> bool:
    """Whether it gives its tokenizer the bundle's chat template, which the stage that it starts from has not."""
    return has_template_file(stage) and not (stage.start and has_template_file(stage.start))


def source_part(stage: StageJob) -> Part:
    """The constants that say where the model, and those that run beside it, come from; and where its decoder is."""
    root = Raw('DATA_ROOT = Path(os.environ.get("DATA_ROOT", ".")).resolve()')
    own = Raw(f"MODEL = {model_expression(stage)}")
    ids, silent = stage.ids("model"), MODEL_TYPES[stage.job.facts.model.architecture.model_type].causal_class
    told = _TOLD.format(silent).splitlines() if silent else ()
    return Part(
        imports=(Import("transformers", silent, ids),) if silent else (),
        constants=(*[root] * reads_data_root(stage), own, *other_models(stage)),
        before_trainer=(*lines(ids, *told), *folder_checks(stage, "MODEL")),
    )


def reads_data_root(stage: StageJob) -> bool:
    """Whether the stage begins with a folder of the user's, or runs one beside it."""
    beside = (*map(stage.value, stage.method.named_models), stage.init_from)
    return starts_below_root(stage) or any(map(is_below_root, beside))


def starts_below_root(stage: StageJob) -> bool:
    """Whether the model that the stage begins with is in a folder of the user's."""
    reads = stage.plan.stage.starts_from is None and not made_folder(stage)
    return reads and is_below_root(stage.job.facts.model.name)


def is_below_root(name: str) -> bool:
    """Whether a model is in a folder that its recipe names from its own; absolute paths need no root."""
    return is_path(name) and not Path(name).is_absolute()


def folder_checks(stage: StageJob, constant: str) -> tuple[Raw, ...]:
    """Lines that stop a script whose models are in folders that are not there; the libraries would ask the Hub."""
    beside = (line for role in stage.method.named_models for line in folder_check(stage, role, role.upper()))
    return (*start_checks(stage, constant), *beside)


def start_checks(stage: StageJob, constant: str) -> tuple[Raw, ...]:
    """The lines that look for the model that the stage begins with; the stage before has checked its own."""
    if made_folder(stage):
        return lines(stage.ids("model", *added_by(stage)), *_made_check(stage, constant))
    return () if stage.plan.stage.starts_from is not None else folder_check(stage, "model", constant)


def folder_check(stage: StageJob, decision: str, constant: str) -> tuple[Raw, ...]:
    """The lines that look for one folder that the recipe names; none for a model of the Hub."""
    name = stage.job.facts.model.name if decision == "model" else stage.value(decision)
    if not is_path(name):
        return ()
    return lines(stage.ids(decision), f"if not Path({constant}).is_dir():", f"    {no_model(constant, name)}")


def _made_check(stage: StageJob, constant: str) -> tuple[str, ...]:
    """Lines that stop where a script of the bundle has not made the folder, or has made it of another model."""
    origin = taken_from(stage)
    if stage.job.facts.new_tokens:
        return (
            f"wanted = {extended_from(stage)}",
            f'extended_from = Path({constant}) / "{RECORD}"',
            'if not extended_from.is_file() or extended_from.read_text(encoding="utf-8") != wanted:',
            f'    raise SystemExit(f"{{{constant}}} is not the model with {NEW_TOKENS}: run vocabulary.py first")',
        )
    return (
        f"wanted = {py(origin)}",
        f'taken_from = Path({constant}) / "{RECORD}"',
        'if not taken_from.is_file() or taken_from.read_text(encoding="utf-8") != wanted:',
        f'    raise SystemExit(f"{{{constant}}} is not taken from {{wanted}}: run text_part.py first")',
    )


def extended_from(stage: StageJob) -> str:
    """What the record of the model with new tokens holds, as code: the model, and the tokens."""
    return f'{py(taken_from(stage) + chr(10))} + (BUNDLE / "{NEW_TOKENS}").read_text(encoding="utf-8")'


def no_model(folder: str, name: str) -> str:
    """What a script does that finds no model in a folder; `name` is what the recipe calls it."""
    fix = " Set DATA_ROOT to the folder of the recipe." if is_below_root(name) else ""
    return f'raise SystemExit(f"No model in {{{folder}}}.{fix}")'


def base_folder(stage: StageJob, root: str) -> Raw:
    """The folder of the recipe's model, as code; `root` is where its path starts."""
    name = stage.job.facts.model.name
    return code(stage, _below(root, name) if is_below_root(name) else f"Path({py(name)})", "model")


def bundle_root(stage: StageJob) -> Raw:
    """The bundle's folder, seen from the stage's scripts."""
    return Raw("parents[2]" if stage.folder else "parent")


def names_part(stage: StageJob) -> Part:
    """Where a checkpoint of transformers would have other parameter names than the trainer loads it by.

    Under DDP and on one device Trainer 5.23 loads with `strict=False` and without the renaming of `from_pretrained`.
    """
    shape = stage.job.facts.model.architecture
    row = MODEL_TYPES[shape.model_type]
    renamed = row.renamed_on_save or (row.renamed_experts and shape.moe is not None)
    if not (renamed and stage.adapts.trains_all and stage.strategy.replicates):
        return Part()
    ids = stage.ids("model", "adaptation", "strategy")
    return Part(
        imports=(Import("functools", "partial", ids),),
        before_training=lines(ids, *_KEEP_NAMES.splitlines()),
        before_saving=lines(ids, _OWN_NAMES),
    )


def in_mxfp4(stage: StageJob) -> bool:
    """Whether the recipe's model has its experts in 4 bits."""
    experts = stage.job.facts.model.architecture.moe
    return experts is not None and experts.stored == MXFP4


def as_trained(stage: StageJob) -> tuple[Raw, ...]:
    """The line that takes out of `shape`, a configuration, how the checkpoint stores weights: these are random."""
    return lines(stage.ids("model"), _UNQUANTIZED) if in_mxfp4(stage) else ()


def random_weights_part(stage: StageJob) -> Part:
    """A model with the architecture of the recipe's and random weights, in place of its weights."""
    if not stage.method.random_weights:
        return Part()
    ids, auto = stage.ids("stage"), stage.method.auto_class
    names = {
        "config_class": Raw(stage.method.config),
        "equal_by": stage.because(stage.engine.equal_start(stage.strategy), "strategy"),
        "load_shape": from_hub(stage, "AutoConfig", Raw("MODEL")),
        "as_trained": as_trained(stage),
        "random_model": random_model(stage, weights_dtype(stage), stage.value("attention")),
    }
    imported = ("AutoConfig", auto, "PreTrainedModel", "set_seed")
    return Part(
        imports=tuple(Import("transformers", name, ids) for name in imported),
        functions=(snippet("trl/random_model.py.j2", names, ids),),
    )


def padded_attention(stage: StageJob) -> str:
    """What computes attention in evaluate.py, whose batches are padded."""
    attends = stage.plan.layout.attends
    return attends.name if attends.takes_padding else SDPA


def random_model(stage: StageJob, dtype: str | Raw, attention: str) -> Call:
    """The call that makes a model of `shape`, the configuration that was read before."""
    args = [
        Arg("", Raw("shape"), stage.ids("model")),
        Arg("dtype", dtype, stage.ids("adaptation", "precision", "strategy")),
        Arg("attn_implementation", attention, stage.ids("attention")),
    ]
    if stage.job.loaded.recipe.model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    return Call(f"{stage.method.auto_class}.from_config", args)

"""Files beside train.py that only some stages have: a trainer, a kind of adapter, an order of the rows, an
implementation of attention."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.backends.adaptations.packed import MODULE as PACKED
from recipec.backends.adaptations.packed import packed_artifacts
from recipec.backends.dispatch import MODULE
from recipec.backends.elastic import trainer_of
from recipec.backends.job import Job, StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.parts import Import, Part, lines
from recipec.render.artifact import Artifact

_LENGTHS = "similar_lengths"  # the order of the rows
_KERNEL = "packed_attention"  # an implementation of attention that transformers has not
_EIGHT_BITS = "fp8_layers"  # products in FP8
_OWN_ORDER = "trainer._get_train_sampler = partial(SimilarLengths, trainer)  # transformers' own changes after a resume"
_REGISTER = "register_varlen"
LOOP_MODULES = ("batches", "checkpoints", "settings")  # of a train.py that has its steps itself


def companion_artifacts(stage: StageJob) -> Iterator[Artifact]:
    """Those of one stage."""
    if own := trainer_of(stage):
        yield Artifact(f"{stage.folder}{own.module}.py", stage.ids("stage"), own.template, own.names(stage))
    yield from BACKENDS[stage.method.name].files(stage)
    if module := stage.adapts.module:
        yield Artifact(f"{stage.folder}{module}.py", stage.ids("adaptation"), f"trl/{module}.py.j2", {})
    yield from packed_artifacts(stage)
    if stage.groups_by_length:
        decided = stage.ids("stage", "sampling")
        mixes = stage.because(stage.plan.layout.accumulation > 1, "gradient_accumulation")
        yield Artifact(f"{stage.folder}{_LENGTHS}.py", decided, f"trl/{_LENGTHS}.py.j2", {"mixes": mixes})
    if stage.fp8:
        yield Artifact(f"{stage.folder}{_EIGHT_BITS}.py", stage.ids("fp8"), f"trl/{_EIGHT_BITS}.py.j2", {})
    if stage.plan.layout.attends.brought:
        yield Artifact(f"{stage.folder}{_KERNEL}.py", stage.ids("attention"), f"trl/{_KERNEL}.py.j2", {})


def own_modules(job: Job) -> list[str]:
    """The bundle's own modules that others of its files import."""
    trainers = map(trainer_of, job.stages)
    orders = {_LENGTHS for stage in job.stages if stage.groups_by_length and not stage.loop.own}
    kernels = {_KERNEL for stage in job.stages if stage.plan.layout.attends.brought}
    brought = {_module(stage, file) for stage in job.stages for file in BACKENDS[stage.method.name].files(stage)}
    kernels |= {_EIGHT_BITS for stage in job.stages if stage.fp8}
    kernels |= {PACKED for stage in job.stages if stage.plan.layout.shares_packed}
    adapters = {stage.adapts.module for stage in job.stages if stage.adapts.module}
    modules = {*orders, *kernels, *brought, *adapters, *(trainer.module for trainer in trainers if trainer)}
    modules |= {name for stage in job.stages if stage.loop.own for name in LOOP_MODULES}
    modules |= {MODULE for stage in job.stages if stage.dispatches}
    added = {"vocabulary"} if job.facts.new_tokens else set()
    return sorted({"preflight", "rows", *modules, *added})


def _module(stage: StageJob, file: Artifact) -> str:
    """By which the scripts of its stage import a file, or the folder that it is in."""
    return file.path.removeprefix(stage.folder).partition("/")[0].removesuffix(".py")


def attention_part(stage: StageJob) -> Part:
    """The implementation of attention that the bundle brings, known to transformers before a model asks for it."""
    if not stage.plan.layout.attends.brought:
        return Part()
    ids = stage.ids("attention")
    return Part(own_imports=(Import(_KERNEL, _REGISTER, ids),), before_trainer=lines(ids, f"{_REGISTER}()"))


def fp8_part(stage: StageJob) -> Part:
    """What lets linear layers multiply in FP8, before the model is wrapped and compiled."""
    if not stage.fp8:
        return Part()
    ids = stage.ids("fp8")
    converted = "multiply_in_fp8(trainer.model, trainer.args.device)"
    return Part(own_imports=(Import(_EIGHT_BITS, "multiply_in_fp8", ids),), after_trainer=lines(ids, converted))


def order_part(stage: StageJob) -> Part:
    """The order of the rows, where the trainer's own is another one after a resume."""
    if not stage.groups_by_length:
        return Part()
    ids = stage.ids("sampling")
    return Part(
        imports=(Import("functools", "partial", ids),),
        own_imports=(Import(_LENGTHS, "SimilarLengths", ids),),
        after_trainer=lines(ids, _OWN_ORDER),
    )

"""A loop on Accelerate, which finds the ranks, wraps the model, casts and scales."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.loops.loop import LoopCode, nothing, one_by_one
from recipec.backends.parts import Import
from recipec.backends.trackers import trackers
from recipec.render.call import Arg, Call, render_call
from recipec.render.literals import py
from recipec.render.traced import Raw

_PRECISION = {"bf16": "bf16", "fp16": "fp16", "fp32": "no"}
_SPLITS = '("train", "eval")'


def _imports(stage: StageJob) -> tuple[Import, ...]:
    ids = stage.ids("strategy")
    patient = (Import("accelerate", "InitProcessGroupKwargs", ids), Import("datetime", "timedelta", ids))
    return (Import("accelerate", "Accelerator"), *(patient if stage.strategy.distributed else ()))


def _start_ranks(stage: StageJob) -> tuple[str, ...]:
    return (
        f"self.accelerator = {render_call(_accelerator(stage), indent=8)}",
        *_start_trackers(stage),
        "self.device, self.rank = self.accelerator.device, self.accelerator.process_index",
        "self.ranks = self.accelerator.num_processes",
    )


def _accelerator(stage: StageJob) -> Call:
    given = [Arg("mixed_precision", _PRECISION[stage.value("precision")])]
    given += [Arg("cpu", True)] * stage.on_cpu
    if trackers(stage):
        given += [Arg("log_with", Raw("settings.report_to")), Arg("project_dir", Raw("self.output_dir"))]
    if stage.strategy.distributed:
        patience = "InitProcessGroupKwargs(timeout=timedelta(seconds=settings.ddp_timeout))"
        given.append(Arg("kwargs_handlers", Raw(f"[{patience}]")))
    return Call("Accelerator", given)


def _start_trackers(stage: StageJob) -> tuple[str, ...]:
    """The names of project and run, as each tracker takes them; TensorBoard's files are in the output folder."""
    if not trackers(stage):
        return ()
    names = {"wandb": '"wandb": {"name": settings.run_name}', "mlflow": '"mlflow": {"run_name": settings.run_name}'}
    options = ", ".join(names[name] for name in trackers(stage) if name in names)
    given = [py(stage.value("track_project") or stage.job.name)] + [f"init_kwargs={{{options}}}"] * bool(options)
    return (f"self.accelerator.init_trackers({', '.join(given)})",)


def _tokenize(stage: StageJob) -> tuple[str, ...]:
    return (
        "with self.accelerator.main_process_first():  # the others then find its rows in the cache",
        f"    self.rows = {{name: tokenized(read_rows(name), self.tokenizer, settings) for name in {_SPLITS}}}",
    )


def _wrap(stage: StageJob) -> tuple[str, ...]:
    return ("self.model, self.optimizer = self.accelerator.prepare(self.plain_model, self.optimizer)",)


def _micro_steps(stage: StageJob) -> tuple[str, ...]:
    """Ranks average gradients in the last of them alone."""
    if not stage.strategy.distributed:
        return one_by_one(stage)
    return (
        "for place, batch in enumerate(batches, start=1):",
        "    with nullcontext() if place == len(batches) else self.accelerator.no_sync(self.model):",
        "        self.micro_step(batch, trained)",
    )


def _backward(stage: StageJob) -> tuple[str, ...]:
    return ("self.accelerator.backward(loss * (self.ranks / trained))",)


def _update(stage: StageJob) -> tuple[str, ...]:
    schedule = "self.schedule.step()"
    if stage.value("precision") == "fp16":
        schedule = "if not self.accelerator.optimizer_step_was_skipped:\n    self.schedule.step()"
    return (
        "self.grad_norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.max_grad_norm)",
        "self.learning_rate = self.schedule.get_last_lr()[0]",
        "self.optimizer.step()",
        *schedule.splitlines(),
        "self.optimizer.zero_grad()",
    )


def _track(stage: StageJob) -> tuple[str, ...]:
    return ("self.accelerator.log(as_trackers_name(entry), step=step)",) if trackers(stage) else ()


def _end(stage: StageJob) -> tuple[str, ...]:
    end = "self.accelerator.end_training()"
    if not stage.strategy.distributed:
        return (end,)
    wait = "self.accelerator.wait_for_everyone()  # a rank that leaves early can break the connections of the others"
    return (wait, end)


CODE = LoopCode(
    imports=_imports,
    constants=nothing,
    start_ranks=_start_ranks,
    tokenize=_tokenize,
    own_scaler=False,
    wrap=_wrap,
    scaler="self.accelerator.scaler",
    keeps_states=False,
    distributed=lambda stage: '"ddp" if self.accelerator.distributed_type.value.startswith("MULTI_") else "none"',
    restore=nothing,
    micro_steps=_micro_steps,
    autocasts=False,
    backward=_backward,
    update=_update,
    grad_norm="self.grad_norm.item()",
    track=_track,
    wait=lambda stage: ("self.accelerator.wait_for_everyone()",),
    end=_end,
    sum_ranks=lambda stage: ('return self.accelerator.reduce(numbers, reduction="sum")',),
)

"""A loop on PyTorch alone: process group, wrapper, autocast and scaler are in train.py."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.loops.loop import LoopCode, averaged_once
from recipec.backends.parts import Import
from recipec.backends.trackers import trackers

_ROWS = 'self.rows = {name: tokenized(read_rows(name), self.tokenizer, settings) for name in ("train", "eval")}'
_CLIP = "self.grad_norm = nn.utils.clip_grad_norm_(self.plain_model.parameters(), self.settings.max_grad_norm)"
_RATE = "self.learning_rate = self.schedule.get_last_lr()[0]"
_SCALED = (
    "self.scaler.unscale_(self.optimizer)",
    _CLIP,
    _RATE,
    "scale = self.scaler.get_scale()",
    "self.scaler.step(self.optimizer)",
    "self.scaler.update()",
    "if self.scaler.get_scale() >= scale:  # a lower one: gradients overflowed, and the step was left out",
    "    self.schedule.step()",
    "self.optimizer.zero_grad()",
)


def _imports(stage: StageJob) -> tuple[Import, ...]:
    ids = stage.ids("strategy")
    several = (
        Import("os", "", ids),
        Import("torch", "distributed", ids),
        Import("torch.nn.parallel", "DistributedDataParallel", ids),
    )
    writer = (Import("torch.utils.tensorboard", "SummaryWriter", stage.ids("tracker")),) * bool(trackers(stage))
    return (Import("torch", "nn"), *writer, *(several if stage.strategy.distributed else ()))


def _start_ranks(stage: StageJob) -> tuple[str, ...]:
    device = 'torch.device("cpu")' if stage.on_cpu else "torch.accelerator.current_accelerator()"
    if not stage.strategy.distributed:
        return (f"self.device, self.rank, self.ranks = {device}, 0, 1", *_start_tracker(stage))
    own = () if stage.on_cpu else ('torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))',)
    return (
        *own,
        "distributed.init_process_group()",
        f"self.device, self.rank = {device}, distributed.get_rank()",
        "self.ranks = distributed.get_world_size()",
        *_start_tracker(stage),
    )


def _start_tracker(stage: StageJob) -> tuple[str, ...]:
    if not trackers(stage):
        return ()
    return ('self.tracker = SummaryWriter(self.output_dir / "runs" / settings.run_name)',)


def _tokenize(stage: StageJob) -> tuple[str, ...]:
    if not stage.strategy.distributed:
        return (_ROWS,)
    return (
        "if self.rank:  # the first rank's rows are then in the cache",
        "    distributed.barrier()",
        _ROWS,
        "if not self.rank:",
        "    distributed.barrier()",
    )


def _wrap(stage: StageJob) -> tuple[str, ...]:
    wrapped = "DistributedDataParallel(self.plain_model)" if stage.strategy.distributed else "self.plain_model"
    return (f"self.model = {wrapped}",)


def _backward(stage: StageJob) -> tuple[str, ...]:
    mean = "loss * (self.ranks / trained)" if stage.strategy.distributed else "loss / trained"
    return (f"self.scaler.scale({mean}).backward()" if stage.value("precision") == "fp16" else f"({mean}).backward()",)


def _update(stage: StageJob) -> tuple[str, ...]:
    if stage.value("precision") == "fp16":
        return _SCALED
    return (_CLIP, _RATE, "self.optimizer.step()", "self.schedule.step()", "self.optimizer.zero_grad()")


def _track(stage: StageJob) -> tuple[str, ...]:
    if not trackers(stage):
        return ()
    if not stage.strategy.distributed:
        return (
            "for name, value in as_trackers_name(entry).items():",
            "    self.tracker.add_scalar(name, value, step)",
        )
    return (
        "for name, value in as_trackers_name(entry).items() if self.rank == 0 else ():",
        "    self.tracker.add_scalar(name, value, step)",
    )


def _when_several(*lines: str):
    return lambda stage: lines if stage.strategy.distributed else ()


CODE = LoopCode(
    imports=_imports,
    constants=lambda stage: (),
    start_ranks=_start_ranks,
    tokenize=_tokenize,
    own_scaler=True,
    wrap=_wrap,
    scaler="self.scaler",
    keeps_states=False,
    distributed=lambda stage: '"ddp"' if stage.strategy.distributed else '"none"',
    restore=lambda stage: (),
    micro_steps=averaged_once("self.model.no_sync()"),
    autocasts=True,
    backward=_backward,
    update=_update,
    grad_norm="self.grad_norm.item()",
    track=_track,
    wait=_when_several("distributed.barrier()"),
    end=_when_several(
        "distributed.barrier()  # a rank that leaves early can break the connections of the others",
        "distributed.destroy_process_group()",
    ),
    sum_ranks=_when_several("distributed.all_reduce(numbers)", "return numbers"),
)

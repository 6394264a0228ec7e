"""A loop on PyTorch alone, in one process: autocast and scaler are in train.py."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.loops.loop import LoopCode, nothing, one_by_one
from recipec.backends.parts import Import
from recipec.backends.trackers import trackers

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
    writer = (Import("torch.utils.tensorboard", "SummaryWriter", stage.ids("tracker")),) * bool(trackers(stage))
    return (Import("torch", "nn"), *writer)


def _start_ranks(stage: StageJob) -> tuple[str, ...]:
    device = 'torch.device("cpu")' if stage.on_cpu else "torch.accelerator.current_accelerator()"
    tracker = 'self.tracker = SummaryWriter(self.output_dir / "runs" / settings.run_name)'
    return (f"self.device, self.rank, self.ranks = {device}, 0, 1", *[tracker] * bool(trackers(stage)))


def _tokenize(stage: StageJob) -> tuple[str, ...]:
    return ('self.rows = {name: tokenized(read_rows(name), self.tokenizer, settings) for name in ("train", "eval")}',)


def _wrap(stage: StageJob) -> tuple[str, ...]:
    return ("self.model = self.plain_model",)


def _backward(stage: StageJob) -> tuple[str, ...]:
    scaled = stage.value("precision") == "fp16"
    return ("self.scaler.scale(loss / trained).backward()" if scaled else "(loss / trained).backward()",)


def _update(stage: StageJob) -> tuple[str, ...]:
    if stage.value("precision") == "fp16":
        return _SCALED
    return (_CLIP, _RATE, "self.optimizer.step()", "self.schedule.step()", "self.optimizer.zero_grad()")


def _track(stage: StageJob) -> tuple[str, ...]:
    if not trackers(stage):
        return ()
    return ("for name, value in as_trackers_name(entry).items():", "    self.tracker.add_scalar(name, value, step)")


CODE = LoopCode(
    imports=_imports,
    constants=nothing,
    start_ranks=_start_ranks,
    tokenize=_tokenize,
    own_scaler=True,
    wrap=_wrap,
    scaler="self.scaler",
    keeps_states=False,
    distributed=lambda stage: '"none"',
    restore=nothing,
    micro_steps=one_by_one,
    autocasts=True,
    backward=_backward,
    update=_update,
    grad_norm="self.grad_norm.item()",
    track=_track,
    wait=nothing,
    end=nothing,
    sum_ranks=nothing,
)

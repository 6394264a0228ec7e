"""A loop on DeepSpeed's engine, which shards, casts, scales, clips, and keeps the states of optimizer and schedule."""

from __future__ import annotations

from recipec.backends.configs import config_path
from recipec.backends.job import StageJob
from recipec.backends.loops.loop import LoopCode
from recipec.backends.parts import Import
from recipec.backends.trackers import trackers

_TRACKER = (
    "if not self.rank:  # each writer makes a file",
    '    self.tracker = SummaryWriter(self.output_dir / "runs" / settings.run_name)',
)
_ROWS = 'self.rows = {name: tokenized(read_rows(name), self.tokenizer, settings) for name in ("train", "eval")}'


def _imports(stage: StageJob) -> tuple[Import, ...]:
    ids = stage.ids("strategy")
    writer = (Import("torch.utils.tensorboard", "SummaryWriter", stage.ids("tracker")),) * bool(trackers(stage))
    sharded = (Import("transformers.integrations", "HfDeepSpeedConfig", ids),) * stage.strategy.shards_weights
    named = (Import("os"), Import("datetime", "timedelta"), Import("deepspeed"), Import("torch", "distributed", ids))
    return (*named, *writer, *sharded)


def _constants(stage: StageJob) -> tuple[str, ...]:
    path = config_path(stage, stage.engine.deepspeed)
    return (f'ENGINE_CONFIG = str(BUNDLE / "{path}")  # what DeepSpeed shards, clips and casts',)


def _start_ranks(stage: StageJob) -> tuple[str, ...]:
    sharded = "self.sharding = HfDeepSpeedConfig(ENGINE_CONFIG)  # while it lives, models are loaded in shards"
    return (
        'torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))',
        "deepspeed.init_distributed(timeout=timedelta(seconds=settings.ddp_timeout))",
        "self.device, self.rank = torch.accelerator.current_accelerator(), distributed.get_rank()",
        "self.ranks = distributed.get_world_size()",
        *[sharded] * stage.strategy.shards_weights,
        *_TRACKER * bool(trackers(stage)),
    )


def _tokenize(stage: StageJob) -> tuple[str, ...]:
    return (
        "if self.rank:  # the first rank's rows are then in the cache",
        "    distributed.barrier()",
        _ROWS,
        "if not self.rank:",
        "    distributed.barrier()",
    )


def _wrap(stage: StageJob) -> tuple[str, ...]:
    return (
        "self.model, self.optimizer, *_ = deepspeed.initialize(",
        "    model=self.plain_model,",
        "    optimizer=self.optimizer,",
        "    lr_scheduler=self.schedule,  # the engine's step() moves it on, and its checkpoints hold it",
        "    config=ENGINE_CONFIG,",
        ")",
    )


def _restore(stage: StageJob) -> tuple[str, ...]:
    return ("if checkpoint:", "    self.progress = load_checkpoint(Path(checkpoint), self.model)")


def _micro_steps(stage: StageJob) -> tuple[str, ...]:
    given = "batch, trained, len(batches)" if stage.dispatches else "batch, trained"
    return (
        "for place, batch in enumerate(batches, start=1):  # the last step of an epoch may have fewer than planned",
        "    self.model.set_gradient_accumulation_boundary(place == len(batches))",
        f"    self.micro_step({given})",
    )


def _backward(stage: StageJob) -> tuple[str, ...]:
    if stage.dispatches:
        return (
            "balance = BALANCE_LOSS * balance_loss(self.plain_model) / micro_steps",
            "whole = loss * (self.ranks / trained) + balance  # the mean of the step already",
            "self.model.backward(whole, scale_wrt_gas=False)",
        )
    return ("self.model.backward(loss * (self.ranks / trained), scale_wrt_gas=False)  # the mean of the step already",)


def _update(stage: StageJob) -> tuple[str, ...]:
    return (
        "self.learning_rate = self.schedule.get_last_lr()[0]",
        "self.model.step()  # clips, updates, moves the schedule on and clears the gradients",
        "self.grad_norm = self.model.get_global_grad_norm()",
    )


def _track(stage: StageJob) -> tuple[str, ...]:
    if not trackers(stage):
        return ()
    return (
        "for name, value in as_trackers_name(entry).items() if self.rank == 0 else ():",
        "    self.tracker.add_scalar(name, value, step)",
    )


def _end(stage: StageJob) -> tuple[str, ...]:
    wait = "distributed.barrier()  # a rank that leaves early can break the connections of the others"
    return (wait, "distributed.destroy_process_group()")


CODE = LoopCode(
    imports=_imports,
    constants=_constants,
    start_ranks=_start_ranks,
    tokenize=_tokenize,
    own_scaler=False,
    wrap=_wrap,
    scaler="",
    keeps_states=True,
    distributed=lambda stage: '"deepspeed" if self.model.zero_optimization() else "ddp"',
    restore=_restore,
    micro_steps=_micro_steps,
    autocasts=False,
    backward=_backward,
    update=_update,
    grad_norm="float(self.grad_norm)",
    track=_track,
    wait=lambda stage: ("distributed.barrier()",),
    end=_end,
    sum_ranks=lambda stage: ("distributed.all_reduce(numbers)", "return numbers"),
)

"""Where loops differ: how ranks find each other, and what stands between the model and its gradients."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from recipec.backends.job import StageJob
from recipec.backends.parts import Import

Lines = Callable[[StageJob], tuple[str, ...]]


class LoopCode(Struct, frozen=True, kw_only=True):
    """Code of one loop, in the order in which train.py has it."""

    imports: Callable[[StageJob], tuple[Import, ...]]
    constants: Lines  # behind BUNDLE, the folder of the bundle
    start_ranks: Lines  # sets self.device, self.rank and self.ranks
    tokenize: Lines  # sets self.rows
    own_scaler: bool  # it scales the gradients of fp16 itself
    wrap: Lines  # sets self.model, from self.plain_model
    scaler: str  # what scales the gradients of fp16; "" where the engine of the loop does
    keeps_states: bool  # what it wraps holds optimizer and schedule, and saves and loads them, on all ranks together
    distributed: Callable[[StageJob], str]  # what spreads the ranks, as the libraries report it
    restore: Lines  # from `checkpoint` into what was wrapped; () where a checkpoint is read before that
    micro_steps: Lines  # calls micro_step for each of `batches`; ranks average gradients in the last one
    autocasts: bool  # the forward pass is in its own context of the compute type
    backward: Lines  # of `loss`, the sum over a micro batch
    update: Lines  # sets self.grad_norm and self.learning_rate, and ends without gradients
    grad_norm: str  # the norm of the gradients as a number
    track: Lines  # of the newest entry of the log
    wait: Lines  # for rank 0, which saves
    end: Lines
    sum_ranks: Lines  # returns `numbers`, summed over all ranks; () where a single process runs


def nothing(stage: StageJob) -> tuple[str, ...]:
    """Where a loop needs no line."""
    return ()


def one_by_one(stage: StageJob) -> tuple[str, ...]:
    """The micro steps of a single process."""
    return ("for batch in batches:", "    self.micro_step(batch, trained)")

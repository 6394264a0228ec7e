"""The loops: who runs the steps of a training, a Trainer or code that the team owns. One row each."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.adaptations import ADAPTATIONS
from recipec.axes.methods import METHODS
from recipec.axes.strategies import DEEPSPEED, ENGINES, OFFLOADS, ON_DEVICE, ONE_PROCESS, TORCH_DDP, Strategy


class Loop(Struct, frozen=True, kw_only=True):
    """Who runs the steps, and what it can run. What it cannot is refused by the name of the row."""

    name: str  # the value of train.loop
    title: str  # for people: "a loop on Accelerate"
    means: str  # for editors
    elsewhere: tuple[str, ...]  # what people type for it who come from other tools
    own: bool  # train.py has the steps itself; else a Trainer of a library does
    methods: tuple[str, ...]  # names of METHODS
    engines: tuple[str, ...]  # of ENGINES
    offloads: tuple[str, ...]  # values of OFFLOADS
    adaptations: tuple[str, ...]  # names of ADAPTATIONS
    optimizers: tuple[str, ...]  # values of train.optimizer; () for all
    dispatches: tuple[str, ...]  # names of METHODS in which it trains mixtures in layers of DeepSpeed-MoE
    head: str  # of recipec.estimate.head.CODES: how it computes the loss; "" where the method's row says it
    trackers: tuple[str, ...]  # values of track.to that it writes to
    because: str
    source: str

    def spreads(self, strategy: Strategy) -> bool:
        """Whether it runs the engine of a strategy."""
        return strategy.engine in self.engines


TRACKERS = ("tensorboard", "wandb", "mlflow", "none")  # values of track.to
_TOKENS = ("sft", "continue-pretrain", "pretrain")  # one loss over labeled tokens

TRAINER = Loop(
    name="trainer",
    title="the method's Trainer",
    means="TRL's trainer",
    elsewhere=("hf", "huggingface", "trl"),
    own=False,
    methods=tuple(METHODS),
    engines=tuple(ENGINES),
    offloads=tuple(OFFLOADS),
    adaptations=tuple(ADAPTATIONS),
    optimizers=(),
    dispatches=(),
    head="",
    trackers=TRACKERS,
    because="the trainers of TRL have all methods, and their kernels keep no logits of the whole vocabulary",
    source="docs/rule-books/001.md, Training loop architecture; TRL 1.16 trainer/",
)
ACCELERATE = Loop(
    name="accelerate",
    title="a loop on Accelerate",
    means="a training loop in train.py on Accelerate, without a Trainer",
    elsewhere=("accelerator",),
    own=True,
    methods=_TOKENS,
    engines=(ONE_PROCESS, TORCH_DDP),
    offloads=(ON_DEVICE,),
    adaptations=("lora", "full"),
    optimizers=("adamw", "sgd"),
    dispatches=(),
    head="hf",
    trackers=TRACKERS,
    because="every step is in train.py, to be read and changed; Accelerate places and wraps the model",
    source="docs/rule-books/002.md, Step 1; accelerate 1.15 accelerator.py",
)
TORCH = Loop(
    name="torch",
    title="a loop on PyTorch",
    means="a training loop in train.py on plain PyTorch, without a Trainer",
    elsewhere=("pytorch",),
    own=True,
    methods=_TOKENS,
    engines=(ONE_PROCESS,),
    offloads=(ON_DEVICE,),
    adaptations=("lora", "full"),
    optimizers=("adamw", "sgd"),
    dispatches=(),
    head="hf",
    trackers=("tensorboard", "none"),
    because="every step is in train.py, with nothing between it and PyTorch",
    source="docs/rule-books/000.md, Concepts; docs/rule-books/002.md, Step 3; torch 2.13 amp/grad_scaler.py",
)

ENGINE = Loop(
    name="deepspeed",
    title="a loop on DeepSpeed",
    means="a training loop in train.py on the engine of DeepSpeed (ZeRO), without a Trainer",
    elsewhere=("ds", "deepspeed-engine"),
    own=True,
    methods=_TOKENS,
    engines=(DEEPSPEED,),
    offloads=(ON_DEVICE,),
    adaptations=("lora", "full"),
    optimizers=("adamw",),
    dispatches=("pretrain",),
    head="hf",
    trackers=("tensorboard", "none"),
    because="every step is in train.py, and DeepSpeed's engine alone shards, scales, clips and saves",
    source="docs/rule-books/000.md, Concepts; docs/rule-books/002.md, Step 2; DeepSpeed 0.19 runtime/engine.py",
)

LOOPS = {row.name: row for row in (TRAINER, ACCELERATE, TORCH, ENGINE)}

"""The strategies: how the work of a step is spread over ranks. One row each, the simplest first."""

from __future__ import annotations

from dataclasses import dataclass

OPTIMIZER, GRADIENTS, WEIGHTS = SHARDED = "optimizer", "gradients", "weights"

# The values of train.offload and what each means.
OFFLOADS = {
    "none": "everything stays on the GPUs",
    "cpu": "optimizer states in host memory",
}

ONE_PROCESS, TORCH_DDP, TORCH_FSDP, DEEPSPEED = "none", "ddp", "fsdp", "deepspeed"  # engines


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What a strategy shards, what runs it, and how it compares. Its place in the table is its rank by simplicity."""

    name: str
    title: str  # for people: "fully sharded (FSDP2)"
    means: str  # for editors
    engine: str  # none | ddp | fsdp | deepspeed: who moves the data, and what a run reports
    distributed_type: str  # accelerate's word for it: NO | MULTI_GPU | FSDP | DEEPSPEED
    shards: frozenset[str]  # of optimizer, gradients, weights
    groups: bool  # ranks fall into groups that each hold all shards
    offloads: tuple[str, ...]  # values of OFFLOADS beside "none"
    one_rank: bool  # for one rank; the others need two or more
    on_cpu: bool
    shares_layers: bool  # its meshes may also split layers between ranks: tensor, context, expert parallelism
    searched_from_nodes: int  # nodes from which on the planner tries it unasked
    because: str  # why it is taken, before its memory
    pros: str
    cons: str
    source: str

    @property
    def shards_weights(self) -> bool:
        """Whether no rank holds the whole model."""
        return WEIGHTS in self.shards

    @property
    def shards_gradients(self) -> bool:
        """Whether each rank keeps its share of the gradients alone."""
        return GRADIENTS in self.shards

    @property
    def shards_states(self) -> bool:
        """Whether each rank keeps its share of the optimizer states alone."""
        return OPTIMIZER in self.shards

    @property
    def replicates(self) -> bool:
        """Whether every rank holds all weights, gradients and optimizer states."""
        return not self.shards

    @property
    def distributed(self) -> bool:
        """Whether several processes run it."""
        return not self.one_rank


_RULES = "rule book 004, Golden Rules; 003, Distributed training"
_FSDP = {
    "engine": TORCH_FSDP,
    "distributed_type": "FSDP",
    "shards": frozenset({OPTIMIZER, GRADIENTS, WEIGHTS}),
    "offloads": (),
    "one_rank": False,
    "on_cpu": False,
    "shares_layers": True,
}
_ZERO = {
    "engine": DEEPSPEED,
    "distributed_type": "DEEPSPEED",
    "groups": False,
    "offloads": ("cpu",),
    "one_rank": False,
    "on_cpu": False,
    "shares_layers": False,
    "searched_from_nodes": 1,
}

SINGLE = Strategy(
    name="single",
    title="one device",
    means="one process on one GPU",
    engine=ONE_PROCESS,
    distributed_type="NO",
    shards=frozenset(),
    groups=False,
    offloads=(),
    one_rank=True,
    on_cpu=True,
    shares_layers=False,
    searched_from_nodes=1,
    because="one device: nothing to distribute",
    pros="nothing to configure, nothing to wait for",
    cons="one device's memory and speed",
    source=_RULES,
)
DDP = Strategy(
    name="ddp",
    title="data parallel (DDP)",
    means="a full copy on each GPU",
    engine=TORCH_DDP,
    distributed_type="MULTI_GPU",
    shards=frozenset(),
    groups=False,
    offloads=(),
    one_rank=False,
    on_cpu=True,
    shares_layers=False,
    searched_from_nodes=1,
    because="the model fits on every device, so only gradients are exchanged",
    pros="the least communication: one all-reduce of the gradients, hidden behind the backward pass",
    cons="every rank holds weights, gradients, buckets and optimizer states whole",
    source=f"{_RULES}; torch 2.13 nn/parallel/distributed.py",
)
FSDP = Strategy(
    **_FSDP,
    name="fsdp",
    title="fully sharded (FSDP2)",
    means="PyTorch's fully sharded data parallel",
    groups=False,
    searched_from_nodes=1,
    because="parameters, gradients and optimizer states are sharded over all ranks",
    pros="everything is sharded; part of PyTorch, so no further package; sharded checkpoints resume on any number of "
    "ranks",
    cons="weights are gathered for every layer, forward and backward; no optimizer of bitsandbytes, no 4-bit base",
    source=f"{_RULES}; torch 2.13 distributed/fsdp/_fully_shard",
)
HSDP = Strategy(
    **_FSDP,
    name="hsdp",
    title="sharded in groups (HSDP)",
    means="the same with shards within groups of GPUs and copies between them",
    groups=True,
    searched_from_nodes=2,
    because="parameters, gradients and optimizer states are sharded within groups, which copy each other",
    pros="layers are gathered over the fast links of a node; only gradients cross the network",
    cons="each group holds the whole model, and reduced gradients wait for the end of the backward pass",
    source=f"{_RULES}; PyTorch FSDP (arXiv 2304.11277, 2023), section 3.2.2",
)
ZERO1 = Strategy(
    **_ZERO,
    name="zero1",
    title="DeepSpeed ZeRO-1",
    means="DeepSpeed: optimizer states sharded",
    shards=frozenset({OPTIMIZER}),
    because="optimizer states are sharded over all ranks",
    pros="no more communication than DDP; runs every optimizer; states can wait in host memory",
    cons="weights and gradients are whole on every rank; a further package that compiles operators",
    source=f"{_RULES}; ZeRO (arXiv 1910.02054, 2019)",
)
ZERO2 = Strategy(
    **_ZERO,
    name="zero2",
    title="DeepSpeed ZeRO-2",
    means="DeepSpeed: gradients and optimizer states sharded",
    shards=frozenset({OPTIMIZER, GRADIENTS}),
    because="gradients and optimizer states are sharded over all ranks",
    pros="shards what adapters do not need sharded and full fine-tuning does; runs a 4-bit base",
    cons="gradients are reduced in every micro step; weights are whole on every rank",
    source=f"{_RULES}; ZeRO (arXiv 1910.02054, 2019)",
)
ZERO3 = Strategy(
    **_ZERO,
    name="zero3",
    title="DeepSpeed ZeRO-3",
    means="DeepSpeed: weights sharded as well",
    shards=frozenset({OPTIMIZER, GRADIENTS, WEIGHTS}),
    because="parameters, gradients and optimizer states are sharded over all ranks",
    pros="everything is sharded, and states can wait in host memory",
    cons="the most communication; no torch.compile; experts must be named as leaf modules",
    source=f"{_RULES}; ZeRO (arXiv 1910.02054, 2019)",
)

STRATEGIES = {row.name: row for row in (SINGLE, DDP, FSDP, HSDP, ZERO1, ZERO2, ZERO3)}

"""The strategies: how the work of a step is spread over ranks. One row each, the simplest first."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.adaptations import Adaptation
from recipec.axes.bases import BASES

OPTIMIZER, GRADIENTS, WEIGHTS = SHARDED = "optimizer", "gradients", "weights"  # each only with those before it

ON_DEVICE, STATES, EVERYTHING = "none", "optimizer", "cpu"
# The values of train.offload and what each means.
OFFLOADS = {
    ON_DEVICE: "everything stays on the GPUs",
    STATES: "optimizer states in host memory, the shards of the weights on the GPUs: ZeRO-3",
    EVERYTHING: "optimizer states in host memory; with ZeRO-3 also the weights",
}

ONE_PROCESS, TORCH_DDP, TORCH_FSDP, DEEPSPEED = "none", "ddp", "fsdp", "deepspeed"


class Engine(Struct, frozen=True, kw_only=True):
    """Who moves the data between the ranks of a strategy."""

    name: str  # of its file in backends/engines/
    distributed_type: str  # accelerate's word for it, in a configuration and in what a run reports
    one_process: bool
    keeps_master: bool  # casts what trains to the compute dtype, and keeps fp32 masters of it
    shards: tuple[int, ...]  # how many of SHARDED, from the first one on, its strategies may shard


ENGINES = {
    row.name: row
    for row in (
        Engine(name=ONE_PROCESS, distributed_type="NO", one_process=True, keeps_master=False, shards=(0,)),
        Engine(name=TORCH_DDP, distributed_type="MULTI_GPU", one_process=False, keeps_master=False, shards=(0,)),
        Engine(name=TORCH_FSDP, distributed_type="FSDP", one_process=False, keeps_master=False, shards=(3,)),
        Engine(name=DEEPSPEED, distributed_type="DEEPSPEED", one_process=False, keeps_master=True, shards=(1, 2, 3)),
    )
}


class Strategy(Struct, frozen=True, kw_only=True):
    """What a strategy shards, what runs it, and how it compares. The table begins with the simplest."""

    name: str
    title: str  # for people: "fully sharded (FSDP2)"
    means: str  # for editors
    elsewhere: tuple[str, ...]  # what people type for it who come from other tools
    engine: str  # of ENGINES
    shards: frozenset[str]  # of SHARDED
    groups: bool  # ranks fall into groups that each hold all shards
    offloads: tuple[str, ...]  # values of OFFLOADS beside ON_DEVICE
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
    def one_rank(self) -> bool:
        """Whether it is for one rank; the others need two or more."""
        return ENGINES[self.engine].one_process

    @property
    def distributed(self) -> bool:
        """Whether several processes run it."""
        return not self.one_rank

    @property
    def distributed_type(self) -> str:
        """Accelerate's word for it."""
        return ENGINES[self.engine].distributed_type

    @property
    def keeps_master(self) -> bool:
        """Whether its engine keeps fp32 masters, so that weights are loaded in the compute dtype."""
        return ENGINES[self.engine].keeps_master

    def reenters(self, adaptation: Adaptation) -> bool:
        """Whether layers are recomputed by torch's reentrant checkpoint: TRL 1.16 insists on it for adapters under
        ZeRO-3, and the other one does not drop the inputs that 8-bit layers keep."""
        forced = not adaptation.trains_all and self.shards_weights and self.engine == DEEPSPEED
        return forced or BASES[adaptation.base].rounds_inputs


_TABLE = "docs/rule-books/000.md, Strategy table"
_CHOICE = "docs/rule-books/003.md, Distributed training"
_ZERO_STAGES = "docs/rule-books/004.md, Zero redundancy; ZeRO (arXiv 1910.02054, 2019)"
_FSDP = {
    "engine": TORCH_FSDP,
    "shards": frozenset({OPTIMIZER, GRADIENTS, WEIGHTS}),
    "offloads": (),
    "on_cpu": False,
    "shares_layers": True,
}
_ZERO = {
    "engine": DEEPSPEED,
    "groups": False,
    "on_cpu": False,
    "shares_layers": False,
    "searched_from_nodes": 1,
}

SINGLE = Strategy(
    name="single",
    title="one device",
    elsewhere=("none", "single_gpu"),
    means="one process on one GPU",
    engine=ONE_PROCESS,
    shards=frozenset(),
    groups=False,
    offloads=(),
    on_cpu=True,
    shares_layers=False,
    searched_from_nodes=1,
    because="one device trains, so nothing is distributed",
    pros="nothing to configure and no communication",
    cons="memory and speed of one device",
    source=_CHOICE,
)
DDP = Strategy(
    name="ddp",
    title="data parallel (DDP)",
    elsewhere=("dp", "data-parallel", "multi_gpu", "distributed_data_parallel"),
    means="distributed data parallel (DDP): a full copy of the model on each GPU",
    engine=TORCH_DDP,
    shards=frozenset(),
    groups=False,
    offloads=(),
    on_cpu=True,
    shares_layers=False,
    searched_from_nodes=1,
    because="the model fits on every device, so the devices exchange only gradients",
    pros="the least communication: one all-reduce of the gradients, hidden behind the backward pass",
    cons="every rank holds all weights, gradients and optimizer states",
    source=f"{_TABLE}; {_CHOICE}; docs/rule-books/004.md, Golden rules; torch 2.13 nn/parallel/distributed.py",
)
FSDP = Strategy(
    **_FSDP,
    name="fsdp",
    title="fully sharded (FSDP2)",
    elsewhere=("fsdp2", "full_shard", "fully_shard", "fsdp_v2", "pytorch_fsdp"),
    means="PyTorch's fully sharded data parallel (FSDP2)",
    groups=False,
    searched_from_nodes=1,
    because="parameters, gradients and optimizer states are sharded over all ranks",
    pros="weights, gradients and optimizer states are sharded, a 4-bit base model too; part of PyTorch, so no further "
    "package",
    cons="weights are gathered for every layer, forward and backward; no optimizer of bitsandbytes and no 8-bit base "
    "model",
    source=f"{_TABLE}; {_CHOICE}; docs/rule-books/004.md, FSDP and DeepSpeed compared; "
    "torch 2.13 distributed/fsdp/_fully_shard",
)
HSDP = Strategy(
    **_FSDP,
    name="hsdp",
    title="sharded in groups (HSDP)",
    elsewhere=("hybrid_shard", "hybrid_fsdp"),
    means="hybrid sharding (HSDP): FSDP within groups of GPUs, and one copy of the model per group",
    groups=True,
    searched_from_nodes=2,
    because="parameters, gradients and optimizer states are sharded within groups, and each group is a replica",
    pros="weights are gathered over the fast links of a node; only gradients cross the network",
    cons="each sharding group holds the whole model, and replicas exchange gradients after the backward pass",
    source="PyTorch FSDP (arXiv 2304.11277, 2023, section 3.2.2)",
)
ZERO1 = Strategy(
    **_ZERO,
    offloads=(),  # its sums of gradients are whole on the GPU, and those of earlier steps would be added: page BAD-OOO
    name="zero1",
    title="DeepSpeed ZeRO-1",
    elsewhere=("zero-1", "zero_stage_1", "stage_1", "deepspeed_zero1", "deepspeed_zero_stage_1", "ds_z1"),
    means="DeepSpeed ZeRO-1: shards optimizer states",
    shards=frozenset({OPTIMIZER}),
    because="optimizer states are sharded over all ranks",
    pros="no more communication than DDP",
    cons="every rank holds all weights and gradients; no states in host memory; DeepSpeed is a further package that "
    "compiles operators",
    source=_ZERO_STAGES,
)
ZERO2 = Strategy(
    **_ZERO,
    offloads=(EVERYTHING,),
    name="zero2",
    title="DeepSpeed ZeRO-2",
    elsewhere=(
        "deepspeed",
        "zero",
        "zero-2",
        "zero_stage_2",
        "stage_2",
        "deepspeed_zero2",
        "deepspeed_zero_stage_2",
        "ds_z2",
        "ds_z2_offload",
        "shard_grad_op",
    ),
    means="DeepSpeed ZeRO-2: shards gradients and optimizer states",
    shards=frozenset({OPTIMIZER, GRADIENTS}),
    because="gradients and optimizer states are sharded over all ranks",
    pros="shards the largest part of the memory of full fine-tuning; runs a 4-bit base model and optimizers of "
    "bitsandbytes",
    cons="gradients are reduced in every micro step; every rank holds all weights",
    source=f"{_TABLE}; {_CHOICE}; {_ZERO_STAGES}",
)
ZERO3 = Strategy(
    **_ZERO,
    offloads=(STATES, EVERYTHING),
    name="zero3",
    title="DeepSpeed ZeRO-3",
    elsewhere=(
        "zero-3",
        "zero_stage_3",
        "stage_3",
        "deepspeed_zero3",
        "deepspeed_zero_stage_3",
        "ds_z3",
        "ds_z3_offload",
    ),
    means="DeepSpeed ZeRO-3: shards weights too",
    shards=frozenset({OPTIMIZER, GRADIENTS, WEIGHTS}),
    because="parameters, gradients and optimizer states are sharded over all ranks",
    pros="weights, gradients and optimizer states are sharded, and states can be offloaded to host memory",
    cons="the most communication; no torch.compile; experts must be named as leaf modules",
    source=f"{_TABLE}; docs/rule-books/001.md, Step 6; {_CHOICE}; {_ZERO_STAGES}",
)

STRATEGIES = {row.name: row for row in (SINGLE, DDP, FSDP, HSDP, ZERO1, ZERO2, ZERO3)}

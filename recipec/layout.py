"""The hardware and how one stage lies on it: the vocabulary that all but the language and the catalog share."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, STRATEGIES, Adaptation, Strategy
from recipec.axes.attention import ATTENTIONS, Attention
from recipec.axes.strategies import DEEPSPEED, EVERYTHING, ON_DEVICE, SINGLE, TORCH_FSDP

EVALUATED = 32  # answers that an evaluation writes at a time: more take memory that training does not need


class Machines(Struct, frozen=True):
    """The devices of a recipe: so many in each of so many nodes."""

    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


class Mesh(Struct, frozen=True):
    """Ranks by the role they play; the product is the world size."""

    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    context: int = 1
    expert: int = 1

    @property
    def world_size(self) -> int:
        """All ranks; expert parallelism reuses data-parallel ranks and does not multiply."""
        return self.replicate * self.shard * self.tensor * self.context

    @property
    def ranks_per_layer(self) -> int:
        """Ranks that share the work of one layer on the same examples, or its experts; 1 where none do."""
        return self.tensor * self.context * self.expert

    @property
    def data_parallel(self) -> int:
        return self.replicate * self.shard


class Layout(Struct, frozen=True):
    """One candidate of the planner: everything that decides memory and speed and nothing that decides learning."""

    adaptation: str  # a row of recipec.axes.adaptations
    precision: str  # bf16 | fp16 | fp32: the compute dtype
    strategy: str  # a row of recipec.axes.strategies
    mesh: Mesh
    offload: str  # of recipec.axes.strategies.OFFLOADS
    micro_batch: int  # examples per rank and micro step: what the method's row counts (sequences, pairs)
    accumulation: int
    checkpointing: bool
    attention: str  # a row of recipec.axes.attention
    packing: bool
    optimizer: str  # adamw, adamw-8bit, paged-adamw, paged-adamw-8bit, adafactor, lion, lion-8bit or sgd
    recompute_every: int = 1  # with checkpointing: every n-th layer is recomputed, the others keep their activations
    activation_offload: bool = False  # with checkpointing: the inputs of recomputed layers wait in host memory
    precomputes: bool = False  # the reference scores all rows before training, and is then not there
    served_by: int = 0  # GPUs of the node that do not train: they write the answers that the others learn from
    engine_tensor_parallel: int = 1  # GPUs that share each copy of the weights which writes answers beside the training

    @property
    def adapts(self) -> Adaptation:
        """The row of its adaptation."""
        return ADAPTATIONS[self.adaptation]

    @property
    def spreads(self) -> Strategy:
        """The row of its strategy."""
        return STRATEGIES[self.strategy]

    @property
    def attends(self) -> Attention:
        """The row of its attention."""
        return ATTENTIONS[self.attention]

    @property
    def quantization(self) -> str:
        """How the base below an adapter is stored: a row of recipec.axes.bases.BASES."""
        return self.adapts.base

    @property
    def on_device(self) -> bool:
        """Whether nothing waits in host memory: neither states nor activations."""
        return not self.offloads and not self.activation_offload

    @property
    def alone(self) -> Layout:
        """The same on one rank, with everything on the device."""
        here = {"offload": ON_DEVICE, "activation_offload": False, "engine_tensor_parallel": 1}
        return replace(self, strategy=SINGLE.name, mesh=Mesh(), **here)

    @property
    def offloads(self) -> bool:
        """Whether states wait in host memory."""
        return self.offload != ON_DEVICE

    @property
    def hosts_weights(self) -> bool:
        """Whether the weights wait in host memory, too."""
        return self.offload == EVERYTHING and self.spreads.shards_weights

    @property
    def can_be_built(self) -> bool:
        """Whether no layer is shared between ranks, but for experts that DeepSpeed spreads, whose checkpoints resume:
        transformers 5.23 cannot resume a model that is split at load.
        """
        return self.mesh.tensor * self.mesh.context == 1 and (self.mesh.expert == 1 or self.deepspeed)

    @property
    def recompute_interval(self) -> int:
        """One of how many layers is recomputed; 0 where none is."""
        return self.recompute_every if self.checkpointing else 0

    def recomputed(self, layers: int) -> int:
        """How many of a model's layers are recomputed: the first of all, and every n-th one behind it."""
        return -(-layers // self.recompute_interval) if self.checkpointing else 0

    def recomputed_share(self, layers: int) -> float:
        """The same as a share of the layers."""
        return self.recomputed(layers) / layers

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed runs it."""
        return self.spreads.engine == DEEPSPEED

    @property
    def fsdp(self) -> bool:
        """Whether PyTorch's FSDP shards it, over all ranks or in groups."""
        return self.spreads.engine == TORCH_FSDP

    @property
    def shares_packed(self) -> bool:
        """Whether ranks share a base whose weights are packed: each reads its part from a folder in few bits."""
        return self.fsdp and self.adapts.quantized

    @property
    def gpus(self) -> int:
        """Those that train, and those that write answers."""
        return self.mesh.world_size + self.served_by

    @property
    def evaluated(self) -> int:
        """Answers of a batch of an evaluation that writes them: those of a generation, up to EVALUATED."""
        return min(EVALUATED, self.micro_batch * self.accumulation)

    @property
    def global_batch(self) -> int:
        return self.micro_batch * self.accumulation * self.mesh.data_parallel

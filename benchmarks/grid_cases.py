"""The runs on which the memory formula is held against the exact simulation."""

from __future__ import annotations

from hashlib import sha256
from itertools import product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import METHODS as TRAINED
from recipec.axes.adaptations import BEHIND_BOTH, BEHIND_MLP
from recipec.catalog.architecture import Architecture
from recipec.catalog.models import model
from recipec.estimate.memory import MemoryEstimate, step_memory
from recipec.estimate.workload import ALL_LINEAR, LoraShape, Workload, adapter_shape
from recipec.layout import Layout, Mesh
from recipec.rules.adaptation import encoder_hidden_size, scaled_modules, virtual_tokens

MODELS = {  # name -> what it adds
    "meta-llama/Llama-3.1-8B": "grouped queries, 128k vocabulary",
    "Qwen/Qwen2.5-0.5B": "tied embeddings, query and key biases",
    "Qwen/Qwen3-8B": "norms on queries and keys",
    "mistralai/Mistral-7B-v0.3": "32k vocabulary",
    "microsoft/Phi-3-mini-4k-instruct": "fused projections, no grouped queries",
    "google/gemma-3-1b-pt": "tied 262k vocabulary, four norms, sliding window",
    "Qwen/Qwen3-30B-A3B": "mixture of 128 experts",
}
METHODS = ("full", "lora", "qlora")
RANKS = (("single", 1), ("ddp", 8), ("fsdp", 8), ("fsdp", 64), ("hsdp", 32))
TRAINERS = ("sft", "dpo")
OPTIMIZERS = ("adafactor", "lion", "sgd")  # beside AdamW: full fine-tuning of two models, on one device and with DDP
RECOMPUTED = (  # every n-th layer, and whether their inputs wait on the host: three models on one device, sharded whole
    *(("single", method, *kind) for method in ("full", "lora") for kind in ((2, False), (3, True))),
    *(("single", "qlora", *kind) for kind in ((4, False), (1, True))),
    *((strategy, "full", 1, True) for strategy in ("ddp", "fsdp")),
    *(("fsdp", "lora", *kind) for kind in ((2, False), (1, True))),
    ("fsdp", "full", 2, False),
)
ATTENTIONS = (  # what the cases above do not have: masks in packed rows, and attention without a fused kernel
    *(("google/gemma-3-1b-pt", trainer, True, "sdpa") for trainer in ("sft", "continue-pretrain")),
    *((name, "continue-pretrain", True, "sdpa") for name in ("mistralai/Mistral-7B-v0.1", "allenai/Olmo-3-1025-7B")),
    ("meta-llama/Llama-3.1-8B", "sft", True, "sdpa"),
    *((name, "sft", False, "eager") for name in ("google/gemma-2-2b", "openai/gpt-oss-20b")),
)
COMPARISONS = ("kto", "orpo", "cpo", "simpo", "reward")
COMPARED_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-30B-A3B")
TEACHERS = (  # student, teacher: of one vocabulary
    ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B"),
    ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-8B"),
    ("mistralai/Mistral-7B-v0.1", "mistralai/Mixtral-8x7B-v0.1"),
)
WAYS = (*(("full", ranks) for ranks in RANKS[:3]), *(("lora", ranks) for ranks in RANKS[:3]), ("qlora", RANKS[0]))
WRITTEN = 4  # one token in so many is of an answer that the model writes
# Methods that learn from their own answers. PPO shards no value head, nor trains one on a quantized base. Full
# fine-tuning under FSDP is left out: a policy that has written keeps its outermost unit gathered, and no answer is
# simulated.
_ONE_COPY = tuple(way for way in WAYS if way[1][0] != "fsdp")
WRITING = tuple(way for way in WAYS if way in _ONE_COPY or way[0] != "full")
ONLINE = (
    *(("rloo", way) for way in WRITING),
    *(("ppo", way) for way in _ONE_COPY if way[0] != "qlora"),
)
RECOMPUTED_MODELS = ("meta-llama/Llama-3.1-8B", "google/gemma-3-1b-pt", "Qwen/Qwen3-30B-A3B")
OPTIMIZER_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B")
TOKENS = ((1024, 8), (1024, 2), (2048, 1), (2048, 4), (4096, 1), (4096, 2), (8192, 1), (16384, 1))  # length, rows
# Adapters on experts too; in the cases above a mixture of experts has them on attention alone.
EXPERTS = (("Qwen/Qwen3-30B-A3B", 2), ("mistralai/Mixtral-8x7B-v0.1", 8), ("openai/gpt-oss-20b", 4))  # rank on each
EXPERT_WAYS = (*WAYS[3:], ("lora", ("hsdp", 32)))
# DoRA: outputs kept and weights built, without dropout; of the other variants the memory is that of LoRA.
MEASURED_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "microsoft/Phi-3-mini-4k-instruct")
# Prompt tuning, and IA3: outputs and inputs kept before they are scaled; keys and values alone in mixtures of experts.
SCALED_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "microsoft/Phi-3-mini-4k-instruct", "Qwen/Qwen3-30B-A3B")
# P-tuning, and prefixes of a few and of many tokens, and behind an encoder; a prefix goes with no recomputed layers.
PREFIXED_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "microsoft/Phi-3-mini-4k-instruct")
PREFIXED_MODELS += ("google/gemma-3-1b-pt",)
PREFIXES = ((20, 0), (200, 0), (20, 512))  # tokens, width of the encoder
_BEFORE_ROWS = {  # as the rules decide it
    "prompt-tuning": {"virtual_tokens": virtual_tokens().value},
    "p-tuning": {"virtual_tokens": virtual_tokens().value, "encoder_hidden_size": encoder_hidden_size().value},
}
# Bottlenecks behind feed-forward blocks, and behind attention too: one that trains, and attention over frozen ones.
BOTTLENECK_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "google/gemma-3-1b-pt")
# Rows of the embedding that train for new tokens: the copy of the whole matrix, and its gradient. Nothing is sharded.
EXTENDED_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "google/gemma-3-1b-pt")
NEW_ROWS = 1000
# 8-bit bases, whose products round their inputs: kept and recomputed, and layers that are recomputed in part.
ROUNDED_MODELS = (*MEASURED_MODELS, "google/gemma-3-1b-pt", "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B")
ROUNDED_TRAINERS = ("kto", "orpo", "reward", "rloo")
# Layers without attention: model, way, whether layers are recomputed. Short rows, since their rule runs chunk by chunk.
HYBRIDS = (
    *(("Qwen/Qwen3.5-0.8B", way, ("single", 1), True) for way in ("lora", "qlora")),
    ("Qwen/Qwen3.5-0.8B", "full", ("single", 1), False),
    ("Qwen/Qwen3.5-9B", "lora", ("ddp", 8), False),
    *(("Qwen/Qwen3.5-9B", way, ("fsdp", 8), True) for way in ("lora", "full")),
)
HYBRIDS += (
    *(("LiquidAI/LFM2-1.2B", way, ("single", 1), True) for way in ("lora", "qlora")),
    ("LiquidAI/LFM2-1.2B", "full", ("single", 1), False),
    ("LiquidAI/LFM2-2.6B", "lora", ("ddp", 8), False),
    *(("LiquidAI/LFM2-2.6B", way, ("fsdp", 8), True) for way in ("lora", "full")),
)
HYBRIDS += (
    *(("ibm-granite/granite-4.0-h-1b-base", way, ("single", 1), True) for way in ("lora", "qlora")),
    ("ibm-granite/granite-4.0-h-1b-base", "full", ("single", 1), False),
    ("ibm-granite/granite-4.0-h-1b-base", "lora", ("ddp", 8), False),
    *(("ibm-granite/granite-4.0-h-tiny-base", way, ("fsdp", 8), True) for way in ("lora", "full")),
)
# Layers that are one part each: Mamba 2, attention, a feed-forward block alone, or experts alone. Of these the first
# ones, with attention among them: every layer is simulated, and fewer weights hide less of what layers hold.
_NANO, _NANO_V2 = "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
_NANO_EXPERTS = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16"
ALONE = (  # model, way, layers recomputed, how many layers, rank on each expert
    (_NANO, "qlora", ("single", 1), True, 13, 0),
    (_NANO, "full", ("single", 1), False, 13, 0),
    (_NANO_V2, "lora", ("ddp", 8), False, 15, 0),
    (_NANO_V2, "full", ("fsdp", 8), True, 15, 0),
    (_NANO_EXPERTS, "lora", ("single", 1), True, 6, 0),
    (_NANO_EXPERTS, "full", ("fsdp", 8), True, 6, 0),
    (_NANO_EXPERTS, "full", ("fsdp", 8), True, 12, 0),
)
# Attention and Mamba 2 beside each other in every layer.
HYBRIDS += (
    ("tiiuae/Falcon-H1-0.5B-Base", "lora", ("single", 1), True),
    ("tiiuae/Falcon-H1-0.5B-Base", "full", ("single", 1), False),
)
HYBRID_TOKENS = 512
# Attention in heads of two sizes, the wider ones with keys for values: model, way, layers recomputed, packed rows.
TWO_HEADS = (
    *(("google/gemma-4-12B", way, ("single", 1), True, False) for way in ("lora", "qlora")),
    ("google/gemma-4-12B", "full", ("single", 1), False, False),
    ("google/gemma-4-12B", "lora", ("ddp", 8), False, True),
    *(("google/gemma-4-31B", way, ("fsdp", 8), True, False) for way in ("lora", "full")),
)
# The same with experts beside the plain feed-forward block.
TWO_HEADS += (
    ("google/gemma-4-26B-A4B", "lora", ("single", 1), True, False),
    ("google/gemma-4-26B-A4B", "lora", ("ddp", 8), False, True),
    *(("google/gemma-4-26B-A4B", way, ("fsdp", 8), True, False) for way in ("lora", "full")),
)
# The same with layers that borrow keys and values, and slices of a second embedding.
TWO_HEADS += (
    *(("google/gemma-4-E2B", way, ("single", 1), True, False) for way in ("lora", "qlora")),
    ("google/gemma-4-E2B", "full", ("single", 1), False, False),
    ("google/gemma-4-E2B", "lora", ("ddp", 8), False, True),
    *(("google/gemma-4-E2B", way, ("fsdp", 8), True, False) for way in ("lora", "full")),
    ("google/gemma-4-E4B", "lora", ("single", 1), False, False),
    ("google/gemma-4-E4B", "full", ("hsdp", 32), True, False),
)
# Experts beside one that every token passes, behind a dense first layer: model, way, layers recomputed, rank on each.
SHARED = (
    *(("zai-org/GLM-4.5-Air", way, ("single", 1), True, 0) for way in ("lora", "qlora")),
    ("zai-org/GLM-4.5-Air", "lora", ("ddp", 8), False, 0),
    ("zai-org/GLM-4.5-Air", "lora", ("fsdp", 8), True, 2),
    *(("zai-org/GLM-4.5-Air", "full", ("fsdp", ranks), True, 0) for ranks in (8, 64)),
)

SHARED += (
    ("ibm-granite/granite-4.0-h-tiny-base", "lora", ("single", 1), True, 2),
    ("google/gemma-4-26B-A4B", "lora", ("single", 1), True, 2),
)
# Experts that all run for every token, in every layer or in every other one, and attention within chunks.
SHARED += (
    *(("meta-llama/Llama-4-Scout-17B-16E", "lora", ("single", 1), True, rank) for rank in (0, 16)),
    ("meta-llama/Llama-4-Scout-17B-16E", "lora", ("ddp", 8), False, 0),
    ("meta-llama/Llama-4-Scout-17B-16E", "lora", ("fsdp", 8), True, 16),
    ("meta-llama/Llama-4-Scout-17B-16E", "full", ("fsdp", 8), True, 0),
    ("meta-llama/Llama-4-Scout-17B-16E", "full", ("single", 1), False, 0),
    ("meta-llama/Llama-4-Maverick-17B-128E", "lora", ("fsdp", 64), True, 0),
)


class Case(Struct, frozen=True):
    """One run of the grid."""

    model: str
    method: str
    strategy: str
    ranks: int
    trainer: str
    checkpointing: bool
    length: int
    rows: int
    packed: bool
    accumulation: int
    dropout: bool
    optimizer: str = "adamw"
    recompute_every: int = 1
    activation_offload: bool = False
    teacher: str = ""
    attention: str = ""  # empty: flash attention where rows are packed, SDPA elsewhere
    expert_rank: int = 0  # of adapters on each expert; 0: they have none
    magnitudes: bool = False  # DoRA
    prefix: tuple[int, int] = (0, 0)  # tokens, and the width of the encoder that makes them
    behind: str = ""  # what bottlenecks stand behind
    mixed: int = 0  # how many frozen ones are mixed; 0: one trains
    new_rows: int = 0  # of the embedding and the head, that train for new tokens
    layers: int = 0  # the first so many; 0: all

    @property
    def id(self) -> str:
        kept = "checkpointed" if self.checkpointing else "kept"
        kept += f" every-{self.recompute_every}" if self.recompute_every > 1 else ""
        kept += " on-host" if self.activation_offload else ""
        rows = "packed" if self.packed else "padded"
        run = f"{self.method} {self.strategy}-{self.ranks} {self.trainer}"
        dropout = " dropout" if self.dropout else ""
        optimizer = f" {self.optimizer}" if self.optimizer != "adamw" else ""
        batch = f"{self.length}x{self.rows} {rows} accumulate-{self.accumulation}"
        attention = f" {self.attention}" if self.attention else ""
        teacher = f" from {self.teacher}" if self.teacher else ""
        experts = f" experts-{self.expert_rank}" if self.expert_rank else ""
        dora = " dora" if self.magnitudes else ""
        prefix = f" prefix-{self.prefix[0]}-{self.prefix[1]}" if self.prefix[0] else ""
        prefix += f" behind-{self.behind}" if self.behind else ""
        prefix += f" of {self.mixed}" if self.mixed else ""
        added = f" new-rows-{self.new_rows}" if self.new_rows else ""
        added += f" first-{self.layers}-layers" if self.layers else ""
        return (
            f"{self.model} {run} {kept} {batch}{dropout}{optimizer}{attention}{teacher}{experts}{dora}{prefix}{added}"
        )

    @property
    def layout(self) -> Layout:
        meshes = {"fsdp": Mesh(shard=self.ranks), "hsdp": Mesh(replicate=self.ranks // 8, shard=8)}
        return Layout(
            adaptation=self.method,
            precision="bf16",
            strategy=self.strategy,
            mesh=meshes.get(self.strategy, Mesh(replicate=self.ranks)),
            offload="none",
            micro_batch=self.rows,
            accumulation=self.accumulation,
            checkpointing=self.checkpointing,
            attention=self.attention or ("flash_attention_2" if self.packed else "sdpa"),
            packing=self.packed,
            optimizer=self.optimizer,
            recompute_every=self.recompute_every,
            activation_offload=self.activation_offload,
        )

    @property
    def work(self) -> Workload:
        full, shape = self.method == "full", self.architecture
        if given := self._given:
            return self._work(adapter_shape(shape, {"adaptation": self.method, **given}))
        targets = shape.attention_modules if shape.moe else shape.named_linear or ALL_LINEAR
        experts = shape.expert_parameters if self.expert_rank else ()
        shaped = (16, targets, self.dropout, experts, self.expert_rank, self.magnitudes)
        return self._work(None if full else LoraShape(*shaped, new_rows=self.new_rows))

    @property
    def _given(self) -> dict[str, Any]:
        """What is decided of adapters that are no low-rank matrices."""
        if self.method == "ia3":
            return {"ia3_scales": scaled_modules(self.architecture.moe is not None).value}
        if self.prefix[0]:
            return {"prefix_tokens": self.prefix[0], "prefix_encoder_size": self.prefix[1]}
        if self.behind:
            mixed = {"mixed_adapters": tuple(range(self.mixed))} if self.mixed else {}
            return {"reduction_factor": 16, "adapters_after": self.behind} | mixed
        return _BEFORE_ROWS.get(self.method, {})

    def _work(self, adapter: LoraShape | None) -> Workload:
        return Workload(
            objective=self.trainer,
            seq_len_tokens=self.length + (adapter.virtual_tokens if adapter else 0),
            lora=adapter,
            teacher=_architecture(self.teacher) if self.teacher else None,
            written_tokens=self.length // WRITTEN if TRAINED[self.trainer].generates else 0,
            padded=not self.packed,
            sync_each_batch=True,
        )

    @property
    def architecture(self) -> Architecture:
        whole = _architecture(self.model)
        return replace(whole, num_layers=self.layers, pattern=whole.pattern[: self.layers]) if self.layers else whole

    @property
    def formula(self) -> MemoryEstimate:
        return step_memory(self.architecture, self.layout, self.work)


def cases() -> list[Case]:
    """Every model, method, strategy and trainer; the other choices by a hash, which also orders them."""
    rows = [_case(*choice) for choice in product(MODELS, METHODS, RANKS, TRAINERS) if _differs(*choice[1:3])]
    others = product(OPTIMIZER_MODELS, RANKS[:2], OPTIMIZERS)
    rows += [replace(_case(name, "full", ranks, "sft"), optimizer=other) for name, ranks, other in others]
    rows += [_recomputing(name, *kind) for name, kind in product(RECOMPUTED_MODELS, RECOMPUTED)]
    kinds = product(ATTENTIONS, ("full", "lora"), (("single", 1), ("fsdp", 8)))
    rows += [_attending(*kind, method, ranks) for kind, method, ranks in kinds]
    rows += [_comparing(name, *way, trainer) for name, way, trainer in product(COMPARED_MODELS, WAYS, COMPARISONS)]
    rows += [_case(name, *way, trainer) for name, (trainer, way) in product(OPTIMIZER_MODELS, ONLINE)]
    rows += [replace(_case(name, *way, "distill"), teacher=other) for (name, other), way in product(TEACHERS, WAYS)]
    rows += [
        replace(_case(name, *way, "on-policy-distill"), teacher=other)
        for (name, other), way in product(TEACHERS, WRITING)
    ]
    rows += [_on_experts(*mixture, *way, name) for mixture, way, name in product(EXPERTS, EXPERT_WAYS, TRAINERS)]
    rows += [
        replace(_case(name, "ia3", *choice), dropout=False)
        for name, *choice in product(SCALED_MODELS, RANKS[:3], TRAINERS)
    ]
    rows += [
        replace(_case(name, "prompt-tuning", ranks, "sft"), dropout=False, packed=False)
        for name, ranks in product(SCALED_MODELS, RANKS[:2])
    ]
    rows += [replace(_case(name, "p-tuning", RANKS[0], "sft"), dropout=False, packed=False) for name in PREFIXED_MODELS]
    rows += [_prefixed(*choice) for choice in product(PREFIXED_MODELS, RANKS[:2], PREFIXES)]
    rows += [_behind(*choice) for choice in product(BOTTLENECK_MODELS, RANKS[:3], TRAINERS, (BEHIND_MLP, BEHIND_BOTH))]
    places = (BEHIND_MLP, BEHIND_BOTH)
    rows += [_mixed(*choice) for choice in product(BOTTLENECK_MODELS, RANKS[:2], places, (False, True))]
    rows += [_measured(*choice) for choice in product(MEASURED_MODELS, WAYS[3:], TRAINERS, (True, False))]
    rows += [_extended(*choice) for choice in product(EXTENDED_MODELS, WAYS[3:5] + WAYS[6:], (True, False))]
    rows += [_rounded(*choice) for choice in product(ROUNDED_MODELS, TRAINERS, (True, False))]
    rows += [_rounded(ROUNDED_MODELS[0], trainer, True) for trainer in ROUNDED_TRAINERS]
    rows += [replace(_rounded(name, "sft", True), recompute_every=3) for name in ROUNDED_MODELS[:2]]
    rows += [_hybrid(*kind) for kind in HYBRIDS]
    rows += [_alone(*kind) for kind in ALONE]
    rows += [_shared(*kind) for kind in SHARED]
    rows += [_two_heads(*kind) for kind in TWO_HEADS]
    return sorted(rows, key=lambda case: _number(case.id))


def _differs(method: str, ranks: tuple[str, int]) -> bool:
    """Of a 4-bit base that ranks share, one size: its shards are smaller or larger, and nothing else changes."""
    return method != "qlora" or ranks not in RANKS[3:]


def _case(name: str, method: str, ranks: tuple[str, int], trainer: str) -> Case:
    number = _number(f"{name} {method} {ranks} {trainer}")
    length, rows = TOKENS[number // 7 % len(TOKENS)]
    packed = trainer == "sft" and number % 3 == 0
    dropout = trainer == "sft" and method != "full" and number % 11 > 3
    return Case(name, method, *ranks, trainer, number % 5 > 1, length, rows, packed, 1 if number % 4 else 4, dropout)


def _comparing(name: str, method: str, ranks: tuple[str, int], trainer: str) -> Case:
    """At least two rows, between which KTO mixes prompts and completions."""
    case = _case(name, method, ranks, trainer)
    return replace(case, rows=max(2, case.rows))


def _attending(name: str, trainer: str, packed: bool, attention: str, method: str, ranks: tuple[str, int]) -> Case:
    """Rows of at most 8,192 tokens, 4,096 for eager attention, which holds tens of GiB for longer ones."""
    case = _case(name, method, ranks, trainer)
    length = min(case.length, 4096 if attention == "eager" else 8192)
    return replace(case, length=length, packed=packed, attention=attention)


def _on_experts(name: str, rank: int, method: str, ranks: tuple[str, int], trainer: str) -> Case:
    """Without dropout, which adapters on experts do not have."""
    case = replace(_case(name, method, ranks, trainer), dropout=False, expert_rank=rank)
    if name.startswith("openai/"):
        return replace(case, length=min(case.length, 4096), packed=False, attention="eager")
    return case


def _measured(name: str, way: tuple[str, tuple[str, int]], trainer: str, checkpointing: bool) -> Case:
    """Without dropout, which DoRA does not take; short rows, where the weights count, and long ones."""
    case = _case(name, *way, trainer)
    return replace(case, dropout=False, magnitudes=True, checkpointing=checkpointing)


def _extended(name: str, way: tuple[str, tuple[str, int]], checkpointing: bool) -> Case:
    return replace(_case(name, *way, "sft"), new_rows=NEW_ROWS, checkpointing=checkpointing)


def _prefixed(name: str, ranks: tuple[str, int], prefix: tuple[int, int]) -> Case:
    case = _case(name, "prefix-tuning", ranks, f"sft {prefix}")
    length = min(case.length, 8192)
    return replace(case, trainer="sft", length=length, prefix=prefix, checkpointing=False, dropout=False, packed=False)


def _behind(name: str, ranks: tuple[str, int], trainer: str, behind: str) -> Case:
    """Rows of at most 8,192 tokens: at 16,384 the first 8 layers of Gemma 3 have another peak than all 26."""
    case = _case(name, "bottleneck", ranks, f"{trainer} {behind}")
    return replace(case, trainer=trainer, length=min(case.length, 8192), dropout=False, behind=behind)


def _mixed(name: str, ranks: tuple[str, int], behind: str, checkpointing: bool) -> Case:
    """Of two adapters behind feed-forward blocks, of five behind attention too."""
    case = _case(name, "fusion", ranks, f"sft {behind}")
    shape = {"behind": behind, "mixed": 2 if behind == BEHIND_MLP else 5, "dropout": False}
    return replace(case, trainer="sft", length=min(case.length, 4096), checkpointing=checkpointing, **shape)


def _rounded(name: str, trainer: str, checkpointing: bool) -> Case:
    case = _case(name, "lora-int8", RANKS[0], trainer)
    return replace(case, rows=max(2, case.rows), checkpointing=checkpointing)


def _two_heads(name: str, method: str, ranks: tuple[str, int], checkpointing: bool, packed: bool) -> Case:
    """Packed rows with masks over all pairs: no flash kernel takes heads of 512 features."""
    case = _case(name, method, ranks, "sft")
    attention = "sdpa" if packed else ""
    return replace(case, length=min(case.length, 4096), packed=packed, attention=attention, checkpointing=checkpointing)


def _hybrid(name: str, method: str, ranks: tuple[str, int], checkpointing: bool) -> Case:
    case = _case(name, method, ranks, "sft")
    return replace(case, length=HYBRID_TOKENS, packed=False, checkpointing=checkpointing)


def _alone(name: str, method: str, ranks: tuple[str, int], checkpointing: bool, layers: int, expert_rank: int) -> Case:
    """Without dropout, which adapters on experts do not have."""
    case = replace(_hybrid(name, method, ranks, checkpointing), layers=layers, expert_rank=expert_rank)
    return replace(case, dropout=case.dropout and not expert_rank)


def _shared(name: str, method: str, ranks: tuple[str, int], checkpointing: bool, expert_rank: int) -> Case:
    case = _case(name, method, ranks, "sft")
    return replace(case, checkpointing=checkpointing, dropout=False, expert_rank=expert_rank)


def _recomputing(name: str, strategy: str, method: str, every: int, on_host: bool) -> Case:
    case = _case(name, method, (strategy, 1 if strategy == "single" else 8), "sft")
    return replace(case, checkpointing=True, recompute_every=every, activation_offload=on_host)


def _architecture(name: str) -> Architecture:
    found = model(name)
    assert found is not None
    return found.architecture


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:8], 16)

"""The tables of [train] that shape an adapter: its size, and where in a model it stands."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recipec.axes import LORA_VARIANTS
from recipec.axes.adaptations import BEHIND_BOTH, BEHIND_MLP
from recipec.recipe.fields import Line, Section, key, one_of

Variant = one_of({row.name: row.means for row in LORA_VARIANTS.values()})
Targets = Literal["all-linear", "attention"] | Annotated[list[Line], Field(min_length=1, max_length=256)]


class Lora(Section):
    """LoRA adapters, also for QLoRA."""

    rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Rank", "LoRA rank. A higher rank can learn more and needs more memory.", 16
    )
    alpha: Annotated[float, Field(gt=0, le=65_536)] | None = key(
        "Alpha", "LoRA alpha: the adapter output is multiplied by alpha / rank, with rslora by alpha / sqrt(rank).", 32
    )
    targets: Targets | None = key(
        "Targets",
        "Modules that get an adapter: `all-linear` (in a mixture of experts, attention and all experts), `attention`, "
        "or "
        "a list of module names, such as `q_proj` or `experts.gate_up_proj`.",
        "all-linear",
        ["q_proj", "v_proj"],
    )
    expert_rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Expert rank",
        "LoRA rank for each expert of a mixture of experts, if its experts get adapters.",
        2,
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = key(
        "Dropout", "Dropout probability on the input of the adapters.", 0.05
    )
    variant: Variant | None = key(
        "Variant",
        "Variant of LoRA. recipec uses one only if the recipe sets it.",
        *LORA_VARIANTS,
    )


VirtualTokens = Annotated[int, Field(ge=1, le=1024)]
EncoderWidth = Annotated[int, Field(ge=1, le=16_384)]
After = one_of(
    {
        BEHIND_MLP: "the feed-forward block (Pfeiffer et al.)",
        BEHIND_BOTH: "attention, and the feed-forward block (Houlsby et al.): twice as many adapters",
    }
)


class Prompt(Section):
    """The soft prompt of prompt tuning and P-tuning."""

    virtual_tokens: VirtualTokens | None = key(
        "Virtual tokens", "Length of the soft prompt: number of trained embeddings before each row.", 20
    )
    encoder_hidden_size: EncoderWidth | None = key(
        "Encoder hidden size",
        "Width of the network of P-tuning, which makes the embeddings. With this key, recipec uses P-tuning unless "
        "`train.adaptation` is set.",
        128,
        absent="128 with P-tuning; prompt tuning has no such network",
    )


class Prefix(Section):
    """The prefix of prefix tuning."""

    virtual_tokens: VirtualTokens | None = key(
        "Virtual tokens", "Length of the prefix: number of trained keys and values before each row, in every layer.", 20
    )
    encoder_hidden_size: EncoderWidth | None = key(
        "Encoder hidden size",
        "Width of a network that makes the keys and values during training (PEFT's `prefix_projection`).",
        512,
        absent="no network: the keys and values are trained themselves",
    )


class Bottleneck(Section):
    """Bottleneck adapters: small networks with a residual connection behind linear modules of a frozen model."""

    reduction_factor: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Reduction factor",
        "Width of the model divided by the width of an adapter: a smaller factor makes larger adapters.",
        16,
    )
    after: After | None = key(
        "After",
        "What an adapter stands behind in each layer.",
        BEHIND_MLP,
    )

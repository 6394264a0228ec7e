"""What a plan trains, in a line: the adaptation with its shape, and experts with a capacity."""

from __future__ import annotations

from typing import Any

from recipec.axes import BASES, LORA_VARIANTS, METHODS, adaptation_of
from recipec.axes.adaptations import BEHIND_BOTH, BEHIND_MLP, MATRICES
from recipec.axes.lora_variants import STANDARD
from recipec.units import value_text

Document = dict[str, Any]

_PLACES = {BEHIND_MLP: "each feed-forward block", BEHIND_BOTH: "attention and feed-forward block of each layer"}


def trained(choice: Document, values: Document) -> str:
    """What is trained, how, and with which optimizer: "LoRA, rank 16 on all-linear, in bf16 with adamw"."""
    row = adaptation_of(choice["adaptation"], choice["quantization"])
    what = METHODS[values["stage"]].called(row)
    if not row.trains_all:
        bits = f"{BASES[row.base].bits}-bit"
        base = f", {bits} base" if row.quantized and bits not in what else ""
        rank, targets = value_text(values.get("lora_rank")), value_text(values.get("lora_targets"))
        variant = LORA_VARIANTS[values.get("lora_variant", STANDARD.name)]
        what += "" if variant is STANDARD else f" ({variant.title})"
        shape = f", rank {rank} on {targets}{_on_experts(values)}" if row.trains == MATRICES else ""
        shape += _before_rows(values) + _behind(values)
        what = f"{what}{base}{shape}"
    products = ", products of linear layers in FP8," * bool(values.get("fp8"))
    return f"{what}, in {choice['precision']}{products} with {choice['optimizer']}"


def _before_rows(values: Document) -> str:
    """The virtual tokens, and the width of the network that makes them, where there are such."""
    tokens = values.get("virtual_tokens", values.get("prefix_tokens"))
    encoder = values.get("encoder_hidden_size") or values.get("prefix_encoder_size")
    made = f" from an encoder {encoder} wide" if encoder else ""
    return f", {tokens} virtual tokens{made}" if tokens else ""


def _behind(values: Document) -> str:
    """How narrow bottleneck adapters are, and where they stand, or which of them are mixed there."""
    if "reduction_factor" not in values:
        return ""
    mixed = ", ".join(values.get("mixed_adapters", ()))
    what = f" over the adapters {mixed}" if mixed else f", 1/{values['reduction_factor']} of the model's width"
    return f"{what}, behind {_PLACES[values['adapters_after']]}"


def dispatched(values: Document) -> str:
    """Experts in layers of DeepSpeed-MoE: how many parameters are at work, and for how many tokens there is room."""
    active, ranks = values["active_params"], values["expert_parallel"]
    shared = f"spread over {ranks} ranks" if ranks > 1 else "all on every rank"
    room = f"capacity factor {values['capacity_factor']:g} ({values['eval_capacity_factor']:g} in evaluations)"
    used = f"{active / 1e9:.3g}B of {values['params'] / 1e9:.3g}B parameters at work for each token"
    return f"{used}, experts {shared}, {room}"


def _on_experts(values: Document) -> str:
    rank = values.get("lora_expert_rank")
    frozen = ", the MLP beside the experts frozen" if values.get("shared_mlp") else ""
    return f", {rank} on each expert{frozen}" if rank else ""

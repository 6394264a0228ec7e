"""What one decoder layer saves for the backward pass, and what its backward needs on top, in bytes per token.

The terms follow the operations of the transformers 5 Llama family one by one (RMSNorm in fp32, rotary embedding,
fused attention, SwiGLU) and equal the integer coefficients that a simulation of the real modules on fake tensors
gives (2026-11: 18h + 8f + 6q + 4kv + 4H + 14r + 8 for LoRA under autocast, which a test holds; its siblings in peaks).
h hidden, f feed-forward, q query and kv key width, H heads, r rank.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import ATTENDING, Architecture, LayerKind
from recipec.catalog.model_types import MODEL_TYPES
from recipec.estimate.all_experts import all_experts
from recipec.estimate.bottlenecks import kept_behind, kept_for_nothing
from recipec.estimate.codepath import CodePath
from recipec.estimate.dispatched import dispatched
from recipec.estimate.entering import kept_by_gate
from recipec.estimate.experts import adapted_experts
from recipec.estimate.magnitudes import added_outputs, kept_outputs
from recipec.estimate.mixers import NO_MIXER, mixing
from recipec.estimate.modules import adapted_modules, dropped, keeps_output, kept_inputs, ranks_kept
from recipec.estimate.rounding import SCALED_WIDTHS, inner_scaled, one_projection
from recipec.estimate.scales import inputs_scaled, kept_outputs_scaled
from recipec.estimate.workload import LoraShape


class Activations(Struct, frozen=True):
    """Bytes per token of one layer, and of what lies around the layers."""

    checkpoint: int  # the layer's input: all that checkpointing keeps
    saved: int  # everything kept without checkpointing
    ungraded: int  # the part of it that the first layer does not keep, because nothing below it trains
    mlp: int  # the part of it that the feed-forward block keeps
    experts_input: int  # gradient of what the experts' last product takes, while that of its weights is made
    backward: int  # transient of the layer's backward, on top of `saved`
    product: int  # the part of it that is live while a dequantised weight is multiplied
    forward: int  # transient of a forward that saves nothing (evaluation, reference): of its feed-forward block
    attention: int  # the same, of its attention or mixer
    mixing: int  # transient of a mixer's backward, when what the feed-forward block saved is freed; 0 for attention
    outputs: int  # in a forward, while a module scales and adds its outputs by their magnitudes (DoRA); else 0
    tail: int  # final norm
    earlier: int  # inputs of its 4-bit products that the last micro step's graph still holds


def kinds_of(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> tuple[Activations, ...]:
    """Of every kind of layer that a model has, in the order of `Architecture.kinds`."""
    return tuple(activations(architecture, lora, path, kind) for kind, _ in architecture.kinds)


def activations(
    architecture: Architecture, lora: LoraShape | None, path: CodePath, kind: LayerKind = ATTENDING
) -> Activations:
    """Saved and transient bytes per token of a layer of a kind under a code path."""
    if kind.whole:
        architecture = architecture.attending(None)
    norms = _norms(architecture, lora, path, kind)
    mixer = mixing(architecture, lora, path) if kind.mixer else NO_MIXER
    attention = _attention(architecture, lora, path, kind) if kind.attention else 0
    running = _attention_forward(architecture, path) if kind.attention else 0
    mlp_saved, mlp_transient, mlp_forward = _mlp(architecture, lora, path, kind)
    hidden = architecture.hidden_size
    backward = path.residual * hidden * (3 if path.reentrant else 1) + mlp_transient
    if architecture.norms_per_layer == 4 and lora is None:  # the norm behind the MLP is through by then
        backward -= (4 + _normalised(architecture, path)) * hidden
    gate = kept_by_gate(architecture, lora, path)
    if architecture.layer_inputs:  # the gate and its norm are through, too
        backward -= (4 + (_normalised(architecture, path) if lora is None else 0)) * hidden + gate
    copy = 4 if path.adapter_copy else 0  # the adapter's fp32 input
    return Activations(
        checkpoint=path.residual * hidden,
        saved=norms + attention + mixer.saved + mlp_saved + gate,
        ungraded=kept_for_nothing(architecture, lora, path, norms, attention, mlp_saved),
        mlp=mlp_saved,
        experts_input=_routed_inner(architecture, lora, path) if kind.block and not kind.plain else 0,
        backward=backward,
        product=backward - path.compute * architecture.inner_size(kind),
        attention=3 * path.residual * hidden + max(mixer.forward, running),
        mixing=mixer.backward,
        forward=(3 * path.residual + path.compute + copy) * hidden + mlp_forward,
        outputs=added_outputs(architecture, [name for name, _, _ in architecture.linear_shapes()], lora, path),
        tail=final_norm(architecture, lora is None, path),
        earlier=max(0, path.saves_frozen_inputs - 1) * _product_inputs(architecture, path),
    )


def final_norm(architecture: Architecture, trains: bool, path: CodePath) -> int:
    """Bytes per token that the norm behind the layers keeps: its fp32 input, and for its weight the normalised one."""
    return architecture.hidden_size * (4 + (_normalised(architecture, path) if trains else 0))


def _product_inputs(architecture: Architecture, path: CodePath) -> int:
    """What the linear modules of a layer take: two norms, attention's output, the feed-forward block's inner width."""
    return path.compute * (2 * architecture.hidden_size + architecture.query_size + architecture.intermediate_size)


def _norms(architecture: Architecture, lora: LoraShape | None, path: CodePath, kind: LayerKind) -> int:
    """Each norm keeps its fp32 input and its scale; a trained weight also needs the normalised input."""
    normalised = _normalised(architecture, path)
    per_feature = 4 + (normalised if lora is None else 0)
    per_feature = path.compute if path.fused_norms else per_feature  # one kernel: its own input, nothing in fp32
    heads = architecture.num_heads + architecture.num_kv_heads * (not kind.borrows)
    qk_features = architecture.query_size + architecture.kv_size * (not kind.borrows)
    of_heads = 4 if MODEL_TYPES[architecture.model_type].norms_in_fp32 else path.compute
    weighted = of_heads if lora is None and architecture.qk_norm != "unit" else 0
    qk = qk_features * (4 + weighted) + 4 * heads if architecture.qk_norm else 0
    if architecture.values_normed and not kind.borrows:
        qk += 4 * (architecture.kv_size + architecture.num_kv_heads)
    count = architecture.norms_per_layer + (architecture.moe.norms if architecture.moe else 0)
    count += architecture.layer_inputs is not None
    return count * (per_feature * architecture.hidden_size + 4) + qk * kind.attention


def _normalised(architecture: Architecture, path: CodePath) -> int:
    """Bytes of the normalised input that a trained norm keeps: some multiply it with the weight in fp32."""
    return 4 if MODEL_TYPES[architecture.model_type].norms_in_fp32 else path.residual


def _attention_forward(architecture: Architecture, path: CodePath) -> int:
    """Queries, keys and values before and behind their rotation."""
    return path.compute * (3 * architecture.query_size + 2 * architecture.kv_size)


def _attention(architecture: Architecture, lora: LoraShape | None, path: CodePath, kind: LayerKind) -> int:
    """Fused attention keeps q, k, v, its output and one fp32 number per head; k and v are borrowed ones elsewhere."""
    q, modules = architecture.query_size, architecture.modules
    if kind.borrows:
        modules = replace(modules, qkv=modules.qkv[:1])
    kv = q if path.repeated_kv else 0 if kind.borrows else architecture.kv_size
    kept = path.compute * (2 * q + 2 * kv + path.placed_features) + 4 * architecture.num_heads
    expanded = kv > architecture.kv_size
    prefixed = lora is not None and lora.prefix_tokens
    if (
        len(modules.qkv) == 1 and not expanded and not prefixed and path.outputs == path.compute
    ):  # values are a view: the projection stays beside rotated queries, keys
        kept += path.compute * (q + architecture.kv_size)
    if architecture.attention_gate:  # the sigmoid, and the product, which is what the output projection takes
        kept += path.compute * q * (2 if keeps_output(architecture, lora, path) else 1)
    inputs = kept_inputs(architecture.hidden_size, modules.qkv, lora, path)
    kept += kept_outputs_scaled(architecture, modules.qkv, lora, path)
    kept += kept_outputs(architecture, modules.qkv, lora, path, path.outputs)
    kept += kept_behind(architecture, (modules.output,), lora, path)
    kept += kept_outputs(architecture, (modules.output,), lora, path, path.compute)  # attention gives the compute type
    if adapted_modules((modules.output,), lora):
        shared = path.outputs > path.compute  # attention gives the compute type, as the adapter takes it then
        kept += path.adapter_copy * q * (not shared) + dropped(q, 1, lora, path) + ranks_kept(1, lora, path)
    return kept + inputs


def _mlp(architecture: Architecture, lora: LoraShape | None, path: CodePath, kind: LayerKind) -> tuple[int, int, int]:
    """(saved, transient of the backward, transient of a forward) of the feed-forward block."""
    if not kind.block:
        return 0, 0, 0
    experts = architecture.moe
    if experts is None or kind.plain:
        return _dense_mlp(architecture, architecture.inner_size(kind), lora, path)
    if path.capacity_factor:
        return dispatched(architecture, path)
    law = all_experts if experts.all_run else _experts
    saved, transient, forward = law(architecture, lora, path)
    if experts.shared_intermediate_size:
        shared = _dense_mlp(architecture, experts.shared_intermediate_size, lora, path)
        return saved + shared[0], max(transient, shared[1]), max(forward, shared[2])
    return saved, transient, forward


def _dense_mlp(architecture: Architecture, inner: int, lora: LoraShape | None, path: CodePath) -> tuple[int, int, int]:
    hidden, modules, width = architecture.hidden_size, architecture.modules, path.compute * inner
    adapted = adapted_modules((modules.mlp_out,), lora)
    drops = lora is not None and lora.dropout  # the adapter then keeps a dropped copy, in fp32 for its own type
    product = lora is None or path.saves_frozen_inputs or (adapted and not path.adapter_copy and not drops)
    saved = (3 if architecture.gated_mlp else 1) * path.outputs * inner + (width if product else 0)
    saved += kept_inputs(hidden, modules.mlp_in, lora, path)
    saved += kept_outputs(architecture, (*modules.mlp_in, modules.mlp_out), lora, path, path.outputs)
    saved += inputs_scaled(architecture, inner, lora, path).kept
    saved += kept_behind(architecture, (modules.mlp_out,), lora, path)
    transient = 3 * width - (width if product and not path.rounds_inputs else 0)  # integers hold theirs until then
    if adapted:
        saved += path.adapter_copy * inner + dropped(inner, 1, lora, path) + ranks_kept(1, lora, path)
        if path.adapter_copy:  # the cast back to fp32 in the down projection's backward
            transient = 3 * width + 4 * path.compute * hidden + 4 * inner * drops
        elif drops:
            transient = 2 * width + path.residual * hidden
    if added := added_outputs(architecture, (*modules.mlp_in, modules.mlp_out), lora, path):
        transient = path.outputs * (inner + 5 * hidden)
        transient += added * 5 // 6 if path.adapter_copy == path.outputs else 0
    if path.rounds_inputs:
        transient = max(transient + path.compute * hidden, inner_scaled(architecture, inner, lora, path) - saved)
    forward = _mlp_forward(architecture, bool(adapted_modules(modules.mlp_in, lora)), path) * inner
    scaling = inputs_scaled(architecture, inner, lora, path)
    return saved, max(transient, scaling.backward), max(forward, scaling.forward)


def _mlp_forward(architecture: Architecture, adapted: bool, path: CodePath) -> int:
    """Bytes of a feature that are live at once: the activation and two products; adapters add theirs before they are
    summed, in fp32 where autocast does not cast them."""
    one, width = one_projection(architecture), path.outputs
    if adapted and path.adapter_copy > path.compute:
        summed = width + 2 * path.adapter_copy
        return 2 * summed if one else width + summed
    if path.rounds_inputs:
        return SCALED_WIDTHS[one] * width
    return ((6 if adapted else 4) if one else (4 if adapted else 3)) * width


def _experts(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> tuple[int, int, int]:
    """Grouped experts: each token passes `per_token` of them; 4-bit loading leaves them alone."""
    experts = architecture.moe
    assert experts is not None
    held = path.residual if lora is None else path.compute  # autocast leaves the grouped product alone
    width = _routed_inner(architecture, lora, path)
    routed = held * experts.per_token * architecture.hidden_size
    saved = 3 * width + routed  # gate and up, activation; expert outputs before weighting
    adapted = {name for name, *_ in adapted_experts(architecture, lora)}
    # inputs of the grouped products, for their weights' gradients
    saved += width if lora is None or experts.down in adapted else 0
    saved += routed if lora is None or experts.gate_up in adapted else 0
    saved += 3 * width * experts.bias  # gpt-oss clamps gate and up, and adds one to it
    if experts.router:  # the norm before it; where its scale trains, the normalised input, and its own input
        saved += (path.residual + path.compute if lora is None else 4) * architecture.hidden_size + 4
    saved += 4 * 3 * experts.count  # router logits, probabilities and their gradient path, fp32
    # What experts give is weighted and put in order, in fp32 where a router's weights are; beside it what the plain
    # block gave waits there.
    weighted = max(held, 4 if experts.router else 0) * experts.per_token * architecture.hidden_size
    beside = 2 * path.compute * architecture.hidden_size
    waiting = beside if experts.router else 0
    scattered = routed + 2 * weighted + beside + waiting  # gradients on their way back to the experts
    return saved, max(3 * width + routed, scattered), 3 * width + routed + 2 * weighted + waiting


def _routed_inner(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> int:
    """Bytes per token between the experts' two products; 0 without experts."""
    experts = architecture.moe
    held = path.residual if lora is None and not (experts and experts.all_run) else path.compute
    return held * experts.computed * experts.intermediate_size if experts else 0

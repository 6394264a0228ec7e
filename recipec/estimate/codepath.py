"""The code path of one run: in which type each kind of tensor is held, and who holds a share of it.

Sources (read 2026-11 in the pinned stack): TRL 1.16 `create_model_from_path`, PEFT 0.21 `autocast_adapter_dtype`,
PEFT 0.21 `Linear4bit.forward` (under autocast it does not cast what DoRA's fp32 magnitudes made fp32),
accelerate 1.15 `fsdp2_prepare_model` (trainable parameters become fp32 shards), DeepSpeed 0.19 `stage_1_and_2.py`
and `stage3.py` (the engine casts the module to bf16 and keeps fp32 masters).
"""

from __future__ import annotations

from msgspec import Struct

from recipec.axes import BASES
from recipec.axes.bases import BLOCK as BY_BLOCK
from recipec.axes.bases import ROW as BY_ROW
from recipec.axes.optimizers import PAGED
from recipec.estimate.optimizers import FP32_BYTES, state_bytes
from recipec.estimate.workload import Workload
from recipec.layout import Layout

BLOCK, NESTED_BLOCK = 64, 256  # weights per absmax, and absmax values per second scale (bitsandbytes)
SECOND_SCALE = FP32_BYTES / (BLOCK * NESTED_BLOCK)  # bytes per weight


class CodePath(Struct, frozen=True):
    """Bytes per parameter of each kind, and the ranks that share it."""

    compute: int  # activations
    residual: int  # the stream between layers; 4 where fp32 weights or norms promote it
    frozen: int  # weights that do not train and are not quantised
    quantized: float  # bytes per quantised weight, 0 where nothing is quantised
    second_scales: float  # of these, what every rank keeps whole where the others are shared
    row_scale: int  # bytes per row of a quantised matrix, 0 where blocks have the scales
    rounds_inputs: bool  # products of integers: their inputs are rounded, their results scaled
    trained: int  # weights that train (full) or adapters
    master: int  # the engine's fp32 copy, 0 where the weights are their own master
    gradient: int
    reduced: int  # of a gradient on its way between ranks that share weights
    step_gradient: int  # fp32 copy of the gradient shard that DeepSpeed makes for the step
    optimizer: float
    paged_optimizer: bool
    weight_shards: int
    gradient_shards: int
    state_shards: int
    autocast: bool  # casts the operands of matrix products to the compute type
    autocast_copies: bool  # autocast keeps a compute-type copy of each fp32 weight until the forward ends
    outputs: int  # what linear modules give: 4 where DoRA on a quantized base leaves them in fp32
    adapter_copy: int  # bytes of the adapter's own copy of its input, 0 where it shares the input
    dropout_mask: int  # bytes per element
    whole_tiles: bool  # TRL's head folds its tiles with operations of torch, which make tiles of their own
    saves_frozen_inputs: int  # micro steps for which products with quantised weights keep theirs
    fused_norms: bool
    placed_features: int
    repeated_kv: bool
    reentrant: bool
    capacity_factor: float  # of experts that DeepSpeed-MoE computes; 0 where it does not
    holds_inputs: bool  # FSDP1's hooks on frozen units hold each layer's recomputed input and its gradient to the end

    @property
    def vector(self) -> int:
        """Bytes of a number of a trained vector in a forward: gathered ones come in the compute type."""
        return self.compute if self.weight_shards > 1 else max(self.trained, self.compute)


def code_path(layout: Layout, work: Workload) -> CodePath:
    """Resolve the code path that `layout` and `work` take."""
    low = 4 if layout.precision == "fp32" else 2
    spreads, full, base = layout.spreads, layout.adapts.trains_all, BASES[layout.adapts.base]
    trained = _trained_bytes(layout, work, low)
    master = 4 if spreads.keeps_master and trained == 2 else 0
    autocast = work.autocast and low == 2 and not spreads.shards_weights and not spreads.keeps_master
    widened = autocast and layout.adapts.quantized and work.lora is not None and work.lora.magnitudes
    adapter_copy = 0 if full else low if widened else _adapter_copy(layout, work, trained, low)
    shard = layout.mesh.shard * layout.mesh.context  # FSDP shards over both
    return CodePath(
        compute=low,
        residual=4 if (full and autocast and trained == 4) or work.kbit_fp32_residual or widened else low,
        frozen=0 if full else low,
        quantized=_quantized_bytes(layout, work),
        second_scales=SECOND_SCALE if base.scaled_by == BY_BLOCK and work.double_quant and work.fsdp == 2 else 0.0,
        row_scale=FP32_BYTES if base.scaled_by == BY_ROW else 0,
        rounds_inputs=base.rounds_inputs,
        trained=trained,
        master=master,
        gradient=low if spreads.keeps_master else trained,
        reduced=4 if work.reduces_in_fp32 else low,
        step_gradient=4 if master else 0,
        optimizer=state_bytes(layout.optimizer, max(trained, master)),
        paged_optimizer=layout.optimizer in PAGED,
        weight_shards=shard if spreads.shards_weights else 1,
        gradient_shards=shard if spreads.shards_gradients else 1,
        state_shards=shard if spreads.shards_states else 1,
        autocast=autocast,
        autocast_copies=autocast and trained == 4,
        outputs=4 if widened else low,
        adapter_copy=adapter_copy,
        dropout_mask=(4 if adapter_copy else low) if work.on_cpu else 1,
        whole_tiles=work.on_cpu,
        saves_frozen_inputs=_saving_steps(layout, work),
        fused_norms=work.fused_kernels and full,
        placed_features=work.placed_features,
        repeated_kv=work.repeated_kv,
        reentrant=work.reentrant and not full,
        capacity_factor=work.capacity_factor,
        holds_inputs=work.fsdp == 1 and spreads.shards_weights and not full,
    )


def _trained_bytes(layout: Layout, work: Workload, low: int) -> int:
    if layout.spreads.keeps_master:
        return low
    if layout.adapts.trains_all:
        return low if work.full_weights == "bf16" else 4
    return 4 if work.adapters == "fp32" else 2


def _quantized_bytes(layout: Layout, work: Workload) -> float:
    """bitsandbytes: packed weights, and for each block an fp32 absmax, or one of a byte with a scale of its own."""
    base = BASES[layout.adapts.base]
    packed = (base.bits or 0) / 8
    if base.scaled_by != BY_BLOCK:
        return packed
    return packed + (1 / BLOCK + SECOND_SCALE if work.double_quant else FP32_BYTES / BLOCK)


def _saving_steps(layout: Layout, work: Workload) -> int:
    """bitsandbytes 0.50 `MatMul8bitLt` hangs its input on the node of the graph, which lives until the graph goes."""
    if BASES[layout.adapts.base].rounds_inputs:
        return 1
    return work.saves_4bit_inputs if layout.adapts.quantized else 0


def _adapter_copy(layout: Layout, work: Workload, trained: int, low: int) -> int:
    """PEFT casts an adapter's input to the adapter's type; autocast casts it back, so each module saves its own.

    On a 4-bit base PEFT skips that cast under autocast; hand-fused kernels never make it.
    """
    if work.fused_kernels or trained == low:
        return 0
    if layout.adapts.quantized and work.autocast:
        return 0
    if layout.spreads.shards_weights and work.fsdp == 2:
        return 0  # the gathered adapters are already in the compute type
    return low if work.autocast else 4

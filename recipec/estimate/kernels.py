"""How long the GPU and the Python that feeds it take for one micro step.

A step is the slower of two streams: the kernels (matrix products at a share of the peak rate, everything else at
memory bandwidth) and the launches (eager Python issues them one by one). The constants are stated with their origin;
benchmarks/throughput_accuracy.py scores the result against published runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from recipec.axes.method import POLICY
from recipec.catalog.architecture import Architecture, LinearShape
from recipec.catalog.measured import Measured, rate_at
from recipec.estimate.bottlenecks import MIXING_MATRICES
from recipec.estimate.codepath import CodePath
from recipec.estimate.flops import StepFlops, forward_flops
from recipec.estimate.magnitudes import LAUNCHES, UNIT_TRAFFIC, WEIGHT_TRAFFIC, measured_modules
from recipec.estimate.recurrence import (
    launched_backward,
    launched_forward,
    moved_backward,
    moved_forward,
    recurrent_flops,
)
from recipec.estimate.rounding import WEIGHT_TRAFFIC as ROUNDED_TRAFFIC
from recipec.estimate.rounding import rounding_launches, rounding_traffic
from recipec.estimate.step import Step
from recipec.estimate.workload import Workload
from recipec.layout import Layout

# Share of the dense peak that large bf16 products reach, by architecture generation (cuBLAS on square products:
# A100 0.78, H100 0.62 under its power limit, Ada 0.8; T4 falls to its 70 W limit). Read 2026-11. Volta, the small
# Ampere cards and Blackwell are our decision, by their neighbours: the B200 (10.0) by the H100; the B300
# (10.3) is assumed to be like the B200, and no figure of it was read.
MATMUL_SHARE = {7.0: 0.7, 7.5: 0.45, 8.0: 0.78, 8.6: 0.75, 8.9: 0.78, 9.0: 0.62, 10.0: 0.62, 10.3: 0.62, 12.0: 0.75}
MATMUL_SHARE_OTHER = 0.5  # no published figure used: AMD and unknown cards
# Flash attention against large products. FlashAttention-2 reaches 0.5 to 0.73 of an A100's peak (Dao 2023): 0.7 of the
# products' 0.78 is 0.55, in the lower half of that, our decision with benchmarks/data/published_throughput.csv in view.
# On an H100 319 of 989 TFLOP/s in a causal forward at 4,096 tokens (Shah et al. 2024, figure 5): 0.5 of its 0.62.
ATTENTION_SHARE = 0.7
ATTENTION_SHARE_HOPPER = 0.5
# Version 2 is 1.3 to 1.5 times as fast as the first one in Triton forward, about twice as fast backward (Dao 2023,
# section 4.1), which is 2.5 of the 3.5 parts of the operations.
FIRST_FLASH_SHARE = 3.5 / (1.4 + 2.5 * 2)
BANDWIDTH_SHARE = 0.8  # of the memory's peak, in elementwise kernels: our decision
# Small batches leave the matrix units idle: the rate falls to a half at this many tokens per product, our decision.
HALF_RATE_TOKENS = 256
# Elementwise traffic: bytes moved per byte saved for backward, counted on the eager Llama layer (norms in fp32, rotary
# embedding, residuals, SwiGLU): 2.9 forward, about twice that backward. An adapter's forward reads its input, casts it
# to its own type and back, and reads, scales and adds its output; its backward moves twice that.
TRAFFIC_FORWARD = 2.9
TRAFFIC_BACKWARD = 5.8
# Of the forward's traffic in a pass that keeps nothing, without that of adapters: our decision.
SCORING_SHARE = 0.6
ADAPTER_INPUT_BYTES = 2
ADAPTER_CAST_BYTES = 12
ADAPTER_OUTPUT_BYTES = 12
# An eager operation issued by Python, and operations per layer and pass of the transformers Llama layer: a 32-layer
# model takes 25 to 30 ms for a forward of one token. PEFT adds its casts, two products, a scale and an add per module.
LAUNCH_SECONDS = 18e-6
LAYER_LAUNCHES = 45
ADAPTER_LAUNCHES = 9
# Times that the weights of adapted experts are moved where PEFT builds them from W and the adapters: W read, W + BA
# written; backward: their gradient written, and read for either matrix. The products of a low rank hide behind that.
BUILT_FORWARD, BUILT_BACKWARD = 2.0, 3.0
DEQUANTIZE_BYTES = 0.52 + 2 + 2  # read packed, write and read back the compute type


class Card(Protocol):
    """What the estimates need to know of a GPU; catalog entries have it."""

    name: str
    memory_gib: float
    bandwidth_gb_s: float
    bf16_tflops: float | None
    fp16_tflops: float
    capability: float | None
    link: str
    link_gb_s: float
    measured: Measured | None


def peak_flops(card: Card, precision: str) -> float:
    """Dense matrix rate in operations per second; fp32 is taken at an eighth of the fp16 rate, our decision between the
    eighth of a V100 and the sixteenth of an A100 without TF32."""
    if precision == "fp32":
        return card.fp16_tflops * 1e12 / 8
    return (card.bf16_tflops if precision == "bf16" and card.bf16_tflops else card.fp16_tflops) * 1e12


def matmul_share(card: Card) -> float:
    """Share of the peak that large products reach on this card."""
    if card.capability is None:
        return MATMUL_SHARE_OTHER
    return MATMUL_SHARE.get(card.capability, MATMUL_SHARE_OTHER)


def attention_share(card: Card) -> float:
    """Rate of flash attention as a share of that of large products."""
    return ATTENTION_SHARE_HOPPER if card.capability == 9.0 else ATTENTION_SHARE


def product_rate(card: Card, precision: str, tokens: float) -> float:
    """Operations per second of products with so many tokens: measured, or a share of the peak."""
    measured = rate_at(card.measured.products, precision, tokens) if card.measured else None
    ramp = tokens / (tokens + HALF_RATE_TOKENS)
    return measured or peak_flops(card, precision) * matmul_share(card) * ramp


def products_seconds(
    architecture: Architecture,
    products: float,
    routed: float,
    tokens: float,
    precision: str,
    card: Card,
    sharing: int = 1,
) -> float:
    """Products of so many tokens, of which an expert sees those that are sent to it: fewer rows, at a lower rate.

    `products` and the `routed` part of them are operations for each token. Tokens are taken to be spread evenly, one at
    least to an expert that computes; a kernel computes all experts at once (transformers 5.23 integrations/moe.py,
    torch._grouped_mm), as fast as products of that many rows: our decision. Ranks that share the experts (`sharing`)
    send each the tokens of all.
    """
    moe = architecture.moe
    rows = max(1.0, sharing * tokens * moe.per_token / moe.count) if moe and routed else tokens
    whole = (products - routed) / product_rate(card, precision, tokens)
    return tokens * (whole + routed / product_rate(card, precision, rows))


def attention_rate(card: Card, precision: str, tokens: float, length: int) -> float:
    """The same of attention in sequences of `length` tokens."""
    measured = rate_at(card.measured.attention, precision, length) if card.measured else None
    return measured or product_rate(card, precision, tokens) * attention_share(card)


def memory_rate(card: Card) -> float:
    """Bytes that elementwise kernels read and write in a second."""
    measured = card.measured.copy_gb_s if card.measured else None
    return (measured or card.bandwidth_gb_s * BANDWIDTH_SHARE) * 1e9


def kernel_seconds(
    architecture: Architecture, layout: Layout, work: Workload, step: Step, flops: StepFlops, card: Card
) -> float:
    """What the device computes and moves in a micro step."""
    bandwidth, precision, tokens = memory_rate(card), layout.precision, step.tokens
    own = flops.products - flops.taught
    products = products_seconds(architecture, own, flops.routed, tokens, precision, card, layout.mesh.expert)
    products = (products + _taught_products(layout, step, flops, card)) / layout.mesh.tensor
    attended = attention_rate(card, precision, tokens, work.seq_len_tokens)
    attended *= FIRST_FLASH_SHARE if work.first_flash else 1.0
    products += flops.attention * tokens / layout.mesh.tensor / attended
    # The weights are read by every pass: forward, backward, recomputation, and those without a gradient.
    passes = _weight_passes(architecture, layout, step)
    weights = (passes * step.fixed.sizes.params + (work.teacher.params if work.teacher else 0)) * 2 / bandwidth
    products += _recurrence(architecture, layout, step, card)
    moved = _elementwise(architecture, layout, work, step) + _dequantized(step, passes) * step.fixed.sizes.linear
    return max(products, weights) + moved / bandwidth


def _dequantized(step: Step, passes: float) -> float:
    """Bytes moved for each quantized weight: in every pass, or backward alone where integers are multiplied."""
    path = step.fixed.path
    return ROUNDED_TRAFFIC if path.rounds_inputs else passes * DEQUANTIZE_BYTES * (path.quantized > 0)


def _recurrence(architecture: Architecture, layout: Layout, step: Step, card: Card) -> float:
    """Seconds of a hybrid's own products: in fp32 without autocast; backward takes twice a forward's."""
    precision = layout.precision if step.fixed.path.autocast else "fp32"
    passes = 3 + layout.recomputed_share(architecture.num_layers) + step.fixed.scored
    return recurrent_flops(architecture) * passes * step.tokens / product_rate(card, precision, step.tokens)


def _weight_passes(architecture: Architecture, layout: Layout, step: Step) -> float:
    return step.fixed.weight_passes + layout.recomputed_share(architecture.num_layers)


def teacher_seconds(layout: Layout, step: Step, flops: StepFlops, card: Card) -> float:
    """What a teacher's products and layers take of a micro step."""
    return _taught_products(layout, step, flops, card) / layout.mesh.tensor + _teacher_traffic(step) / memory_rate(card)


def _taught_products(layout: Layout, step: Step, flops: StepFlops, card: Card) -> float:
    """Those with a teacher's weights, on one rank."""
    teacher = step.fixed.teacher
    if teacher is None:
        return 0.0
    routed = step.fixed.taught * forward_flops(teacher.architecture, 1).routed
    return products_seconds(teacher.architecture, flops.taught, routed, step.tokens, layout.precision, card)


def _elementwise(architecture: Architecture, layout: Layout, work: Workload, step: Step) -> float:
    """Bytes moved by everything but products."""
    forwards = 1 + layout.recomputed_share(architecture.num_layers)
    scored = SCORING_SHARE * step.fixed.scored
    by_policy = sum(part.tokens for part in step.scorings if part.model == POLICY) / step.tokens
    moved = step.saved_by_layers * (TRAFFIC_FORWARD * (forwards + scored) + TRAFFIC_BACKWARD)
    adapters = _adapter_traffic(architecture, work, step) * (forwards + 2 + by_policy) * step.tokens
    built = step.fixed.built.weights * (BUILT_FORWARD * (forwards + by_policy) + BUILT_BACKWARD)
    measured = _measured_traffic(architecture, work) * (forwards + by_policy) * architecture.num_layers
    chunks = moved_backward(architecture, work.seq_len_tokens) * step.tokens
    chunks += moved_forward(architecture) * (forwards + by_policy) * step.tokens
    rounded = rounding_traffic(architecture, step.fixed.path) * (forwards + step.fixed.scored) * step.tokens
    layers = moved + adapters + measured + chunks + rounded + built * architecture.sparse_layers
    return layers + _teacher_traffic(step) + step.head.moved


def _teacher_traffic(step: Step) -> float:
    """Bytes that the teacher's layers move."""
    teacher = step.fixed.teacher
    if teacher is None:
        return 0.0
    kinds = zip(teacher.architecture.kinds, teacher.kinds, strict=True)
    saved = sum(layers * each.saved for (_, layers), each in kinds)
    return SCORING_SHARE * TRAFFIC_FORWARD * saved * step.fixed.taught * step.tokens


def _adapter_traffic(architecture: Architecture, work: Workload, step: Step) -> float:
    """Bytes per token of all adapters on linear modules in a forward."""
    cast = ADAPTER_INPUT_BYTES + (ADAPTER_CAST_BYTES if step.fixed.path.adapter_copy else 0)
    return sum(layers * (i * cast + o * ADAPTER_OUTPUT_BYTES) for layers, (_, i, o) in _adapted(architecture, work))


@lru_cache(maxsize=1024)
def _measured_traffic(architecture: Architecture, work: Workload) -> float:
    """Bytes of one layer whose adapted weights are measured in a forward, whatever the batch."""
    shapes = measured_modules(architecture, work.lora)
    return sum(i * i * UNIT_TRAFFIC + i * o * WEIGHT_TRAFFIC for i, o in shapes)


@lru_cache(maxsize=1024)
def _adapted(architecture: Architecture, work: Workload) -> list[tuple[int, LinearShape]]:
    """The linear modules that carry an adapter, with the number of layers that have them."""
    lora = work.lora
    if lora is None or work.fused_kernels:
        return []
    groups = architecture.linear_groups
    shaped = [(layers, shape) for layers, shapes in groups for shape in shapes if lora.adapts(shape[0])]
    behind = [(n, (name, out, out)) for n, shapes in groups for name, _, out in shapes if name in lora.behind]
    passed = lora.mixed + MIXING_MATRICES if lora.mixed else 1  # products behind such a module
    return shaped + behind * passed


def launches(architecture: Architecture, layout: Layout, work: Workload, step: Step) -> float:
    """Operations that Python issues in a micro step; a backward counts like a forward."""
    passes = _weight_passes(architecture, layout, step)
    teacher = LAYER_LAUNCHES * whole_layers(work.teacher) if work.teacher else 0
    rounding = rounding_launches(architecture, step.fixed.path) * (passes - 1)  # backward has none
    issued = pass_launches(architecture, work) * passes + rounding + teacher
    return issued + launched_backward(architecture, work.seq_len_tokens)


def side_by_side(kernels: float, issued: float, card: Card, path: CodePath) -> float:
    """Seconds of kernels and of issuing them: on a CPU one follows the other; so it is where each product waits for
    what its search for outliers found."""
    waits = path.rounds_inputs or (card.measured is not None and card.measured.device == "cpu")
    return kernels + issued if waits else max(kernels, issued)


@lru_cache(maxsize=1024)
def pass_launches(architecture: Architecture, work: Workload) -> float:
    """Those of one pass over all layers."""
    measured = LAUNCHES * len(measured_modules(architecture, work.lora)) * architecture.num_layers
    adapters = ADAPTER_LAUNCHES * sum(layers for layers, _ in _adapted(architecture, work))
    scans = launched_forward(architecture, work.seq_len_tokens)
    return LAYER_LAUNCHES * whole_layers(architecture) + measured + adapters + scans


def whole_layers(architecture: Architecture) -> float:
    """Layers that mix tokens and have a feed-forward block; one that does either alone issues half, our decision."""
    return sum(layers * ((kind.attention or kind.mixer) + kind.block) / 2 for kind, layers in architecture.kinds)

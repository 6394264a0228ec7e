"""Answers that a model writes itself: what they take of memory and of time.

All answers of a rank are written at once, as many as it learns from until the next generation, and the step waits for
the longest: also with vLLM, which goes on with the others where one ends. With transformers, keys and values of the
prompt and of what is written grow by copying them (transformers 5.23 DynamicCache); a generator with weights of its own
is in `estimate/engine.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from recipec.axes.strategies import DEEPSPEED, TORCH_FSDP
from recipec.catalog.architecture import Architecture
from recipec.estimate.calibration import calibration_of
from recipec.estimate.device import GIB
from recipec.estimate.engine import (
    cached_features,
    copied_bytes,
    engine_bytes,
    sending_bytes,
    sent_bytes,
    served_at_once,
)
from recipec.estimate.flops import forward_flops
from recipec.estimate.kernels import (
    DEQUANTIZE_BYTES,
    Card,
    memory_rate,
    pass_launches,
    product_rate,
    products_seconds,
    side_by_side,
)
from recipec.estimate.links import Group, Link, transfer_seconds
from recipec.estimate.rounding import rounding_launches
from recipec.estimate.step import Step
from recipec.estimate.workload import Workload
from recipec.layout import Layout

# fp32 copies of the last logits of every answer: as they come, in fp32, divided, filtered, their softmax and what is
# drawn from. Counted on a CPU: 6.14 MiB where KV + a layer's K + 7 of them give 6.31, 16.85 where they give 16.81.
SAMPLING_COPIES = 7


def answers_at_once(layout: Layout, work: Workload) -> int:
    """Answers that a rank writes together."""
    return layout.micro_batch * layout.accumulation * work.updates


def generation_terms(architecture: Architecture, layout: Layout, work: Workload, step: Step) -> Mapping[str, float]:
    """Bytes while answers are written, beside what is there at all times: the prompts' pass, or the last token's.

    With tools it is the last turn: what came before it, as long as an answer may be, is its prompt.
    """
    answers, path, sizes = answers_at_once(layout, work), step.fixed.path, step.fixed.sizes
    if work.method.written_by.beside:
        return {"communication_buffers": sending_bytes(architecture, step)}
    if work.method.written_by.own_copy:
        held = engine_bytes(architecture, work, step, answers, layout.engine_tensor_parallel)
        return {"generation_engine": held}
    longest = work.seq_len_tokens + work.reread_tokens
    prompt = longest - work.written_tokens
    token = path.compute * architecture.cached_features
    working = path.compute * max(beside_cache(shape) for _, shape in architecture.attentions)
    first = answers * prompt * (token + max(max(each.forward, each.attention) for each in step.fixed.kinds))
    sampled = SAMPLING_COPIES * 4 * architecture.vocab_size * answers
    last = answers * longest * (token + working) + sampled
    gathered = path.compute * sizes.params if path.weight_shards > 1 and layout.spreads.engine == DEEPSPEED else 0
    return {
        "keys_and_values": answers * token * (longest if last >= first else prompt),
        "working_set": max(first, last) - answers * token * (longest if last >= first else prompt),
        "autocast_cache": path.compute * sizes.cast_by_layers if path.autocast_copies else 0,
        "communication_buffers": gathered or step.fixed.buffers.forward.layers,
    }


def beside_cache(shape: Architecture) -> float:
    """Features of a token while a layer writes its keys anew and repeats both for all heads; one head is a view."""
    repeated = shape.num_heads / shape.num_kv_heads if shape.num_kv_heads > 1 else 0
    return 2 * shape.kv_size * (0.5 + repeated)


def generation_seconds(
    architecture: Architecture, layout: Layout, work: Workload, step: Step, card: Card, link: Link
) -> float:
    """Of an optimizer step its share of a generation.

    A generation that several steps learn from is also scored once more, by the weights that wrote it; some methods
    always score it.
    """
    answers = answers_at_once(layout, work)
    seconds = writing_seconds(architecture, layout, work, step, card, link, answers)
    if work.updates > 1 or work.method.scores_when_written:
        kernel_factor = calibration_of(card, layout.precision).kernel_factor
        seconds += _forward(architecture, layout, work, card, answers * work.seq_len_tokens) * kernel_factor
    return seconds / work.steps_taught


def writing_seconds(
    architecture: Architecture, layout: Layout, work: Workload, step: Step, card: Card, link: Link, answers: int
) -> float:
    """Seconds until a rank has so many answers, as long as they may be, with the pass of their prompts.

    Reward models score every answer; the time of functions and of tools is not known.
    """
    write = _served_seconds if work.method.written_by.beside else _own_seconds
    seconds = write(architecture, layout, work, step, card, link, answers)
    kernel_factor = calibration_of(card, layout.precision).kernel_factor
    for judge in work.judges:
        seconds += _forward(judge, layout, work, card, answers * work.seq_len_tokens) * kernel_factor
    return seconds


def _served_seconds(
    architecture: Architecture, layout: Layout, work: Workload, step: Step, card: Card, link: Link, answers: int
) -> float:
    """Of GPUs that do not train: the answers of all ranks, as many at once as find room, and the weights before them.

    The GPUs share each product, each read and each prompt, and add up what each has found twice in a layer.
    """
    gpus, everything = layout.served_by, answers * layout.mesh.data_parallel
    at_once = min(everything, served_at_once(architecture, work, step, gpus, card.memory_gib * GIB))
    prompt = work.seq_len_tokens - work.written_tokens
    found = calibration_of(card, layout.precision)
    cached = _cache_bytes(architecture, step, at_once, prompt + work.written_tokens / 2)
    products = _written_seconds(architecture, layout, card, at_once)
    kernels = found.kernel_factor * max((copied_bytes(step) + cached) / memory_rate(card), products) / gpus
    each = side_by_side(kernels, found.launch_seconds, card, step.fixed.path)
    each += _added_up(architecture, step, at_once, gpus, link)
    read = _forward(architecture, layout, work, card, everything * prompt) * found.kernel_factor / gpus
    sent = transfer_seconds(sent_bytes(step), Group(gpus + 1), link) + _gathering(layout, step, link)
    return work.written_tokens * each * everything / at_once + read + sent


def _added_up(architecture: Architecture, step: Step, tokens: float, gpus: int, link: Link) -> float:
    """All-reduces of tensor parallelism: behind attention or a mixer, and behind the feed-forward block (Shoeybi et al.
    2019), of which a layer may have one alone.
    """
    sums = sum(layers * (kind.attention + kind.mixer + kind.block) for kind, layers in architecture.kinds)
    moved = sums * 2 * step.fixed.path.compute * tokens * architecture.hidden_size
    return transfer_seconds(moved, Group(gpus), link, collectives=sums, reduces=True)


def _own_seconds(
    architecture: Architecture, layout: Layout, work: Workload, step: Step, card: Card, link: Link, answers: int
) -> float:
    """Of the GPUs that train, each of which writes its own answers, or those of a group that shares a copy.

    Every round of tool calls reads all answers again, half of their length on average; what its results take is not
    written. A recorded graph is issued once; a copy of the weights is sent before the first token. The GPUs of a group
    share each product and each read of the weights, and add up what each has found.
    """
    engine = work.method.written_by
    gpus = layout.engine_tensor_parallel if engine.own_copy else 1
    prompt, together = work.seq_len_tokens - work.written_tokens, gpus * answers
    found = calibration_of(card, layout.precision)
    operations = pass_launches(architecture, work) + rounding_launches(architecture, step.fixed.path)
    issued = found.launch_seconds * (1 if engine.replays else operations)
    cached = _cache_bytes(architecture, step, together, prompt + work.written_tokens / 2, gpus)
    copied = copied_bytes(step) / gpus
    moved = (copied if engine.own_copy else _weight_bytes(step)) + engine.cache_moves * cached
    products = _written_seconds(architecture, layout, card, together) / gpus
    kernels = found.kernel_factor * max(moved / memory_rate(card), products)
    each = side_by_side(kernels, issued, card, step.fixed.path)
    each += _added_up(architecture, step, together, gpus, link)
    written = max(work.rounds + 1, work.written_tokens - work.rounds * work.result_tokens)
    gathering = _gathering(layout, step, link)
    seconds = written * each + gathering * (1 if engine.own_copy else written)
    seconds += 2 * copied / memory_rate(card) if engine.own_copy else 0.0  # read and written
    read = together * (prompt + work.rounds * (prompt + work.written_tokens / 2))
    seconds += _added_up(architecture, step, read, gpus, link)
    return seconds + _forward(architecture, layout, work, card, read) * found.kernel_factor / gpus


def _weight_bytes(step: Step) -> float:
    """Of a pass over the weights; fp32 ones are read, cast and read again, 4-bit ones dequantized, 8-bit ones read."""
    sizes, path = step.fixed.sizes, step.fixed.path
    if path.quantized:
        each = path.quantized if path.rounds_inputs else DEQUANTIZE_BYTES
        return each * sizes.linear + path.compute * (sizes.params - sizes.linear)
    stored = path.frozen or path.trained
    return sizes.params * (stored + 2 * path.compute if path.autocast_copies and stored == 4 else stored)


def _cache_bytes(architecture: Architecture, step: Step, answers: float, tokens: float, gpus: int = 1) -> float:
    """Keys and values of so many answers on each of the GPUs that share them."""
    return step.fixed.path.compute * cached_features(architecture, gpus) * answers * tokens


def _gathering(layout: Layout, step: Step, link: Link) -> float:
    """FSDP gathers every layer for every token; ZeRO-3 all weights once for a generation, which is little beside it."""
    if layout.spreads.engine != TORCH_FSDP:
        return 0.0
    weights = step.fixed.path.compute * step.fixed.sizes.params
    return transfer_seconds(weights, Group(layout.mesh.shard), link, step.depth.layers)


def _forward(architecture: Architecture, layout: Layout, work: Workload, card: Card, tokens: float) -> float:
    forward = forward_flops(architecture, work.seq_len_tokens)
    products = products_seconds(architecture, forward.layers, forward.routed, tokens, layout.precision, card)
    return products + forward.attention * tokens / product_rate(card, layout.precision, tokens)


def _written_seconds(architecture: Architecture, layout: Layout, card: Card, answers: float) -> float:
    """Products of one token of each of so many answers."""
    forward = forward_flops(architecture, 1)
    products = 2.0 * architecture.computed_params
    return products_seconds(architecture, products, forward.routed, answers, layout.precision, card)

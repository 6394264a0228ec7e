"""Candidates against the table of combinations that are known to fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import gcd
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, STRATEGIES, Method
from recipec.axes.generators import GENERATORS
from recipec.axes.loops import LOOPS, TRAINER
from recipec.axes.lora_variants import STANDARD
from recipec.catalog.architecture import Architecture
from recipec.catalog.layer_parts import MXFP4
from recipec.catalog.model_types import MODEL_TYPES
from recipec.estimate.engine import served_at_once
from recipec.estimate.step import fixed_of, step_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout
from recipec.planner.search.sequences import settled_method
from recipec.planner.search.served import whole_heads
from recipec.rules.combination import PLAIN, BadCombination, Combination
from recipec.rules.combinations import first_refused, known_bad
from recipec.rules.core import Decision
from recipec.rules.intervals import generated
from recipec.units import GIB


class Refusal(Struct, frozen=True):
    """A row of the table, and the combination and layout that it is about."""

    row: BadCombination
    combination: Combination
    layout: Layout

    @property
    def instead(self) -> str:
        """What to do instead of the combination."""
        return self.row.instead_of(self.combination)

    def mended_by(self, *names: str) -> bool:
        """Whether the combination would pass with other values of these."""
        rows = {
            "adaptation": [ADAPTATIONS[name] for name in self.combination.method.adaptations],
            "strategy": [*STRATEGIES.values()],
            "generator": [*GENERATORS.values()],
        }
        others = product(*(rows[name] if name in rows else [PLAIN[name]] for name in names))
        return any(
            not self.row.applies(replace(self.combination, **dict(zip(names, values, strict=True))))
            for values in others
        )


def judged(
    layouts: Iterable[Layout], decisions: Mapping[str, Decision], shape: Architecture, work: Workload
) -> Iterator[tuple[Layout, Refusal | None]]:
    """Each layout with the first reason why it must not be proposed, None when there is none."""
    stage = _Stage(decisions, shape, work)
    known: dict[tuple[Any, ...], tuple[Combination, BadCombination | None]] = {}  # layouts differ in more
    for layout in layouts:
        own = stage.of_layout(layout)
        key = (layout.adapts.name, layout.spreads.name, *own.values())
        if key not in known:
            combination = stage.combination(layout, own)
            known[key] = combination, first_refused(combination)
        combination, row = known[key]
        yield layout, Refusal(row, combination, layout) if row else None


def refused(layout: Layout, decisions: Mapping[str, Decision], shape: Architecture, work: Workload) -> Refusal | None:
    """The first reason why a layout must not be proposed, None when there is none."""
    return next(refusal for _, refusal in judged([layout], decisions, shape, work))


def refusals_of(refusal: Refusal) -> list[Refusal]:
    """Every reason against the same combination, so that no second one shows when the first is mended."""
    return [replace(refusal, row=row) for row in known_bad(refusal.combination) if row.refused]


def advised_against(
    layout: Layout, decisions: Mapping[str, Decision], shape: Architecture, work: Workload
) -> list[Refusal]:
    """What runs, but is better done otherwise."""
    stage = _Stage(decisions, shape, work)
    combination = stage.combination(layout, stage.of_layout(layout))
    return [Refusal(row, combination, layout) for row in known_bad(combination) if not row.refused]


class _Stage:
    """What the combinations of all layouts of a stage have in common, read once for the hundreds of a search."""

    def __init__(self, decisions: Mapping[str, Decision], shape: Architecture, work: Workload) -> None:
        self.value = {id: decision.value for id, decision in decisions.items()}
        self.shape, self.work, self.method = shape, work, settled_method(decisions)
        self.common = _of_model(self.method, self.value, shape) | _of_stage(self.method, self.value)
        order = decisions["sampling"]
        self.common["asked_sampling"] = order.value if order.origin == "recipe" else ""
        saved = decisions.get("save_every")
        self.common["asked_save_every"] = saved.value if saved and saved.origin == "recipe" else 0.0

    def combination(self, layout: Layout, own: Mapping[str, Any]) -> Combination:
        """`own`: what of_layout says of the layout."""
        return Combination(**self.common, **own, adaptation=layout.adapts, strategy=layout.spreads)

    def of_layout(self, layout: Layout) -> dict[str, Any]:
        """What a combination says of a layout, beside its adaptation and its strategy."""
        value, shape, method, mesh = self.value, self.shape, self.method, layout.mesh
        return {
            "precision": layout.precision,
            "offload": layout.offload,
            "recomputes": layout.checkpointing,
            "recompute_every": layout.recompute_every,
            "activation_offload": layout.activation_offload,
            "precomputes": layout.precomputes,
            "several_nodes": mesh.world_size > value["gpus_per_node"],
            "optimizer": layout.optimizer,
            "attention": layout.attention,
            "packing": layout.packing,
            "micro_batch": layout.micro_batch,
            "modules_to_save": (method.new_head,) if method.new_head and not layout.adapts.trains_all else (),
            "tensor": mesh.tensor,
            "context": mesh.context,
            "expert": mesh.expert,
            "tensor_divides": _divides(shape, mesh.tensor),
            "context_divides": value["max_length"] % (2 * mesh.context) == 0,
            "more_ranks_than_experts": bool(shape.moe and shape.moe.count < mesh.shard * mesh.context),
            "served_whole": whole_heads(shape, layout.served_by),
            "copy_whole": whole_heads(shape, layout.engine_tensor_parallel),
            "copy_divides": gcd(mesh.world_size, value["gpus_per_node"]) % layout.engine_tensor_parallel == 0,
            "served_fits": layout.served_by == 0 or _served_fits(shape, layout, self.work, value["vram_gib"] * GIB),
            "serves_nodes": layout.served_by > 0 and value["nodes"] > 1,
            "cuts_groups": method.generates and _cuts_groups(layout, value),
            "updated_at_once": _updated_at_once(shape, layout, self.work),
            "scales_late": 0 < shape.scale_places <= value["max_length"] * layout.micro_batch,
        }


def _of_stage(method: Method, value: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a combination that the settled hyperparameters and the machine decide."""
    targets = value.get("lora_targets", PLAIN["lora_targets"])
    return {
        "method": method,
        "generator": method.written_by if method.generates else None,
        "compile": value["compile"],
        "gpu_bf16": value["gpu_bf16"],
        "gpu_is_cpu": value["gpu_is_cpu"],
        "gpu_cuda": value["gpu_cuda"],
        "gpu_int8": value["gpu_int8"],
        "gpu_varlen": value["gpu_varlen"],
        "lora_targets": targets if isinstance(targets, str) else tuple(targets),
        "lora_experts": value.get("lora_experts", PLAIN["lora_experts"]),
        "lora_dropout": value.get("lora_dropout", PLAIN["lora_dropout"]),
        "loop": LOOPS[value["loop"]] if "loop" in value else TRAINER,
        "variant": LORA_VARIANTS[value.get("lora_variant", STANDARD.name)],
        "continues": "init_from" in value,
        "new_tokens": "new_tokens" in value,
        "begins": value["stage"] == value["stages"][0],
        "acts": "tools" in value,
        "has_capacity": "capacity_factor" in value,
        "eval_every": value.get("eval_every", PLAIN["eval_every"]),
        "ordered": "curriculum_parts" in value,
        "fp8": value.get("fp8", PLAIN["fp8"]),
        "gpu_fp8": value.get("gpu_fp8", PLAIN["gpu_fp8"]),
        "elastic": "ewc_strength" in value,
        "has_general": bool(value.get("has_general_file", True)),
        "followed": value["stage"] != value["stages"][-1],
    }


def _of_model(method: Method, value: Mapping[str, Any], shape: Architecture) -> dict[str, Any]:
    """The part of a combination that the model and its type decide."""
    row = MODEL_TYPES[value["model_type"]]
    return {
        "model_type": value["model_type"],
        "has_class": method.writes or row.scores,
        "leaks": row.leaks,
        "hybrid": shape.mixer is not None,
        "renamed": row.renamed_on_save or (row.renamed_experts and shape.moe is not None),
        "lacks_kernels": shape.mixer is not None and not value["gpu_is_cpu"],
        "caps_scores": row.softcap,
        "has_sinks": row.sinks,
        "head_features": max(each.head_dim for _, each in shape.attentions),
        "chunked": shape.chunked,
        "fp8_sizes": shape.hidden_size % 16 == 0 and shape.intermediate_size % 16 == 0,
        "two_heads": shape.whole is not None,
        "borrows": shape.borrowing > 0,
        "slices": shape.layer_inputs is not None,
        "moe": value["moe"],
        "leaf_modules": value["moe"],  # the ZeRO-3 configuration that we emit always names them
        "experts": shape.moe.count if shape.moe else 0,
        "per_token": shape.moe.per_token if shape.moe else 0,
        "beyond_positions": value["max_length"] + _before(value) > value["max_position"],
        "beyond_chunk": shape.chunked and value["max_length"] > (shape.sliding_window or 0),
        "balanced": shape.balanced,
        "all_run": bool(shape.moe and shape.moe.all_run),
        "in_mxfp4": shape.moe is not None and shape.moe.stored == MXFP4,
        "linear_router": bool(shape.moe and shape.moe.router and not shape.moe.all_run),
        "dispatched": shape.moe is not None and shape.moe.dispatched,
        "normalizes": shape.moe is None or shape.moe.normalizes,
        "spread": row.moe is None or row.moe.spread,
    }


def _before(value: Mapping[str, Any]) -> int:
    """The positions that virtual tokens take before a row."""
    return value.get("virtual_tokens", 0) + value.get("prefix_tokens", 0)


def _updated_at_once(shape: Architecture, layout: Layout, work: Workload) -> int:
    """The most weights of a rank that one call of the optimizer gets: ZeRO-1 and ZeRO-2 make one vector of all."""
    fixed = fixed_of(shape, layout, work)
    flat = layout.deepspeed and not layout.spreads.shards_weights
    return round((fixed.sizes.trainable if flat else fixed.sizes.largest) / fixed.path.state_shards)


def _cuts_groups(layout: Layout, value: Mapping[str, Any]) -> bool:
    """Whether the answers of a generation are not whole groups, or not shared equally."""
    answers, ranks = value["global_batch_size"], layout.mesh.data_parallel
    return answers % ranks != 0 or generated(value) % value.get("per_prompt", 1) != 0


def _divides(shape: Architecture, ranks: int) -> bool:
    """Whether every rank gets whole heads."""
    if ranks == 1:
        return True
    kv_heads = [each.num_kv_heads for _, each in shape.attentions]
    return shape.num_heads % ranks == 0 and all(heads % ranks == 0 for heads in kv_heads)


def _served_fits(shape: Architecture, layout: Layout, work: Workload, capacity: float) -> bool:
    """Whether the GPUs of a server have room for one answer of full length at least, beside all else that they hold."""
    return served_at_once(shape, work, step_of(shape, layout, work), layout.served_by, capacity) >= 1

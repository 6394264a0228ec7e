"""DeepSpeed ZeRO: stage 1 shards optimizer states, stage 2 also gradients, stage 3 also the parameters."""

from __future__ import annotations

from typing import Any

from recipec.axes import Strategy
from recipec.backends.engines.engine import (
    EngineBackend,
    Files,
    Placement,
    accelerate_head,
    leaves,
    no_arguments,
    seeded,
)
from recipec.render.mapping import Leaf

_NAME = "deepspeed.json"
_ACCELERATE, _DEEPSPEED = "configs/accelerate.yaml", f"configs/{_NAME}"


def _files(run: Placement) -> Files:
    stage = len(run.layout.spreads.shards)  # optimizer states, then gradients, then weights
    own: dict[str, Any] = {"deepspeed_config_file": f"{run.folder}/{_NAME}"}
    if not run.own_loop:  # a loop of its own says itself that models are loaded in shards
        own["zero3_init_flag"] = stage == 3
    if run.nodes > 1:
        why = "every node starts its own processes; accelerate's usual one wants pdsh and a hostfile"
        own["deepspeed_multinode_launcher"] = Leaf("standard", run.ids("world_size", "strategy"), why)
    return {_ACCELERATE: accelerate_head(run) | {"deepspeed_config": own}, _DEEPSPEED: _deepspeed(run, stage)}


def _deepspeed(run: Placement, stage: int) -> dict[str, Any]:
    """Numbers instead of "auto"; no train_batch_size, which would pin the world size."""
    layout = run.layout
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": Leaf(layout.micro_batch, run.ids("micro_batch_size")),
        "gradient_accumulation_steps": Leaf(layout.accumulation, run.ids("gradient_accumulation")),
        "gradient_clipping": Leaf(run.max_grad_norm, run.ids("max_grad_norm")),
    }
    if layout.precision in ("bf16", "fp16"):
        config[layout.precision] = Leaf({"enabled": True}, run.ids("precision"))
    sizes = _buckets(run.architecture.hidden_size, stage)
    zero = {**_COMMUNICATION, **{name: Leaf(size, run.ids("model")) for name, size in sizes.items()}}
    zero |= _GATHERED if stage == 3 and not run.own_loop else {}
    zero |= _offload(run)
    if run.architecture.moe and stage == 3:
        zero["leaf_module"] = Leaf({"classes": [run.architecture.moe.block]}, run.ids("model"))
    return config | {"zero_optimization": Leaf({"stage": stage} | zero, run.ids("strategy")), "steps_per_print": 100}


_COMMUNICATION = {"overlap_comm": True, "contiguous_gradients": True}
_GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}


def _buckets(hidden_size: int, stage: int) -> dict[str, int]:
    """Bucket sizes in elements, as transformers fills "auto": hidden^2, 0.9 hidden^2 and 10 hidden.

    Source: transformers 5.23, integrations/deepspeed.py (trainer_config_finalize), checked 2026-11-20.
    """
    sizes = {"reduce_bucket_size": hidden_size**2}
    if stage == 3:
        sizes["stage3_prefetch_bucket_size"] = int(0.9 * hidden_size**2)
        sizes["stage3_param_persistence_threshold"] = 10 * hidden_size
    return sizes


def _offload(run: Placement) -> dict[str, Any]:
    if not run.layout.offloads:
        return {}
    where = {"device": "cpu", "pin_memory": True}
    parts = ("offload_optimizer", "offload_param") if run.layout.hosts_weights else ("offload_optimizer",)
    return {part: Leaf(dict(where), run.ids("offload")) for part in parts}


def _equal_start(strategy: Strategy) -> str:
    if not strategy.shards_weights:
        return seeded(strategy)
    return "`config` has switched ZeRO-3 on: rank 0 makes each layer, and every rank keeps its shard."


BACKEND = EngineBackend(
    config=_ACCELERATE,
    deepspeed=_DEEPSPEED,
    packages=("deepspeed",),
    files=_files,
    arguments=no_arguments,
    part=leaves,
    gathers_on_save=False,
    counts_passes=True,
    dtensors=False,
    shards_what_it_loads=True,
    recomputing="",
    equal_start=_equal_start,
)

"""FSDP2: parameters, gradients and optimizer states sharded over all devices, or over groups that copy each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recipec.render.call import Arg
from recipec.render.mapping import Leaf
from recipec.sharders.sharder import Run, Sharder, accelerate_head


def _files(run: Run) -> dict[str, Mapping[str, Any]]:
    precision = {"fp32": "no"}.get(run.layout.precision, run.layout.precision)
    fsdp: dict[str, Any] = {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": Leaf(True, run.ids("strategy"), "frees the gathered weights until backward"),
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_transformer_layer_cls_to_wrap": Leaf(run.architecture.decoder_layer, run.ids("model")),
        "fsdp_cpu_ram_efficient_loading": Leaf(True, (), "rank 0 hands out the shards"),
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
    head = accelerate_head(run, "FSDP") | {"mixed_precision": Leaf(precision, run.ids("precision"))}
    return {"configs/fsdp.yaml": head | {"fsdp_config": fsdp}}


def _hybrid_files(run: Run) -> dict[str, Mapping[str, Any]]:
    mesh = run.layout.mesh
    groups = {
        "parallelism_config_dp_replicate_size": Leaf(mesh.replicate, run.ids("shards"), "copies of the model"),
        "parallelism_config_dp_shard_size": Leaf(mesh.shard, run.ids("shards"), "neighbouring ranks that share one"),
    }
    return {path: file | {"parallelism_config": groups} for path, file in _files(run).items()}


def _arguments(run: Run) -> list[Arg]:
    """Gradients are reduced after every micro step; otherwise each rank would keep whole ones until the last."""
    if run.layout.accumulation == 1:
        return []
    value = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    note = "keeps gradients sharded while they accumulate"
    return [Arg("accelerator_config", value, run.ids("strategy", "gradient_accumulation"), note)]


FSDP = Sharder(
    "fsdp",
    "fully sharded (FSDP2)",
    fact="fsdp",
    config="configs/fsdp.yaml",
    files=_files,
    arguments=_arguments,
    shards_parameters=True,
    gathers_on_save=True,
)

HSDP = replace(FSDP, name="hsdp", title="sharded in groups (HSDP)", files=_hybrid_files, copies_shards=True)

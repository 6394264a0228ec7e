"""FSDP2: parameters, gradients and optimizer states sharded over all devices, or over groups that copy each other."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from recipec.backends.engines.engine import (
    EngineBackend,
    Files,
    Placement,
    accelerate_head,
    leaves,
    mixed_precision,
    seeded,
    torch_dtype,
)
from recipec.backends.parts import Import, Part, joined, lines
from recipec.catalog.model_types import MODEL_TYPES
from recipec.render.call import Arg
from recipec.render.mapping import Leaf

_CONFIG = "configs/fsdp.yaml"
_FREED = "frees the gathered weights until backward"
_WHOLE = (
    'trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")  # one loadable model, not shards'
)


def _files(run: Placement) -> Files:
    head = accelerate_head(run) | {"mixed_precision": mixed_precision(run)}
    groups = {"parallelism_config": _groups(run)} if run.layout.spreads.groups else {}
    return {_CONFIG: head | {"fsdp_config": _fsdp(run)} | groups}


def _fsdp(run: Placement) -> dict[str, Any]:
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": Leaf(run.layout.spreads.shards_weights, run.ids("strategy"), _FREED),
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_transformer_layer_cls_to_wrap": Leaf(run.architecture.decoder_layer, run.ids("model")),
        "fsdp_cpu_ram_efficient_loading": _handed_out(run),
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def _handed_out(run: Placement) -> Leaf:
    """Whether rank 0 hands the weights out: accelerate 1.15 expects sharded parameters alone in a checkpoint.

    Every rank maps the files into memory (transformers 5.23 modeling_utils.py, `_load_pretrained_model`: `safe_open`
    with the backend `mmap`, whatever the rank), and a node holds their pages once (estimate/loading.py, `_of_a_file`).
    """
    if MODEL_TYPES[run.architecture.model_type].buffers:
        return Leaf(False, run.ids("model"), "handing out fails on this model's buffers, which are not sharded")
    read = (
        "train.py reads them on one rank of a node"
        if run.first_reads
        else "all ranks map the files, which a node holds once"
    )
    return Leaf(True, (), f"rank 0 hands its weights out; {read}")


def _groups(run: Placement) -> dict[str, Leaf]:
    mesh, ids = run.layout.mesh, run.ids("shards")
    return {
        "parallelism_config_dp_replicate_size": Leaf(mesh.replicate, ids, "copies of the model"),
        "parallelism_config_dp_shard_size": Leaf(mesh.shard, ids, "neighboring ranks that share one"),
    }


def _arguments(run: Placement) -> list[Arg]:
    """Gradients are reduced after every micro step; otherwise each rank would keep whole ones until the last."""
    if run.layout.accumulation == 1:
        return []
    value = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    note = "keeps gradients sharded while they accumulate"
    return [Arg("accelerator_config", value, run.ids("strategy", "gradient_accumulation"), note)]


def _part(run: Placement) -> Part:
    end = replace(leaves(run), before_saving=lines(run.ids("strategy"), _WHOLE))
    return joined((_unrounded(run), end)) if run.layout.precision != "fp32" else end


def _unrounded(run: Placement) -> Part:
    """accelerate 1.15 has FSDP2 cast what the model returns to the compute dtype, as it does what a layer returns.

    A log-probability of -300 then stands for -299 to -301, which is more than a policy moves from its reference in many
    steps, and a rank without undesirable answers gathers fp32 where the others gather bf16 (KTOTrainer of TRL 1.16).
    Without a dtype of its own, a layer returns the compute dtype anyway, and the model the fp32 that it computed.
    Gradients are reduced in the compute dtype, as accelerate has it and estimate/sharding.py counts (PREC-001).
    """
    ids, dtype = run.ids("strategy", "precision"), f"torch.{torch_dtype(run.layout.precision)}"
    return Part(
        imports=(Import("torch"), Import("torch.distributed.fsdp", "MixedPrecisionPolicy", ids)),
        before_trainer=lines(
            ids,
            "# accelerate's policy without its output_dtype, which rounds losses and log-probabilities to 16 bits;",
            f"# gradients are summed over the ranks in {run.layout.precision}, with half of fp32's traffic",
            f"policy = MixedPrecisionPolicy(param_dtype={dtype}, reduce_dtype={dtype})",
            'config.fsdp_plugin_args = {"mixed_precision_policy": policy}',
        ),
    )


BACKEND = EngineBackend(
    config=_CONFIG,
    deepspeed="",
    packages=(),
    files=_files,
    arguments=_arguments,
    part=_part,
    gathers_on_save=True,
    counts_passes=False,
    dtensors=True,
    shards_what_it_loads=False,
    recomputing="inside FSDP2's hooks: recomputing gathers no weights again",
    equal_start=seeded,
)

"""Experts from a config.json, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture, Experts
from recipec.catalog.config_values import OddValue, UnsupportedConfig, count, flag, integer, places
from recipec.catalog.layer_parts import MXFP4, ONE_BY_ONE
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.patterns import kinds_in
from recipec.catalog.type_row import ModelType, MoeType


def expert_keys(architecture: Architecture) -> dict[str, Any]:
    """The keys of a config.json that give these experts; the plain layers are the first ones, or those between."""
    experts, row = architecture.moe, MODEL_TYPES[architecture.model_type].moe
    if experts is None or row is None:
        return _without_experts(row) if row else {}
    keys: dict[str, Any] = {
        row.count: experts.count,
        row.per_token: experts.per_token,
        row.intermediate: experts.intermediate_size,
    }
    if row.switch:
        keys[row.switch.name] = True
    if row.normalizes:
        keys[row.normalizes.name] = experts.normalizes
    if row.shared:
        keys[row.shared] = experts.shared_intermediate_size
    if row.shared_count:
        keys[row.shared_count] = experts.shared_intermediate_size // experts.intermediate_size
    if row.dense_first:
        keys[row.dense_first] = experts.dense_layers
    if row.every:
        keys[row.every.name] = experts.every
    if row.sparse_steps:
        keys |= {"decoder_sparse_step": 1, "mlp_only_layers": list(range(experts.dense_layers))}
    return keys


def _without_experts(row: MoeType) -> dict[str, Any]:
    """The key of a type that may have experts for a model that has none; where a pattern tells, there is none."""
    if not (row.switch or row.optional):
        return {}
    return {row.switch.name: False} if row.switch else {row.count: 0}


def experts_of(config: Mapping[str, Any], row: ModelType) -> Experts | None:
    """The experts of a model; None where it has none."""
    if row.moe is None or not has_experts(config, row):
        return None
    if on := [key for key in row.moe.unbuilt if config.get(key) is not None]:
        raise UnsupportedConfig(f"{' and '.join(on)} {'are' if len(on) > 1 else 'is'} set, which is not built")
    experts, per_token = (integer(config, key) for key in (row.moe.count, row.moe.per_token))
    if per_token > experts:
        raise OddValue(f"{row.moe.per_token} is {per_token}, more than the {experts} experts of {row.moe.count}")
    return Experts(
        count=experts,
        per_token=per_token,
        intermediate_size=integer(config, row.moe.intermediate),
        block=row.moe.block,
        shared_intermediate_size=_shared(config, row.moe, integer(config, row.intermediate)),
        shared_gate=bool(row.moe.shared) and row.moe.shared_gate,
        dense_layers=_dense_layers(config, row.moe),
        bias=row.moe.bias,
        balanced=row.moe.balanced,
        norms=row.moe.norms,
        router=row.moe.router,
        router_scales=row.moe.router_scales,
        all_run=row.moe.all_run,
        every=_every(config, row.moe),
        normalizes=row.moe.normalizes is None or flag(config, row.moe.normalizes),
        dispatched=row.moe.dispatched,
        gate_up=row.moe.gate_up,
        down=row.moe.down,
        stored=_stored(config, row.moe),
    )


def _stored(config: Mapping[str, Any], row: MoeType) -> str:
    """How the files of the model hold its experts, where that is not as transformers has them."""
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping) and quantization.get("quant_method") == MXFP4:
        return MXFP4
    return ONE_BY_ONE if row.one_by_one else ""


def has_experts(config: Mapping[str, Any], row: ModelType) -> bool:
    """Whether a model of a type that may have experts has them."""
    assert row.moe is not None
    if row.pattern:
        return any(kind.block and not kind.plain for kind in kinds_in(config, row.pattern))
    if row.moe.switch:
        return flag(config, row.moe.switch)
    return not (row.moe.optional and config.get(row.moe.count) == 0)


def _shared(config: Mapping[str, Any], row: MoeType, plain: int) -> int:
    """Width of the MLP that every token passes beside the experts; 0 where there is none."""
    if row.shared_count:
        return count(config, row.shared_count) * integer(config, row.intermediate)
    if row.beside:
        return plain
    if row.shared_one:
        return integer(config, row.intermediate)
    return integer(config, row.shared) if row.shared else 0


def _every(config: Mapping[str, Any], row: MoeType) -> int:
    """Every how many layers one has experts."""
    if row.every is None:
        return 1
    every = integer({row.every.name: row.every.default, **config}, row.every.name)
    layers, listed = integer(config, "num_hidden_layers"), places(config, row.listed)
    if config.get(row.listed) is None:
        return every
    every = listed[0] + 1 if listed else 0
    if not every or listed != list(range(every - 1, layers, every)):
        raise UnsupportedConfig(f"{row.listed} is not one layer in every so many layers")
    return every


def _dense_layers(config: Mapping[str, Any], row: MoeType) -> int:
    """Layers without experts: the first ones, or those of the test of the Qwen MoE decoder layers."""
    if row.dense_first:
        return min(count(config, row.dense_first), integer(config, "num_hidden_layers"))
    if not row.sparse_steps:
        return 0
    step = integer({"decoder_sparse_step": 1, **config}, "decoder_sparse_step")
    listed = places(config, "mlp_only_layers")
    layers = range(integer(config, "num_hidden_layers"))
    return sum(layer in listed or (layer + 1) % step != 0 for layer in layers)

"""From a transformers config.json to an Architecture, or a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture, Experts, WholeAttention
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.refused import why_no_type
from recipec.catalog.type_row import Key, MixerType, ModelType, MoeType, WholeType

_SIZES = {
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "max_position": "max_position_embeddings",
}
_ADJUSTS = Key("block_auto_adjust_ff_dim", True)
_WINDOWED, _WHOLE = "sliding_attention", "full_attention"  # of layer_types


class UnsupportedConfig(Exception):
    """A configuration that does not give an exact architecture: the reason, and the keys that would be needed."""

    def __init__(self, reason: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that transformers 5.23 builds from `config`; raises UnsupportedConfig where it is not exact."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise UnsupportedConfig("the configuration names no model_type", ("model_type",))
    if why := why_no_type(model_type):
        raise UnsupportedConfig(f"model_type '{model_type}' is not built: {why}")
    if model_type not in MODEL_TYPES:
        raise UnsupportedConfig(
            f"model_type '{model_type}' is not one of the supported ones: {', '.join(sorted(MODEL_TYPES))}"
        )
    row = MODEL_TYPES[model_type]
    if row.moe and row.moe.count not in config and row.moe.count_saved in config:
        config = {**config, row.moe.count: config[row.moe.count_saved]}
    _refuse_missing(model_type, config, row)
    config = _as_written_today(config, row)
    sizes = {field: _integer(config, key) for field, key in _sizes(row).items()}
    sizes["intermediate_size"] = _width(config, row, sizes["intermediate_size"])
    return Architecture(model_type=model_type, **sizes, **_heads(config, row), **_parts(config, row))


def _as_written_today(config: Mapping[str, Any], row: ModelType) -> Mapping[str, Any]:
    """LFM2's first configurations have names of their own, which transformers prefers."""
    if not row.adjusts_width:
        return config
    names = {"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}
    return {**config, **{new: config[old] for old, new in names.items() if old in config}}


def _width(config: Mapping[str, Any], row: ModelType, width: int) -> int:
    """The feed-forward block's width as the class of LFM2 makes it: two thirds, and up to a multiple."""
    if not row.adjusts_width or not _flag(config, _ADJUSTS):
        return width
    width, factor = int(2 * width / 3), config.get("block_ffn_dim_multiplier", 1.0)
    if factor is None:
        return width
    multiple = _integer({"block_multiple_of": 256, **config}, "block_multiple_of")
    return -(-int(factor * width) // multiple) * multiple


def _sizes(row: ModelType) -> dict[str, str]:
    """Field of the architecture -> its key in config.json."""
    return _SIZES | {"intermediate_size": row.intermediate}


def _required(config: Mapping[str, Any], row: ModelType) -> tuple[str, ...]:
    keys = list(_sizes(row).values())
    if not row.kv_heads_optional:
        keys.append("num_key_value_heads")
    if row.moe and not row.moe.switch:
        keys.append(row.moe.count)
    if row.moe and _has_experts(config, row.moe):
        keys += [row.moe.count, row.moe.per_token, row.moe.intermediate]
        keys += [key for key in (row.moe.shared, row.moe.shared_count, row.moe.dense_first) if key]
    return tuple(dict.fromkeys(keys))


def _refuse_missing(model_type: str, config: Mapping[str, Any], row: ModelType) -> None:
    missing = tuple(key for key in _required(config, row) if key not in config)
    if missing:
        raise UnsupportedConfig(f"the {model_type} configuration lacks {', '.join(missing)}", missing)


def _heads(config: Mapping[str, Any], row: ModelType) -> dict[str, int]:
    """Head dimension and key-value heads, with the class defaults where the key is absent or null."""
    heads = _integer(config, "num_attention_heads")
    derived = row.head_dim if row.head_dim and "head_dim" not in config else _integer(config, "hidden_size") // heads
    optional = {
        "head_dim": ("head_dim", derived),
        "num_kv_heads": ("num_key_value_heads", heads),
    }
    return {
        field: fallback if config.get(key) is None else _integer(config, key)
        for field, (key, fallback) in optional.items()
    }


def _parts(config: Mapping[str, Any], row: ModelType) -> dict[str, Any]:
    return {
        "tie_embeddings": _flag(config, Key("tie_word_embeddings", row.ties)),
        "decoder_layer": row.decoder_layer,
        **(_mixers(config, row.mixer) if row.mixer else _windows(config, row)),
        "attention_bias": _flag(config, row.qkv_bias),
        "output_bias": _flag(config, row.output_bias),
        "mlp_bias": _flag(config, row.mlp_bias),
        "norm_bias": row.norm_bias,
        "qk_norm": row.qk_norm if row.qk_norm_switch is None or _flag(config, row.qk_norm_switch) else None,
        "attention_sinks": row.sinks,
        "attention_gate": row.output_gate,
        "values_normed": row.values_normed,
        "gated_mlp": row.gated,
        "norms_per_layer": row.norms,
        "moe": _experts(config, row),
        "modules": row.modules,
    }


def _windows(config: Mapping[str, Any], row: ModelType) -> dict[str, int]:
    """The window, and which layers attend to everything; nothing where no layer has a window."""
    off = not row.windowed or (row.windowed == "switch" and not config.get("use_sliding_window"))
    if off or config.get("sliding_window", row.window) is None:
        return {}
    every = _full_attention_every(config, row)
    window = _integer({"sliding_window": row.window, **config}, "sliding_window")
    if row.whole:
        return {"sliding_window": window, "full_attention_every": every, "whole": _whole(config, row.whole, every)}
    return {} if every == 1 else {"sliding_window": window, "full_attention_every": every}


def _whole(config: Mapping[str, Any], row: WholeType, every: int) -> WholeAttention:
    """The heads of the layers without a window; a saved configuration has them layer by layer."""
    if on := [key.name for key in row.unbuilt if config.get(key.name, key.default)]:
        raise UnsupportedConfig(f"{' and '.join(on)} {'are' if len(on) > 1 else 'is'} on, which is not built")
    layers = _integer(config, "num_hidden_layers")
    if every < 2 or layers % every:
        raise UnsupportedConfig("layer_types does not end in full_attention behind sliding_attention")
    shares = _flag(config, row.shares_values)
    if row.by_layer in config:
        sizes = _saved_heads(config[row.by_layer], row.by_layer, list(range(every - 1, layers, every)))
    else:
        wider = config.get(row.kv_heads) if shares else None
        sizes = {"head_dim": config.get(row.head_dim.name, row.head_dim.default), "num_key_value_heads": wider}
    own = {key: value for key, value in sizes.items() if value is not None}
    kv_heads, head_dim = (_integer({**config, **own}, key) for key in ("num_key_value_heads", "head_dim"))
    return WholeAttention(kv_heads, head_dim, shares)


def _saved_heads(by_layer: Any, key: str, whole: list[int]) -> Mapping[str, Any]:
    """What all layers without a window have in a saved configuration."""
    named = {int(layer): sizes for layer, sizes in by_layer.items()} if isinstance(by_layer, dict) else {}
    first = named.get(whole[0])
    if sorted(named) != whole or any(sizes != first for sizes in named.values()):
        raise UnsupportedConfig(f"{key} does not give the layers of full_attention, and only these, the same heads")
    return first or {}


def _mixers(config: Mapping[str, Any], row: MixerType) -> dict[str, Any]:
    """The mixer of a hybrid, and which layers have attention instead; nothing where all of them have."""
    config = _kinds_renamed(config, row)
    if row.optional and set(config.get("layer_types") or ()) == {_WHOLE}:
        return {}
    for key in row.built:
        if _flag(config, key) != key.default:
            raise UnsupportedConfig(f"{key.name} is {'off' if key.default else 'on'}, which is not built")
    sizes = {**{key.name: key.default for key in row.fields.values()}, **config, **_head(config, row)}
    fields = {field: _integer(sizes, key.name) for field, key in row.fields.items()}
    return {"mixer": row.shape(**fields), **_attending(config, row)}


def _kinds_renamed(config: Mapping[str, Any], row: MixerType) -> Mapping[str, Any]:
    """With the kinds of layers as transformers 5 has them."""
    if not isinstance(kinds := config.get("layer_types"), list):
        return config
    return {**config, "layer_types": [row.older.get(kind, kind) for kind in kinds]}


def _head(config: Mapping[str, Any], row: MixerType) -> dict[str, int]:
    """The features of a head of the mixer, where the inner width over the hidden size gives them."""
    if row.expand is None:
        return {}
    width = _integer({row.expand.name: row.expand.default, **config}, row.expand.name) * config["hidden_size"]
    heads, head = (row.fields[field] for field in ("heads", "head_dim"))
    count = _integer({heads.name: heads.default, **config}, heads.name)
    stated = config.get(head.name, "auto")
    if width % count or stated not in ("auto", width // count):
        raise UnsupportedConfig(f"{heads.name} times {head.name} is not {row.expand.name} times hidden_size")
    return {head.name: width // count}


def _attending(config: Mapping[str, Any], row: MixerType) -> dict[str, Any]:
    """Which layers of a hybrid have attention: every n-th, or the listed ones."""
    layers = _integer(config, "num_hidden_layers")
    if config.get("layer_types") is not None:
        return _places(_whole_layers(config["layer_types"], layers, row.layer_type), layers)
    if row.every:
        return {"full_attention_every": _integer({row.every.name: row.every.default, **config}, row.every.name)}
    if not row.listed or not config.get(row.listed):
        raise UnsupportedConfig("layer_types does not say which layers have attention", ("layer_types",))
    return _places(list(config[row.listed]), layers)


def _places(whole: list[int], layers: int) -> dict[str, Any]:
    """How the layers with attention are told: by their distance where it is the same everywhere."""
    every = _distance(whole, layers)
    return {"attention_at": tuple(whole)} if every is None else {"full_attention_every": every}


def layer_keys(architecture: Architecture) -> dict[str, Any]:
    """The keys of a config.json that tell these layers apart, with their windows or mixers; the way back of
    `architecture_from_config`."""
    row = MODEL_TYPES[architecture.model_type]
    if row.mixer:
        types = {"layer_types": _layer_types(architecture, row.mixer.layer_type)}
        return types | _mixer_keys(architecture, row.mixer)
    if not row.windowed:
        return {}
    switch = {"use_sliding_window": architecture.sliding_window is not None} if row.windowed == "switch" else {}
    types = {"layer_types": _layer_types(architecture)} if row.layers_differ else {}
    return {"sliding_window": architecture.sliding_window, **switch, **types, **_whole_keys(architecture, row.whole)}


def _mixer_keys(architecture: Architecture, row: MixerType) -> dict[str, int]:
    """The keys that give the shape of the mixer; where there is none, heads that any hidden size has."""
    mixer = architecture.mixer
    if mixer is None:
        return {row.fields["heads"].name: 1}
    shape = {key.name: getattr(mixer, field) for field, key in row.fields.items()}
    expand = {row.expand.name: mixer.inner // architecture.hidden_size} if row.expand else {}
    return shape | expand


def _whole_keys(architecture: Architecture, row: WholeType | None) -> dict[str, Any]:
    """The keys that give the heads of the layers without a window; what is not built is off."""
    if row is None or architecture.whole is None:
        return {}
    whole = architecture.whole
    return {
        row.head_dim.name: whole.head_dim,
        row.shares_values.name: whole.shares_values,
        row.kv_heads: whole.num_kv_heads if whole.shares_values else None,
        **{key.name: type(key.default)(0) for key in row.unbuilt},
    }


def flag_keys(architecture: Architecture) -> dict[str, bool]:
    """The keys of a config.json for what it switches on or off; what the class decides needs none."""
    row = MODEL_TYPES[architecture.model_type]
    flags = (
        (row.qkv_bias, architecture.attention_bias),
        (row.output_bias, architecture.output_bias),
        (row.mlp_bias, architecture.mlp_bias),
        (row.qk_norm_switch, architecture.qk_norm is not None),
        (_ADJUSTS if row.adjusts_width else None, False),
    )
    return {flag.name: value for flag, value in flags if isinstance(flag, Key)}


def expert_keys(architecture: Architecture) -> dict[str, Any]:
    """The keys of a config.json that give these experts; the first layers are the plain ones."""
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
    if row.shared:
        keys[row.shared] = experts.shared_intermediate_size
    if row.shared_count:
        keys[row.shared_count] = experts.shared_intermediate_size // experts.intermediate_size
    if row.dense_first:
        keys[row.dense_first] = experts.dense_layers
    if row.sparse_steps:
        keys |= {"decoder_sparse_step": 1, "mlp_only_layers": list(range(experts.dense_layers))}
    return keys


def _without_experts(row: MoeType) -> dict[str, Any]:
    """The key of a type that may have experts for a model that has none."""
    return {row.switch.name: False} if row.switch else {row.count: 0}


def _layer_types(architecture: Architecture, other: str = _WINDOWED) -> list[str]:
    """What transformers calls the layers."""
    layers = range(architecture.num_layers)
    return [other if architecture.windowed(n) or architecture.kind(n).mixer else _WHOLE for n in layers]


def _full_attention_every(config: Mapping[str, Any], row: ModelType) -> int:
    """Every how many layers one has no window; 0 where all have it."""
    if not row.layers_differ:
        return 0
    if config.get("layer_types") is not None:
        return _listed(config["layer_types"], _integer(config, "num_hidden_layers"))
    if row.windowed == "switch":
        raise UnsupportedConfig("use_sliding_window without layer_types does not say which layers", ("layer_types",))
    if row.pattern_key and config.get(row.pattern_key) is not None:
        return _integer(config, row.pattern_key)
    return row.full_attention_every


def _listed(kinds: Any, layers: int) -> int:
    every = _distance(_whole_layers(kinds, layers, _WINDOWED), layers)
    if every is None:
        raise UnsupportedConfig("layer_types is not one full_attention in every so many layers")
    return every


def _whole_layers(kinds: Any, layers: int, other: str) -> list[int]:
    """The layers that attend to the whole sequence."""
    known = (other, _WHOLE)
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in known for kind in kinds):
        raise UnsupportedConfig(f"layer_types is not a list of {layers} times {' or '.join(known)}")
    return [layer for layer, kind in enumerate(kinds) if kind == _WHOLE]


def _distance(whole: list[int], layers: int) -> int | None:
    """Every how many layers one is of `whole`; 0 where none is, None where they are not that regular."""
    every = whole[0] + 1 if whole else 0
    regular = list(range(every - 1, layers, every)) if every else []
    return every if whole == regular else None


def _experts(config: Mapping[str, Any], row: ModelType) -> Experts | None:
    if row.moe is None or not _has_experts(config, row.moe):
        return None
    return Experts(
        count=_integer(config, row.moe.count),
        per_token=_integer(config, row.moe.per_token),
        intermediate_size=_integer(config, row.moe.intermediate),
        block=row.moe.block,
        shared_intermediate_size=_shared(config, row.moe, _integer(config, row.intermediate)),
        shared_gate=bool(row.moe.shared),
        dense_layers=_dense_layers(config, row.moe),
        bias=row.moe.bias,
        balanced=row.moe.balanced,
        norms=row.moe.norms,
        router=row.moe.router,
        gate_up=row.moe.gate_up,
        down=row.moe.down,
    )


def _has_experts(config: Mapping[str, Any], row: MoeType) -> bool:
    """Whether a model of a type that may have experts has them."""
    if row.switch:
        return _flag(config, row.switch)
    return not (row.optional and config.get(row.count) == 0)


def _shared(config: Mapping[str, Any], row: MoeType, plain: int) -> int:
    """Width of the MLP that every token passes beside the experts; 0 where there is none."""
    if row.shared_count:
        return _count(config, row.shared_count) * _integer(config, row.intermediate)
    if row.beside:
        return plain
    return _integer(config, row.shared) if row.shared else 0


def _dense_layers(config: Mapping[str, Any], row: MoeType) -> int:
    """Layers without experts: the first ones, or those of the test of the Qwen MoE decoder layers."""
    if row.dense_first:
        return min(_count(config, row.dense_first), _integer(config, "num_hidden_layers"))
    if not row.sparse_steps:
        return 0
    step, listed = config.get("decoder_sparse_step", 1), config.get("mlp_only_layers") or []
    layers = range(_integer(config, "num_hidden_layers"))
    return sum(layer in listed or (layer + 1) % step != 0 for layer in layers)


def _flag(config: Mapping[str, Any], flag: bool | Key) -> bool:
    return flag if isinstance(flag, bool) else bool(config.get(flag.name, flag.default))


def _count(config: Mapping[str, Any], key: str) -> int:
    """A number that may be 0."""
    return 0 if config[key] == 0 and config[key] is not False else _integer(config, key)


def _integer(config: Mapping[str, Any], key: str) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UnsupportedConfig(f"{key} is {value!r}, not a positive whole number")
    return value

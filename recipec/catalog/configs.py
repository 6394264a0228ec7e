"""From a transformers config.json to an Architecture, or a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture, WholeAttention
from recipec.catalog.config_chunks import chunk_keys, chunks_of
from recipec.catalog.config_experts import experts_of, has_experts
from recipec.catalog.config_inputs import borrowing_of, input_keys, inputs_of
from recipec.catalog.config_positions import context_of
from recipec.catalog.config_values import (
    OddValue,
    UnbuiltType,
    UnsupportedConfig,
    divides,
    flag,
    integer,
    places,
    positive,
    share,
    shown,
)
from recipec.catalog.mixer_configs import mixer_keys, mixer_of
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.patterns import kinds_in, pattern_keys, with_pattern
from recipec.catalog.refused import why_no_type
from recipec.catalog.type_row import Key, MixerType, ModelType, PatternType, WholeType

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


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that transformers 5.23 builds from `config`; raises UnsupportedConfig where it is not exact."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise UnsupportedConfig("the configuration names no model_type", ("model_type",))
    if why := why_no_type(model_type):
        raise UnbuiltType(model_type, why)
    if model_type not in MODEL_TYPES:
        raise UnsupportedConfig(
            f"model_type {shown(model_type)} is not one of the supported ones: {', '.join(sorted(MODEL_TYPES))}"
        )
    row = MODEL_TYPES[model_type]
    if row.moe and row.moe.count not in config and row.moe.count_saved in config:
        config = {**config, row.moe.count: config[row.moe.count_saved]}
    config = with_pattern(config, row.pattern)
    _refuse_missing(model_type, config, row)
    config = _as_written_today(config, row)
    sizes = {field: integer(config, key) for field, key in _sizes(row).items()}
    sizes["max_position"] = context_of(config, sizes["max_position"])
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
    if not row.adjusts_width or not flag(config, _ADJUSTS):
        return width
    width, multiplier = int(2 * width / 3), {"block_ffn_dim_multiplier": 1.0, **config}
    if multiplier["block_ffn_dim_multiplier"] is None:
        return width
    factor = positive(multiplier, "block_ffn_dim_multiplier")
    multiple = integer({"block_multiple_of": 256, **config}, "block_multiple_of")
    return -(-int(factor * width) // multiple) * multiple


def _sizes(row: ModelType) -> dict[str, str]:
    """Field of the architecture -> its key in config.json."""
    return _SIZES | {"intermediate_size": row.intermediate}


def _required(config: Mapping[str, Any], row: ModelType) -> tuple[str, ...]:
    keys = list(_sizes(row).values())
    if not row.kv_heads_optional:
        keys.append("num_key_value_heads")
    if row.moe and not row.moe.switch and not row.pattern:
        keys.append(row.moe.count)
    if row.moe and has_experts(config, row):
        keys += [row.moe.count, row.moe.per_token, row.moe.intermediate]
        keys += [key for key in (row.moe.shared, row.moe.shared_count, row.moe.dense_first) if key]
    return tuple(dict.fromkeys(keys))


def _refuse_missing(model_type: str, config: Mapping[str, Any], row: ModelType) -> None:
    missing = tuple(key for key in _required(config, row) if key not in config)
    if missing:
        raise UnsupportedConfig(f"the {model_type} configuration lacks {', '.join(missing)}", missing)


def _heads(config: Mapping[str, Any], row: ModelType) -> dict[str, int]:
    """Head dimension and key-value heads, with the class defaults where the key is absent or null."""
    heads = integer(config, "num_attention_heads")
    derived = row.head_dim if row.head_dim and "head_dim" not in config else integer(config, "hidden_size") // heads
    optional = {
        "head_dim": ("head_dim", derived),
        "num_kv_heads": ("num_key_value_heads", heads),
    }
    sizes = {
        field: fallback if config.get(key) is None else integer(config, key)
        for field, (key, fallback) in optional.items()
    }
    divides("num_key_value_heads", sizes["num_kv_heads"], heads)
    return sizes


def _parts(config: Mapping[str, Any], row: ModelType) -> dict[str, Any]:
    return {
        "tie_embeddings": row.ties is not None and flag(config, Key("tie_word_embeddings", row.ties)),
        "decoder_layer": row.decoder_layer,
        **_layers(config, row),
        "attention_bias": flag(config, row.qkv_bias),
        "output_bias": flag(config, row.output_bias),
        "mlp_bias": flag(config, row.mlp_bias),
        "norm_bias": row.norm_bias,
        "qk_norm": row.qk_norm if row.qk_norm_switch is None or flag(config, row.qk_norm_switch) else None,
        "attention_sinks": row.sinks,
        "attention_dropout": share(config, "attention_dropout"),
        "attention_gate": row.output_gate,
        "values_normed": row.values_normed,
        "gated_mlp": row.gated,
        "norms_per_layer": row.norms,
        "layer_inputs": inputs_of(config, row.layer_inputs),
        "moe": experts_of(config, row),
        "modules": row.modules,
    }


def _layers(config: Mapping[str, Any], row: ModelType) -> dict[str, Any]:
    """What tells the layers apart: a pattern, a mixer in place of attention, chunks or windows."""
    if row.pattern:
        return _pattern(config, row.pattern, row.mixer)
    if row.chunks:
        return chunks_of(config, row.chunks)
    return _mixers(config, row.mixer) if row.mixer else _windows(config, row)


def _windows(config: Mapping[str, Any], row: ModelType) -> dict[str, int]:
    """The window, and which layers attend to everything; nothing where no layer has a window."""
    off = not row.windowed or (row.windowed == "switch" and not config.get("use_sliding_window"))
    if off or config.get("sliding_window", row.window) is None:
        return {}
    every = _full_attention_every(config, row)
    window = integer({"sliding_window": row.window, **config}, "sliding_window")
    if row.whole:
        whole = _whole(config, row.whole, every)
        borrowing = borrowing_of(config, row, every)
        return {"sliding_window": window, "full_attention_every": every, "whole": whole, **borrowing}
    return {} if every == 1 else {"sliding_window": window, "full_attention_every": every}


def _whole(config: Mapping[str, Any], row: WholeType, every: int) -> WholeAttention:
    """The heads of the layers without a window; a saved configuration has them layer by layer."""
    if on := [key.name for key in row.unbuilt if config.get(key.name, key.default)]:
        raise UnsupportedConfig(f"{' and '.join(on)} {'are' if len(on) > 1 else 'is'} on, which is not built")
    layers = integer(config, "num_hidden_layers")
    if every < 2 or layers % every:
        raise UnsupportedConfig("layer_types does not end in full_attention behind sliding_attention")
    shares = flag(config, row.shares_values)
    if row.by_layer in config:
        sizes = _saved_heads(config[row.by_layer], row.by_layer, list(range(every - 1, layers, every)))
    else:
        wider = config.get(row.kv_heads) if shares else None
        sizes = {"head_dim": config.get(row.head_dim.name, row.head_dim.default), "num_key_value_heads": wider}
    own = {key: value for key, value in sizes.items() if value is not None}
    kv_heads, head_dim = (integer({**config, **own}, key) for key in ("num_key_value_heads", "head_dim"))
    divides(row.kv_heads, kv_heads, integer(config, "num_attention_heads"))
    return WholeAttention(kv_heads, head_dim, shares)


def _saved_heads(by_layer: Any, key: str, whole: list[int]) -> Mapping[str, Any]:
    """What all layers without a window have in a saved configuration, which names them as "05" or "5"."""
    stated = by_layer if isinstance(by_layer, dict) else {}
    named = {str(layer).lstrip("0") or "0": sizes for layer, sizes in stated.items()}
    first = named.get(str(whole[0])) or {}
    alike = isinstance(first, dict) and all((sizes or {}) == first for sizes in named.values())
    if named.keys() != {*map(str, whole)} or not alike:
        raise UnsupportedConfig(f"{key} does not give the layers of full_attention, and only these, the same heads")
    return first


def _mixers(config: Mapping[str, Any], row: MixerType) -> dict[str, Any]:
    """The mixer of a hybrid, and which layers have attention instead; nothing where all of them have."""
    config = _kinds_renamed(config, row)
    kinds = config.get("layer_types")
    if row.optional and isinstance(kinds, list) and kinds and kinds.count(_WHOLE) == len(kinds):
        return {}
    return {"mixer": mixer_of(config, row), **_attending(config, row)}


def _pattern(config: Mapping[str, Any], row: PatternType, mixer: MixerType | None) -> dict[str, Any]:
    """The kind of every layer, and the mixer where one of them has it."""
    kinds = kinds_in(config, row)
    mixes = mixer is not None and any(kind.mixer for kind in kinds)
    return {"pattern": kinds, "mixer": mixer_of(config, mixer) if mixes else None}


def _kinds_renamed(config: Mapping[str, Any], row: MixerType) -> Mapping[str, Any]:
    """With the kinds of layers as transformers 5 has them."""
    if not isinstance(kinds := config.get("layer_types"), list):
        return config
    return {**config, "layer_types": [row.older.get(str(kind), kind) for kind in kinds]}


def _attending(config: Mapping[str, Any], row: MixerType) -> dict[str, Any]:
    """Which layers of a hybrid have attention: every n-th, or the listed ones."""
    layers = integer(config, "num_hidden_layers")
    if config.get("layer_types") is not None:
        return _places(_whole_layers(config["layer_types"], layers, row.layer_type), layers)
    if row.every:
        return {"full_attention_every": integer({row.every.name: row.every.default, **config}, row.every.name)}
    if not row.listed or not config.get(row.listed):
        raise UnsupportedConfig("layer_types does not say which layers have attention", ("layer_types",))
    return _places(places(config, row.listed), layers)


def _places(whole: list[int], layers: int) -> dict[str, Any]:
    """How the layers with attention are told: by their distance where it is the same everywhere."""
    every = _distance(whole, layers)
    return {"attention_at": tuple(whole)} if every is None else {"full_attention_every": every}


def layer_keys(architecture: Architecture) -> dict[str, Any]:
    """The keys of a config.json that tell these layers apart, with their windows or mixers; the way back of
    `architecture_from_config`."""
    row = MODEL_TYPES[architecture.model_type]
    if row.pattern:
        mixer = mixer_keys(architecture, row.mixer) if architecture.mixer and row.mixer else {}
        return pattern_keys(architecture, row.pattern) | mixer
    if row.mixer:
        types = {"layer_types": _layer_types(architecture, row.mixer.layer_type)}
        return types | mixer_keys(architecture, row.mixer)
    if row.chunks:
        return chunk_keys(architecture, row.chunks)
    if not row.windowed:
        return {}
    switch = {"use_sliding_window": architecture.sliding_window is not None} if row.windowed == "switch" else {}
    types = {"layer_types": _layer_types(architecture)} if row.layers_differ else {}
    others = _whole_keys(architecture, row.whole) | input_keys(architecture, row)
    return {"sliding_window": architecture.sliding_window, **switch, **types, **others}


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


def _layer_types(architecture: Architecture, other: str = _WINDOWED) -> list[str]:
    """What transformers calls the layers."""
    layers = range(architecture.num_layers)
    return [other if architecture.windowed(n) or architecture.kind(n).mixer else _WHOLE for n in layers]


def _full_attention_every(config: Mapping[str, Any], row: ModelType) -> int:
    """Every how many layers one has no window; 0 where all have it."""
    if not row.layers_differ:
        return 0
    if config.get("layer_types") is not None:
        return _listed(config["layer_types"], integer(config, "num_hidden_layers"))
    if row.windowed == "switch":
        raise UnsupportedConfig("use_sliding_window without layer_types does not say which layers", ("layer_types",))
    if row.pattern_key and config.get(row.pattern_key) is not None:
        return integer(config, row.pattern_key)
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
        raise OddValue(f"layer_types is not a list of {layers} times {' or '.join(known)}")
    return [layer for layer, kind in enumerate(kinds) if kind == _WHOLE]


def _distance(whole: list[int], layers: int) -> int | None:
    """Every how many layers one is of `whole`; 0 where none is, None where they are not that regular."""
    every = whole[0] + 1 if whole else 0
    regular = list(range(every - 1, layers, every)) if every else []
    return every if whole == regular else None

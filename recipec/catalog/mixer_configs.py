"""The shape of a hybrid's mixer from a transformers config.json, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import UnsupportedConfig, flag, integer
from recipec.catalog.mixers import Mixer
from recipec.catalog.type_row import Key, MixerType


def mixer_of(config: Mapping[str, Any], row: MixerType) -> Mixer:
    """Its shape, as the class builds it."""
    for key in row.built:
        if flag(config, key) != key.default:
            raise UnsupportedConfig(f"{key.name} is {'off' if key.default else 'on'}, which is not built")
    sizes = {**{key.name: key.default for key in row.fields.values()}, **config, **_head(config, row)}
    switches = {field: flag(config, key) for field, key in row.flags.items()}
    return row.shape(**{field: integer(sizes, key.name) for field, key in row.fields.items()}, **switches)


def _head(config: Mapping[str, Any], row: MixerType) -> dict[str, int]:
    """The features of a head of the mixer, where the inner width over the hidden size gives them."""
    if row.expand is None:
        return {}
    width = integer({row.expand.name: row.expand.default, **config}, row.expand.name) * config["hidden_size"]
    if row.inner and config.get(row.inner.name, row.inner.default) is not None:
        width = integer({row.inner.name: row.inner.default, **config}, row.inner.name)
    heads, head = (row.fields[field] for field in ("heads", "head_dim"))
    count = integer({heads.name: heads.default, **config}, heads.name)
    stated = config.get(head.name, "auto")
    if width % count or stated not in ("auto", width // count):
        inner = f"{row.inner.name} or " if row.inner else ""
        raise UnsupportedConfig(f"{heads.name} times {head.name} is not {inner}{row.expand.name} times hidden_size")
    return {head.name: width // count}


def mixer_keys(architecture: Architecture, row: MixerType) -> dict[str, int]:
    """The keys that give the shape of the mixer; where there is none, heads that any hidden size has."""
    mixer = architecture.mixer
    if mixer is None:
        return {row.fields["heads"].name: 1}
    shape = {key.name: getattr(mixer, field) for field, key in row.fields.items()}
    shape |= {key.name: getattr(mixer, field) for field, key in row.flags.items() if isinstance(key, Key)}
    if row.inner:
        return shape | {row.inner.name: mixer.inner}
    return shape | ({row.expand.name: mixer.inner // architecture.hidden_size} if row.expand else {})

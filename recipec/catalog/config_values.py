"""Values of a transformers config.json, each as it must be, or a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.type_row import Key

MOST = 2**31 - 1  # no size of a model comes near it
_MOST_LAYERS = 10_000  # they are looked at one by one
_MOST_SHOWN = 60  # characters


class UnsupportedConfig(Exception):
    """A configuration that does not give an exact architecture: the reason, and the keys that would be needed."""

    def __init__(self, reason: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


class OddValue(UnsupportedConfig):
    """A value that no release of transformers writes, so that the file may be damaged."""

    def __init__(self, reason: str, file: str = "config.json") -> None:
        super().__init__(reason)
        self.file = file


class UnbuiltType(UnsupportedConfig):
    """A configuration of a type that is known and not built: the shape of no other model stands for it."""

    def __init__(self, model_type: str, why: str) -> None:
        super().__init__(f"model_type {shown(model_type)} is not built: {why}")
        self.model_type = model_type


def flag(config: Mapping[str, Any], wanted: bool | Key) -> bool:
    """A switch; what is no key is given by the class."""
    return wanted if isinstance(wanted, bool) else bool(config.get(wanted.name, wanted.default))


def count(config: Mapping[str, Any], key: str) -> int:
    """A number that may be 0."""
    return 0 if config[key] == 0 and config[key] is not False else integer(config, key)


def share(config: Mapping[str, Any], key: str) -> float:
    """A number from 0 to below 1; 0 where there is none."""
    value = config.get(key) or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise OddValue(f"{key} is {shown(value)}, not a number from 0 to below 1")
    return float(value)


def positive(config: Mapping[str, Any], key: str) -> float:
    """A number above 0."""
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise OddValue(f"{key} is {shown(value)}, not a number above 0 and up to {MOST}")
    return value


def places(config: Mapping[str, Any], key: str) -> list[int]:
    """A list of whole numbers, one or none for each layer; nothing where there is none."""
    values = config.get(key) or []
    if not isinstance(values, list) or any(not isinstance(value, int) or value < 0 for value in values):
        raise OddValue(f"{key} is {shown(values)}, not a list of whole numbers")
    return values


def integer(config: Mapping[str, Any], key: str) -> int:
    """A positive whole number that a size can be."""
    value, most = config[key], _MOST_LAYERS if key == "num_hidden_layers" else MOST
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OddValue(f"{key} is {shown(value)}, not a positive whole number")
    if value > most:
        raise OddValue(f"{key} is {shown(value)}, more than the {most} that recipec reads")
    return value


def divides(key: str, value: int, heads: int) -> None:
    """Refuse key-value heads that cannot each serve as many heads: attention repeats them up to the others' number."""
    if heads % value:
        raise OddValue(f"{key} is {shown(value)}, which does not divide num_attention_heads ({heads})")


def shown(value: Any) -> str:
    """A value in a message: its beginning where it is long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
